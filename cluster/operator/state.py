"""What the operator sees (`Pod`) and what it remembers (`RunRecord`, `Memory`) of a session's runs.

Guarantees: frozen values; `Memory` goes through JSON unchanged, since it outlives the process. A record is a run's
status: its latest report, and how far the control plane has acknowledged it. Reports are cumulative, so the latest
unacknowledged one is all that ever has to be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict

from gshare_core.contract import MigSlice, Phase, Reason, StatusReport

_NO_ENDPOINTS: Mapping[str, str] = MappingProxyType({})


class Unavailable(Exception):
    """Somebody else (cluster, control plane, disk) cannot answer now; the same call may succeed later."""


class Later(Unavailable):
    """It is not this one's turn yet: nothing is wrong, the next look tries again."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod cannot start: a reason of `failed` and the words of whoever said so."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Pod:
    """One run as the substrate sees it now, until it is removed. `generation` is the one that it was made for.

    `alive`: something of it still runs. `alive_at`: its latest proof of life, never later than the observation.
    `ready`: every application answered since it last started. `exited`: its program ended by itself without an error.
    `crashed_at`: each exit that called for a restart, oldest first; `words` are its program's own last words.
    `lost`: it ended or is ending although neither its program nor we asked for it, a reason of `gone`.
    `stopping_since`: its end was asked for at that moment, by whomever.
    `is_open`: what leads to it from outside is there, as far as this process knows; False only where that is made apart from it.
    """

    session: UUID
    run: int
    generation: int
    name: str
    node: str
    alive: bool
    alive_at: datetime | None
    ready: bool = False
    pulling: bool = False
    exited: bool = False
    cards: tuple[str, ...] = ()
    mig: MigSlice | None = None
    crashed_at: tuple[datetime, ...] = ()
    words: str = ""
    trouble: Trouble | None = None
    lost: Reason | None = None
    stopping_since: datetime | None = None
    is_open: bool = True
    endpoints: Mapping[str, str] = field(default_factory=lambda: _NO_ENDPOINTS)


class _Remembered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Outcome(_Remembered):
    """How a run's program ended: by itself, or failed for a reason. It stands until the control plane asks for more."""

    phase: Literal[Phase.EXITED, Phase.FAILED]
    reason: Reason | None = None
    message: str = ""


class RunRecord(_Remembered):
    """One run: what was observed of it, its fate, its latest report.

    `ending`: why it will be gone, once that is decided; never taken back. `gone`: nothing of it exists any more and
    none will be made. `report` is acknowledged when `acknowledged` has reached its sequence.
    """

    run: int
    generation: int
    ready_at: AwareDatetime | None = None
    last_alive_at: AwareDatetime | None = None
    pod: str | None = None
    node: str | None = None
    cards: tuple[str, ...] = ()
    mig: MigSlice | None = None
    outcome: Outcome | None = None
    ending: Reason | None = None
    gone: Reason | None = None
    report: StatusReport | None = None
    acknowledged: int = -1

    @property
    def pending(self) -> bool:
        """Whether its latest report still has to be acknowledged."""
        return self.report is not None and self.report.sequence > self.acknowledged

    def but_proof(self) -> dict[str, Any]:
        """Everything but the proof of life, to be compared: that moves at every look, and decides nothing."""
        return dict(self) | {"last_alive_at": None}

    @property
    def finished(self) -> bool:
        """Gone, and the control plane knows."""
        return self.gone is not None and not self.pending


class Memory(_Remembered):
    """Everything remembered of one session: a record per run that is not finished, and always the newest run's."""

    session: UUID
    records: tuple[RunRecord, ...] = ()

    def record(self, run: int) -> RunRecord | None:
        """The record of a run, if it is remembered."""
        return next((record for record in self.records if record.run == run), None)

    @property
    def newest(self) -> tuple[int, int]:
        """The greatest (run, generation) that was ever observed; older documents are stale."""
        return max(((record.run, record.generation) for record in self.records), default=(0, 0))

    @property
    def last_sequence(self) -> int:
        """The greatest sequence used so far."""
        return max((record.report.sequence for record in self.records if record.report), default=-1)

    def lived(self, run: int, alive_at: datetime | None) -> Memory:
        """The memory after a newer proof of life of a run."""
        records = tuple(
            record.model_copy(update={"last_alive_at": _later(record.last_alive_at, alive_at)})
            if record.run == run
            else record
            for record in self.records
        )
        return self.model_copy(update={"records": records})

    def acknowledge(self, run: int, sequence: int) -> Memory:
        """The memory after the control plane accepted that report; a newer one stays pending."""
        return self.model_copy(
            update={
                "records": tuple(
                    record.model_copy(update={"acknowledged": max(record.acknowledged, sequence)})
                    if record.run == run
                    else record
                    for record in self.records
                )
            }
        )


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment), default=None)
