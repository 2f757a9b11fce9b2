"""The control plane as the operator calls it: HTTP with a bearer token from a file.

Guarantees: the token file is looked at again at each try, so that a token that was replaced or revoked counts at once; a
renewed token is written back for the next process; an answer is taken only when it says 2xx.
Refuses: nothing for good. `Refused` means that this try was understood and turned down; whether to try again is the
caller's decision (a report is tried until it is taken).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib.util
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.operator.state import Unavailable
from cluster.operator.store import write_atomically
from gshare_core.clock import Clock
from gshare_core.contract import (
    HEADER_STALE,
    BadRow,
    DesiredFeed,
    Inventory,
    StatusReport,
    app_token,
)

log = logging.getLogger(__name__)

if importlib.util.find_spec("sniffio") is None:
    # httpcore tries to import it at each lock that it makes, and where it is absent every folder of modules is searched
    # for it each time: a quarter of what a report costs. So it is told at once.
    sys.modules["sniffio"] = None  # type: ignore[assignment]

REQUEST_SECONDS = 10.0
_RENEWAL_LOOK_SECONDS = 60.0
_DETAIL_CHARACTERS = 300
_SETTLED_SECONDS = 2.0
_NONE: Mapping[str, str] = MappingProxyType({})
_JSON: Mapping[str, str] = MappingProxyType({"Content-Type": "application/json"})


class Refused(Exception):
    """The control plane answered, and not with 2xx."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class Credentials(BaseModel):
    """The token file: the bearer token, the cluster it speaks for, the key that app tokens are made with."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    token: str = Field(min_length=1)
    cluster: UUID
    cluster_key: str = Field(pattern=r"^([0-9a-fA-F]{2}){16,}$")

    @property
    def lifetime(self) -> tuple[datetime, datetime] | None:
        """When the token was issued and when it expires; None when it does not say (the receiver verifies, not we)."""
        try:
            payload = self.token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return tuple(datetime.fromtimestamp(claims[key], UTC) for key in ("iat", "exp"))  # type: ignore[return-value]
        except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
            return None

    def as_json(self) -> str:
        """What stands in the file."""
        return json.dumps(self.model_dump(mode="json"))


class TokenFile:
    """Where the credentials are. Looked at at each use, and read again unless it is certain that nothing was written."""

    def __init__(self, path: Path, seconds: Callable[[], float] = time.time) -> None:
        """`seconds`: the clock that the times of files are compared with."""
        self.path, self._seconds = path, seconds
        self._known: tuple[tuple[int, ...], Credentials] | None = None

    def read(self) -> Credentials:
        """The credentials. Raises `Unavailable` while the file is missing or unreadable; says why, never what."""
        try:
            if self._known is not None and self._known[0] == _signature(self.path.stat()):
                return self._known[1]
            return self._read()
        except OSError as error:
            raise Unavailable(f"the token file {self.path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise Unavailable(f"the token file {self.path} is not a token file") from error

    def _read(self) -> Credentials:
        with self.path.open("rb") as file:
            before = os.fstat(file.fileno())
            found = Credentials.model_validate_json(file.read())
        # What was written a moment ago may be written again at what the clock of files calls the same time.
        is_settled = self._seconds() - before.st_ctime > _SETTLED_SECONDS
        self._known = (_signature(before), found) if is_settled else None
        return found

    async def keep(self, credentials: Credentials) -> None:
        """Replace the credentials; readable by the operator alone. Raises `Unavailable` where the file cannot be written."""
        try:
            write_atomically(self.path, credentials.as_json())
        except OSError as error:
            raise Unavailable(f"the token file {self.path} cannot be written: {error.strerror}") from error

    def app_token(self, session: UUID, run: int) -> str:
        """The app token of a run. Raises `Unavailable`."""
        return app_token(bytes.fromhex(self.read().cluster_key), session, run)


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class ControlPlane:
    """Calls of `/internal/v1`. Every method raises `Unavailable` or `Refused`. `transport`: another way than TCP."""

    def __init__(self, url: str, tokens: TokenFile, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.tokens, self._url = tokens, url.rstrip("/")
        # Not httpx' client, which looks at each call for redirects, cookies and ways to sign in that are not used here.
        self._transport = transport or httpx.AsyncHTTPTransport(trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._transport.aclose()

    async def desired(self, after: int, wait_seconds: int) -> tuple[DesiredFeed, tuple[BadRow, ...]]:
        """Documents that changed after `after`; waits for one at most `wait_seconds`. `after=0` asks for all."""
        answer = await self._call(
            "GET",
            "/internal/v1/desired",
            params={"after": after, "wait": wait_seconds},
            timeout=REQUEST_SECONDS + wait_seconds,
        )
        try:
            return DesiredFeed.read(answer.json())
        except ValueError as error:
            raise Unavailable(f"the desired documents cannot be read: {error}") from error

    async def report(self, session: UUID, report: StatusReport) -> bool:
        """Deliver a report; returns whether it was still news to the control plane."""
        answer = await self._call(
            "POST", f"/internal/v1/sessions/{session}/status", content=report.model_dump_json(), headers=_JSON
        )
        return str(answer.headers.get(HEADER_STALE, "")).lower() != "true"

    async def inventory(self, document: Inventory) -> None:
        """Deliver an inventory."""
        await self._call("POST", "/internal/v1/inventory", content=document.model_dump_json(), headers=_JSON)

    async def renew_when_due(self, now: datetime) -> bool:
        """Renew the token in the second half of its life; returns whether it was renewed."""
        credentials = self.tokens.read()
        lifetime = credentials.lifetime
        if lifetime is None or now < lifetime[0] + (lifetime[1] - lifetime[0]) / 2:
            return False
        answer = await self._call("POST", "/internal/v1/token")
        try:
            renewed = Credentials.model_validate({**credentials.model_dump(), **answer.json()})
        except ValueError as error:
            raise Unavailable("the renewed token cannot be read") from error
        if self.tokens.read() == credentials:  # else somebody has put a newer file there
            await self.tokens.keep(renewed)
        return True

    async def keep_renewed(self, clock: Clock) -> None:
        """Renew the token when it is due, for ever; what fails is tried again at the next look."""
        while True:
            try:
                if await self.renew_when_due(clock.now()):
                    log.info("the token was renewed")
            except (Unavailable, Refused) as error:
                log.warning("token renewal: %s", error)
            await asyncio.sleep(_RENEWAL_LOOK_SECONDS)

    async def _call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] = _NONE,
        timeout: float = REQUEST_SECONDS,  # noqa: ASYNC109 -- the transport's: of each part of the way
        **arguments: Any,
    ) -> httpx.Response:
        known = {"Authorization": f"Bearer {self.tokens.read().token}", **headers}
        times = {"timeout": httpx.Timeout(timeout).as_dict()}
        request = httpx.Request(method, f"{self._url}{path}", headers=known, extensions=times, **arguments)
        try:
            answer = await self._transport.handle_async_request(request)
            try:
                await answer.aread()
            finally:
                await answer.aclose()
        except httpx.HTTPError as error:
            raise Unavailable(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error
        if not answer.is_success:
            raise Refused(answer.status_code, f"{method} {path}: {answer.text[:_DETAIL_CHARACTERS]}")
        return answer
