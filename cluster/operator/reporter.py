"""Sends every report until it is acknowledged.

Guarantees: the latest unacknowledged report of each session and run is sent until a 2xx answers it, with back-off and
jitter, over restarts of either side (the store keeps them); `sent_at` is stamped anew at each try; one report that is
refused or slow holds up no other; `gone` leaves the store only after its acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from cluster.operator.client import Refused
from cluster.operator.pace import BackOff, wait_for
from cluster.operator.state import Unavailable
from cluster.operator.store import Memories
from gshare_core.clock import Clock
from gshare_core.contract import StatusReport

log = logging.getLogger(__name__)

_AT_ONCE = 8
_IDLE_SECONDS = 30.0


class Receiver(Protocol):
    """Whoever takes reports."""

    async def report(self, session: UUID, report: StatusReport) -> bool:
        """Take a report; raises `Unavailable` or `Refused`."""
        ...


class Reporter:
    """Delivers what the store holds as pending; `wake` it after a change. One task per run with a pending report."""

    def __init__(
        self,
        receiver: Receiver,
        store: Memories,
        clock: Clock,
        *,
        back_off: Callable[[], BackOff] = BackOff,
        on_acknowledged: Callable[[], None] = lambda: None,
    ) -> None:
        self._receiver = receiver
        self._store = store
        self._clock = clock
        self._back_off = back_off
        self._on_acknowledged = on_acknowledged
        self._news = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._busy: set[tuple[UUID, int]] = set()

    def wake(self) -> None:
        """A report was added to the store."""
        self._news.set()

    async def run(self) -> None:
        """Deliver for ever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for session, record in self._store.pending():
                    if (session, record.run) not in self._busy:
                        self._busy.add((session, record.run))
                        tasks.create_task(self._deliver(session, record.run))
                await wait_for(self._news, _IDLE_SECONDS)

    async def _deliver(self, session: UUID, run: int) -> None:
        """Send one run's latest report, again and again, until nothing of it is pending."""
        back_off = self._back_off()
        try:
            while True:
                record = self._store.get(session).record(run)
                if record is None or record.report is None or not record.pending:
                    return
                if await self._try(session, record.report):
                    self._store.acknowledge(session, run, record.report.sequence)
                    self._on_acknowledged()
                    back_off.reset()
                else:
                    await asyncio.sleep(back_off.next_seconds())
        finally:
            self._busy.discard((session, run))

    async def _try(self, session: UUID, report: StatusReport) -> bool:
        async with self._room:
            stamped = report.model_copy(update={"sent_at": self._clock.now()})
            try:
                news = await self._receiver.report(session, stamped)
            except Unavailable as error:
                log.warning("report %s of %s run %s: %s", report.phase, session, report.run, error)
                return False
            except Refused as error:
                log.error("report %s of %s run %s is refused: %s", report.phase, session, report.run, error)  # noqa: TRY400 (no trace: an answer)
                return False
        log.info("reported %s of %s run %s%s", report.phase, session, report.run, "" if news else " (stale)")
        return True
