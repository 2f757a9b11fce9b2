"""What an operator reports of one run, and where its applications listen."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from gshare_core.contract.desired import MigSlice, SessionSpec
from gshare_core.contract.names import MESSAGE_BYTES, REASONS_OF, Phase, Reason
from gshare_core.contract.wire import CardUuid, Document, Moment, Natural, Positive, Text


class StatusReport(Document):
    """Body of `POST /internal/v1/sessions/{id}/status`. Cumulative: the latest tells everything about its run.

    `ready_at` is when the run first answered, `last_alive_at` its last proof of life, `observed_at` when the operator
    looked, `sent_at` when this try was sent, all on the sender's clock.
    """

    run: Positive
    generation: Positive
    sequence: Natural
    phase: Phase
    reason: Reason | None = None
    message: str = ""
    pod: Annotated[Text, Field(max_length=253)] | None = None
    node: Annotated[Text, Field(max_length=253)] | None = None
    cards: tuple[CardUuid, ...] = ()
    mig: MigSlice | None = None
    ready_at: Moment | None = None
    last_alive_at: Moment | None = None
    observed_at: Moment
    sent_at: Moment
    endpoints: Mapping[Text, Text] = Field(default_factory=dict)

    @field_validator("message")
    @classmethod
    def _message_is_short(cls, message: str) -> str:
        return clip_message(message)

    @model_validator(mode="after")
    def _reason_fits_phase(self) -> Self:
        allowed = REASONS_OF.get(self.phase)
        if allowed is None and self.reason is not None:
            raise ValueError(f"phase {self.phase} has no reason")
        if allowed is not None and self.reason not in allowed:
            raise ValueError(f"phase {self.phase} needs one of the reasons {sorted(allowed)}")
        return self

    @property
    def order(self) -> tuple[int, int, int]:
        """What makes one report newer than another: (run, generation, sequence)."""
        return (self.run, self.generation, self.sequence)


def clip_message(message: str) -> str:
    """At most `MESSAGE_BYTES` of UTF-8 without control characters; the end is kept, errors stand last."""
    plain = "".join(char if char.isprintable() or char in "\n\t" else " " for char in message)
    return plain.encode()[-MESSAGE_BYTES:].decode(errors="ignore")


def is_newer(candidate: StatusReport | SessionSpec, known: tuple[int, ...] | None) -> bool:
    """Whether a report or a document comes after what is known of it, by its `order`; an equal one is stale."""
    return known is None or candidate.order > known


def next_sequence(last: int, unix_milliseconds: int) -> int:
    """The sequence of a new report: grows by every call and cannot be turned back by a lost state."""
    return max(last + 1, unix_milliseconds)


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    """An application on a loopback address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixEndpoint:
    """An application on a unix socket; the receiver checks that it lies below `$GSHARE_HOME`."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


Endpoint = TcpEndpoint | UnixEndpoint


def parse_endpoint(text: str) -> Endpoint:
    """``127.0.0.1:40123``, ``[::1]:40123`` or ``unix:/absolute/path``. Raises ValueError for anything else."""
    if text.startswith("unix:"):
        path = PurePosixPath(text.removeprefix("unix:"))
        if not path.is_absolute() or ".." in path.parts:
            raise ValueError("a socket needs an absolute, plain path")
        return UnixEndpoint(str(path))
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("an endpoint is host:port or unix:path")
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError("an endpoint must be on a loopback address")
    return TcpEndpoint(host, int(port))
