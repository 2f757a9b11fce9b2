"""What the cluster has, once per beat: nodes, cards and what is bound on them, volumes, pods with their proof of life and what they do.

Guarantees: the times are those of the last observation, so that a stuck operator proves nothing; a row for every pod,
also of earlier runs and of sessions nobody wants; the proof of life on disk is never older than a beat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from cluster.operator.client import Refused
from cluster.operator.pace import BackOff
from cluster.operator.state import Pod, RunRecord, Unavailable
from cluster.operator.store import Memories
from cluster.operator.substrates import ActivitySource, Substrate
from gshare_core.clock import Clock
from gshare_core.contract import Activity, Inventory, Phase, SessionRow

log = logging.getLogger(__name__)

BEAT_SECONDS = 30.0


class Seen(Protocol):
    """The last observation of every pod."""

    pods: Sequence[Pod]
    observed_at: datetime | None


class InventoryReceiver(Protocol):
    """Whoever takes inventories."""

    async def inventory(self, document: Inventory) -> None:
        """Take an inventory; raises `Unavailable` or `Refused`."""
        ...


def session_row(pod: Pod, record: RunRecord | None, activity: Activity | None = None) -> SessionRow:
    """The inventory's row of a pod; its phase is the one last reported, if any was."""
    report = record.report if record else None
    return SessionRow(
        id=pod.session,
        run=pod.run,
        generation=record.generation if record else pod.generation,
        phase=report.phase if report else (Phase.RUNNING if pod.ready else Phase.STARTING),
        last_alive_at=record.last_alive_at if record else pod.alive_at,
        activity=activity,
    )


class Beat:
    """Sends the inventory for ever: at once, then every beat; sooner while nobody takes it."""

    def __init__(
        self,
        receiver: InventoryReceiver,
        substrate: Substrate,
        store: Memories,
        seen: Seen,
        clock: Clock,
        watched: ActivitySource | None = None,
    ) -> None:
        """`watched`: who samples what sessions do; without one their rows carry no activity."""
        self._receiver = receiver
        self._substrate = substrate
        self._store = store
        self._seen = seen
        self._clock = clock
        self._watched = watched

    async def run(self) -> None:
        """Beat for ever."""
        back_off = BackOff(first=0.5, longest=10.0)
        while True:
            self._store.flush()
            if await self._beat():
                back_off.reset()
                await asyncio.sleep(BEAT_SECONDS)
            else:
                await asyncio.sleep(back_off.next_seconds())

    async def _beat(self) -> bool:
        try:
            document = await self.document()
            if document is None:
                return False
            await self._receiver.inventory(document)
        except (Unavailable, Refused) as error:
            log.warning("inventory: %s", error)
            return False
        return True

    async def document(self) -> Inventory | None:
        """The inventory now; None before the first observation."""
        observed_at = self._seen.observed_at
        if observed_at is None:
            return None
        samples = await self._samples()
        rows = tuple(
            session_row(pod, self._store.get(pod.session).record(pod.run), samples.get((pod.session, pod.run)))
            for pod in self._seen.pods
        )
        return Inventory(
            observed_at=observed_at,
            nodes=tuple(await self._substrate.nodes(observed_at)),
            volumes=tuple(await self._substrate.volumes()),
            sessions=rows,
            sent_at=self._clock.now(),
        )

    async def _samples(self) -> Mapping[tuple[UUID, int], Activity]:
        """What sessions do; nothing when it cannot be told: the beat, which is their proof of life, goes out anyway."""
        try:
            return await self._watched.activity(self._clock.now()) if self._watched else {}
        except (Unavailable, OSError) as error:
            log.warning("activity: %s", error)
            return {}
