"""The loop that always runs: look, decide (`converge`), remember, act; for every session, again and again.

Guarantees: what is decided is on disk before it is done; what one session's pod or folder refuses holds up no other;
a look that fails concludes nothing; a list of ends that is too long to be believed ends nothing (`brake`). Level-triggered: changes only shorten the wait to the next look.

Work is of two classes. Somebody waits for a start or an end; what leads to a pod that is still coming up, and what is only to
be written down, can wait, and does while starts and ends keep coming: what is due first comes first, some of it at every look, and as much of
the processor as the first class takes once something is overdue. What is left over is found again by the next look.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from cluster.operator.brake import held_back
from cluster.operator.converge import Action, Kill, Open, Remove, Start, Stop, begun, converge
from cluster.operator.feed import Wishes
from cluster.operator.pace import wait_for
from cluster.operator.state import Later, Pod, Unavailable
from cluster.operator.steady import Steady
from cluster.operator.store import Memories
from cluster.operator.substrates import Substrate
from gshare_core.clock import Clock

log = logging.getLogger(__name__)

CALM_SECONDS = 1.0
BUSY_SECONDS = 0.2
BREATH_SECONDS = 0.2
# Of the second class, while the first one keeps coming: so much of a look, and so many at a time.
SLICE_SECONDS, FEW = 0.05, 4
# How long a way may wait, which somebody will want to go as soon as the pod is up; how long a note, which nobody reads but the next
# operator, and which mostly has more to say by then.
WAY_WITHIN, NOTE_WITHIN = timedelta(seconds=5), timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Pace:
    """On how many sessions at a time the substrate may be asked to act; how long a loop waits that nobody wakes; for how long a
    look goes on with what can wait while the first class keeps coming."""

    abreast: int = 1
    calm_seconds: float = CALM_SECONDS
    slice_seconds: float = SLICE_SECONDS


PATIENT = Pace()


@dataclass(frozen=True, slots=True)
class _Todo:
    """What was decided about a session: the actions to take, or that nothing of it is left to know."""

    session: UUID
    actions: tuple[Action, ...]
    forget: bool = False

    @property
    def opens(self) -> bool:
        """Whether all that is to be done is to lead the way to a pod that is there."""
        return bool(self.actions) and all(isinstance(action, Open) for action in self.actions)

    @property
    def can_wait(self) -> bool:
        """Whether it is of the second class."""
        return self.opens or not (self.actions or self.forget)


class Operator:
    """Brings pods to what the wishes say. `ending`: the cluster is being stopped, every pod shall end."""

    def __init__(
        self,
        substrate: Substrate,
        store: Memories,
        wishes: Wishes,
        clock: Clock,
        on_report: Callable[[], None] = lambda: None,
        refresh: Callable[[], None] = lambda: None,
        pace: Pace = PATIENT,
    ) -> None:
        """`refresh` brings the wishes up to date, at the beginning of each look."""
        self._refresh, self._pace = refresh, pace
        self._substrate = substrate
        self._store = store
        self._wishes = wishes
        self._clock = clock
        self._on_report = on_report
        self._news = asyncio.Event()
        self._anew = False
        self._held: frozenset[UUID] = frozenset()
        self._steady = Steady()
        self._waiting: dict[tuple[UUID, bool], datetime] = {}  # what can wait, and since when it does
        self._looked_seconds = 0.0
        self.pods: Sequence[Pod] = ()
        self.observed_at: datetime | None = None
        self.ending = False
        self.has_left_over = False  # whether the last look had no time for all: the next one comes at once

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
            # Where there is much to look at and much that changes, looking is not all that is done.
            await asyncio.sleep(min(self._looked_seconds, BREATH_SECONDS))
            if not self.has_left_over:
                await wait_for(self._news, BUSY_SECONDS if busy else self._pace.calm_seconds)

    async def look(self) -> bool:
        """One look at everything; returns whether something is on its way, so that the next look should come soon."""
        now, began = self._clock.now(), time.perf_counter()
        self.has_left_over = False
        self._refresh()
        self._news.clear()  # what is heard from here on may not be in what is looked at
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
        todo = [
            step
            for session in sorted(sessions)
            if (step := self._decide(session, by_session.get(session, []), now, anew=anew)) is not None
        ]
        self._looked_seconds = time.perf_counter() - began
        busy = await self._carry_out(todo, now)
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

    def _decide(self, session: UUID, pods: Sequence[Pod], now: datetime, *, anew: bool) -> _Todo | None:
        """What is to be done about a session, remembered; None when there is nothing."""
        wanted = None if session in self._held else self._wishes.documents.get(session)
        memory = self._store.get(session)
        lived = None if anew or self.ending else self._steady.lives_on(wanted, memory, pods)
        if lived is not None:
            if lived is not memory:
                self._store.live_on(lived)
            return _Todo(session, ()) if self._store.is_unsaved(session) else None
        step = converge(wanted, memory, pods, now, ending=self.ending, anew=anew)
        self._steady.note(wanted, memory, pods, step)
        unwanted = wanted is None and self._wishes.complete and not pods
        if step.forget or (unwanted and all(record.finished for record in step.memory.records)):
            return _Todo(session, (), forget=True)
        self._store.put(step.memory)
        if step.actions or self._store.is_unsaved(session):
            return _Todo(session, step.actions)
        return None

    async def _carry_out(self, todo: Sequence[_Todo], now: datetime) -> bool:
        """Do it; returns whether something was done, waits for its turn, or was put off."""
        began = time.perf_counter()
        pressing = [each for each in todo if not each.can_wait]
        busy = await self._abreast(pressing, now)
        waiting = self._in_order([each for each in todo if each.can_wait], now)
        took = time.perf_counter() - began
        done = 0
        while done < len(waiting):
            is_overdue = now >= self._due(waiting[done])
            slice_seconds = self._pace.slice_seconds if pressing else BREATH_SECONDS
            room = max(slice_seconds, took) if is_overdue else slice_seconds
            if done and self._news.is_set() and time.perf_counter() - began - took >= room:
                break
            some = waiting[done : done + (FEW if pressing else self._pace.abreast)]
            busy = await self._abreast(some, now) or busy
            done += len(some)
        for each in waiting[:done]:
            self._waiting.pop(_key(each), None)
        self.has_left_over = done < len(waiting)
        return busy or self.has_left_over

    def _in_order(self, waiting: Sequence[_Todo], now: datetime) -> list[_Todo]:
        """What can wait, by when it is due."""
        self._waiting = {_key(each): self._waiting.get(_key(each), now) for each in waiting}
        return sorted(waiting, key=self._due)

    def _due(self, waiting: _Todo) -> datetime:
        return self._waiting[_key(waiting)] + (WAY_WITHIN if waiting.opens else NOTE_WITHIN)

    async def _abreast(self, todo: Sequence[_Todo], now: datetime) -> bool:
        """Do it, some sessions at a time; returns whether something was done, or waits for its turn."""
        room = asyncio.Semaphore(self._pace.abreast)

        async def one(each: _Todo) -> bool:
            async with room:
                return await self._guarded(each, now)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(each)) for each in todo]
        return any(task.result() for task in tasks)

    async def _guarded(self, todo: _Todo, now: datetime) -> bool:
        try:
            return await self._step(todo, now)
        except Later as error:
            log.debug("session %s: %s", todo.session, error)
            return True
        except (Unavailable, OSError) as error:
            log.warning("session %s: %s", todo.session, error)
            return False

    async def _step(self, todo: _Todo, now: datetime) -> bool:
        session = todo.session
        if todo.forget:
            # Only after everything was acknowledged: a document that comes again is answered again.
            await self._store.let_go(session)
            self._store.forget(session)
            self._steady.forget(session)
            self._wishes.documents.pop(session, None)
            return False
        for action in todo.actions:
            if isinstance(action, Start):
                self._substrate.take_turn(action.spec)
        if not todo.opens:  # that decides nothing: the next operator would do the same, and a later note says more
            await self._store.saved(session)
        for action in todo.actions:
            await self._act(session, action, now)
        return bool(todo.actions)

    async def _act(self, session: UUID, action: Action, now: datetime) -> None:
        match action:
            case Start(spec=spec):
                log.info("session %s run %s: start", session, spec.run)
                await self._store.hold(session)
                await self._substrate.start(spec, now)
                self._store.put(begun(self._store.get(session), spec))
            case Open(spec=spec):
                await self._substrate.open(spec)
            case Stop(run=run):
                log.info("session %s run %s: stop", session, run)
                await self._substrate.stop(session, run, now)
            case Kill(run=run):
                log.warning("session %s run %s: kill, its grace is over", session, run)
                await self._substrate.kill(session, run)
            case Remove(run=run):
                log.info("session %s run %s: remove", session, run)
                await self._substrate.remove(session, run)


def _key(todo: _Todo) -> tuple[UUID, bool]:
    """What of a session waits: its ways, or its notes."""
    return todo.session, todo.opens


def _on_its_way(pod: Pod) -> bool:
    return (pod.alive and not pod.ready) or pod.stopping_since is not None
