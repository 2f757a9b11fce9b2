"""The loop that always runs: look, decide (`converge`), remember, act; for every session, again and again.

Guarantees: what is decided is on disk before it is done; what one session's pod or folder refuses holds up no other;
a look that fails concludes nothing; a list of ends that is too long to be believed ends nothing (`brake`). Level-triggered: changes only shorten the wait to the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from cluster.operator.brake import held_back
from cluster.operator.converge import Action, Kill, Remove, Start, Stop, begun, converge
from cluster.operator.feed import Wishes
from cluster.operator.pace import wait_for
from cluster.operator.state import Later, Pod, Unavailable
from cluster.operator.store import Memories
from cluster.operator.substrates import Substrate
from gshare_core.clock import Clock

log = logging.getLogger(__name__)

CALM_SECONDS = 1.0
BUSY_SECONDS = 0.2


class Operator:
    """Brings pods to what the wishes say. `ending`: the cluster is being stopped, every pod shall end."""

    def __init__(
        self,
        substrate: Substrate,
        store: Memories,
        wishes: Wishes,
        clock: Clock,
        on_report: Callable[[], None] = lambda: None,
    ) -> None:
        self._substrate = substrate
        self._store = store
        self._wishes = wishes
        self._clock = clock
        self._on_report = on_report
        self._news = asyncio.Event()
        self._anew = False
        self._held: frozenset[UUID] = frozenset()
        self.pods: Sequence[Pod] = ()
        self.observed_at: datetime | None = None
        self.ending = False

    def wake(self, everything: bool = False) -> None:
        """Something changed: look now. After a full reading (`everything`) every run is reported anew.

        Where the cluster was silent for long, the control plane has given its sessions up: it takes them back at the
        next report, and a run that did not change would make none.
        """
        self._anew = self._anew or everything
        self._news.set()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            busy = await self.look()
            await wait_for(self._news, BUSY_SECONDS if busy else CALM_SECONDS)

    async def look(self) -> bool:
        """One look at everything; returns whether something is on its way, so that the next look should come soon."""
        now = self._clock.now()
        try:
            pods = await self._substrate.observe(now)
        except (Unavailable, OSError) as error:
            log.warning("the substrate cannot be observed: %s", error)
            return False
        anew, self._anew = self._anew, False
        by_session: dict[UUID, list[Pod]] = {}
        for pod in pods:
            by_session.setdefault(pod.session, []).append(pod)
        self._brake(pods)
        sessions = self._wishes.documents.keys() | by_session.keys() | {memory.session for memory in self._store}
        busy = False
        for session in sorted(sessions):
            try:
                busy |= await self._step(session, by_session.get(session, []), now, anew=anew)
            except Later as error:
                log.debug("session %s: %s", session, error)
                busy = True
            except (Unavailable, OSError) as error:
                log.warning("session %s: %s", session, error)
        await self._remove_volumes()
        if self._store.pending():
            self._on_report()
        self.pods, self.observed_at = pods, now  # only now: whoever sees a pod's absence finds its report in the store
        return busy or any(_on_its_way(pod) for pod in pods)

    async def _remove_volumes(self) -> None:
        for claim in self._wishes.given_up():
            try:
                await self._substrate.remove_volume(claim)
            except (Unavailable, OSError) as error:
                log.warning("claim %s cannot be removed now: %s", claim, error)

    def _brake(self, pods: Sequence[Pod]) -> None:
        """Leave tombstones aside that would end too much at once; say so when that changes."""
        held = held_back(self._wishes.documents, pods)
        if held - self._held:
            log.error(
                "the control plane wants nothing of %s sessions that run here; refused until it is confirmed there: %s",
                len(held),
                ", ".join(sorted(map(str, held))[:20]),
            )
        elif self._held and not held:
            log.info("what the control plane wants to end is believed again")
        self._held = held

    async def _step(self, session: UUID, pods: Sequence[Pod], now: datetime, *, anew: bool) -> bool:
        wanted = None if session in self._held else self._wishes.documents.get(session)
        step = converge(wanted, self._store.get(session), pods, now, ending=self.ending, anew=anew)
        unwanted = wanted is None and self._wishes.complete and not pods
        if step.forget or (unwanted and all(record.finished for record in step.memory.records)):
            # Only after everything was acknowledged: a document that comes again is answered again.
            await self._store.let_go(session)
            self._store.forget(session)
            self._wishes.documents.pop(session, None)
            return False
        self._store.put(step.memory)
        await self._store.saved(session)
        for action in step.actions:
            await self._act(session, action, now)
        return bool(step.actions)

    async def _act(self, session: UUID, action: Action, now: datetime) -> None:
        match action:
            case Start(spec=spec):
                log.info("session %s run %s: start", session, spec.run)
                await self._store.hold(session)
                await self._substrate.start(spec, now)
                self._store.put(begun(self._store.get(session), spec))
            case Stop(run=run):
                log.info("session %s run %s: stop", session, run)
                await self._substrate.stop(session, run, now)
            case Kill(run=run):
                log.warning("session %s run %s: kill, its grace is over", session, run)
                await self._substrate.kill(session, run)
            case Remove(run=run):
                log.info("session %s run %s: remove", session, run)
                await self._substrate.remove(session, run)


def _on_its_way(pod: Pod) -> bool:
    return (pod.alive and not pod.ready) or pod.stopping_since is not None
