"""The session's life as one table: states, what each does, and which event leads where.

Guarantees: `RULES` holds every pair of the design's table; a pair that is not in it changes nothing. Every state that is
not terminal has a way out, `stop` among them. Pure: `sessions_app.services.transition` carries the effects out.
Refuses: nothing here knows a model, a clock or who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a session is."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    YIELDING = "yielding"
    YIELDED = "yielded"
    RESUMING = "resuming"
    PAUSED = "paused"
    LOST = "lost"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class Event(StrEnum):
    """What happens to a session: asked by somebody, decided by admission, or reported by a cluster."""

    PLACED = "placed"
    ENQUEUED = "enqueued"
    REFUSED = "refused"  # for good, at dequeue
    REFUSED_RESUMED = "refused_resumed"  # the same for an entry that was resumed: it stays paused
    PAUSE = "pause"
    YIELD = "yield"
    RESUME = "resume"
    RESTART = "restart"
    STOP = "stop"
    READY = "ready"
    NOT_READY = "not_ready"  # alive after silence, but not ready
    YIELDED = "yielded"
    YIELD_FAILED = "yield_failed"
    RESTORED = "restored"
    EXITED = "exited"
    START_FAILED = "start_failed"  # image_pull_failed, mount_failed
    CRASHED = "crashed"  # crash_loop
    MISPLACED = "misplaced"  # claim_mismatch, node_lock, node_gone
    GONE = "gone"  # torn down as wanted, or by the infrastructure
    GONE_CPU = "gone_cpu"  # the same for a session without a card
    GONE_AGAIN = "gone_again"  # the third failed start
    GONE_RESTART = "gone_restart"  # the pod that a restart, or a pod that vanished, replaces
    VANISHED = "vanished"
    VANISHED_AGAIN = "vanished_again"
    SILENT = "silent"
    DEADLINE = "deadline"
    DEADLINE_RESTART = "deadline_restart"  # the pod that a restart replaces does not go away
    PRIORITY = "priority"  # moved within its line: for the timeline, no state changes
    PREEMPTS = "preempts"  # others are asked to make room for it: the same
    STAY_PAUSED = "stay_paused"  # its resume by itself was called off: the same


class Effect(StrEnum):
    """What a rule does besides writing the state, in the order in which it is carried out."""

    WANT_RUNNING = "want_running"
    WANT_PAUSED = "want_paused"
    WANT_STOPPED = "want_stopped"
    WANT_YIELDED = "want_yielded"
    END_BILLING = "end_billing"  # fixes the end of what is billed at the moment of asking
    OPEN_BILLING = "open_billing"  # from the ready report
    SETTLE = "settle"  # charge, release the hold, close the run
    SUSPEND = "suspend"  # settle to the last proof of life and release the hold; the run stays open
    REOPEN = "reopen"  # a suspended run came back: a new hold
    FREE = "free"  # claim and attachments
    ORPHAN = "orphan"  # the claim stays and blocks the card
    NEXT_RUN = "next_run"  # the same claim, price and rest of the hold for the next run
    REQUEUE = "requeue"  # back in line at the first admission's place, with the hold


class Ending(StrEnum):
    """What `stopping` ends as."""

    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a state means for the card, the money and the limits."""

    occupies: bool = False
    bills: bool = False
    counts: bool = False
    transient: bool = False
    terminal: bool = False


TRAITS: dict[State, Traits] = {
    State.QUEUED: Traits(),
    State.STARTING: Traits(occupies=True, counts=True, transient=True),
    State.RUNNING: Traits(occupies=True, bills=True, counts=True),
    State.PAUSING: Traits(occupies=True, transient=True),
    State.YIELDING: Traits(occupies=True, transient=True),
    State.YIELDED: Traits(),
    State.RESUMING: Traits(occupies=True, counts=True, transient=True),
    State.PAUSED: Traits(),
    State.LOST: Traits(occupies=True),
    State.STOPPING: Traits(occupies=True, transient=True),
    State.STOPPED: Traits(terminal=True),
    State.FAILED: Traits(terminal=True),
}


# What the limits count besides running: `traits.counts` moves the fields of running, these two the others.
def counts_as_waiting(state: State) -> bool:
    """Whether `max_queued` counts it."""
    return state is State.QUEUED


def counts_as_paused(state: State, *, by_owner: bool) -> bool:
    """Whether `max_paused` counts it: while pausing only when its owner asked."""
    return state is State.PAUSED or (state is State.PAUSING and by_owner)


LIVE = tuple(state for state, traits in TRAITS.items() if not traits.terminal)
COUNTING = tuple(state for state, traits in TRAITS.items() if traits.counts)
OCCUPYING = tuple(state for state, traits in TRAITS.items() if traits.occupies)
TERMINAL = tuple(state for state, traits in TRAITS.items() if traits.terminal)


@dataclass(frozen=True, slots=True)
class Rule:
    """Where an event leads from a state, and what has to be done on the way."""

    to: State
    effects: tuple[Effect, ...] = ()
    ending: Ending | None = None

    def does(self, effect: Effect) -> bool:
        """Whether the effect belongs to this rule."""
        return effect in self.effects


_TEAR_DOWN = (Effect.WANT_PAUSED, Effect.END_BILLING)
_SHUT_DOWN = (Effect.WANT_STOPPED, Effect.END_BILLING)
_GIVE_BACK = (Effect.SETTLE, Effect.FREE)


_Rules = Iterator[tuple[State, Event, Rule]]


def _waiting() -> _Rules:
    yield State.QUEUED, Event.PLACED, Rule(State.STARTING, (Effect.WANT_RUNNING,))
    yield State.QUEUED, Event.REFUSED, Rule(State.FAILED, (Effect.SETTLE,))
    yield State.QUEUED, Event.REFUSED_RESUMED, Rule(State.PAUSED, (Effect.SETTLE,))
    yield State.QUEUED, Event.STOP, Rule(State.STOPPED, (Effect.SETTLE,))
    yield State.QUEUED, Event.PAUSE, Rule(State.PAUSED, (Effect.SETTLE,))


def _coming_up() -> _Rules:
    yield State.STARTING, Event.READY, Rule(State.RUNNING, (Effect.OPEN_BILLING,))
    yield State.STARTING, Event.MISPLACED, Rule(State.STARTING, (Effect.WANT_PAUSED,))
    yield State.STARTING, Event.GONE, Rule(State.QUEUED, (Effect.FREE, Effect.REQUEUE))
    yield State.STARTING, Event.GONE_CPU, Rule(State.PAUSED, _GIVE_BACK)
    yield State.STARTING, Event.GONE_AGAIN, Rule(State.FAILED, _GIVE_BACK)
    yield State.STARTING, Event.GONE_RESTART, Rule(State.STARTING, (Effect.NEXT_RUN, Effect.WANT_RUNNING))
    yield State.STARTING, Event.DEADLINE, Rule(State.STOPPING, _SHUT_DOWN, Ending.FAILED)
    yield State.STARTING, Event.DEADLINE_RESTART, Rule(State.PAUSED, (Effect.SETTLE, Effect.ORPHAN))


def _at_work() -> _Rules:
    yield State.RUNNING, Event.RESTART, Rule(State.STARTING, (Effect.WANT_PAUSED, Effect.END_BILLING))
    yield State.RUNNING, Event.YIELD, Rule(State.YIELDING, (Effect.WANT_YIELDED, Effect.END_BILLING))
    yield State.RUNNING, Event.GONE, Rule(State.PAUSED, _GIVE_BACK)
    yield State.RUNNING, Event.VANISHED, Rule(State.STARTING, (Effect.NEXT_RUN, Effect.WANT_RUNNING))
    yield State.RUNNING, Event.VANISHED_AGAIN, Rule(State.FAILED, _GIVE_BACK)

    for state in (State.STARTING, State.RUNNING):
        yield state, Event.PAUSE, Rule(State.PAUSING, _TEAR_DOWN)
        yield state, Event.STOP, Rule(State.STOPPING, _SHUT_DOWN, Ending.STOPPED)
        yield state, Event.EXITED, Rule(State.STOPPING, _SHUT_DOWN, Ending.STOPPED)
        yield state, Event.START_FAILED, Rule(State.STOPPING, _SHUT_DOWN, Ending.FAILED)
        yield state, Event.CRASHED, Rule(State.STOPPING, _SHUT_DOWN, Ending.FAILED)
        yield state, Event.SILENT, Rule(State.LOST, (Effect.SUSPEND,))


def _giving_back() -> _Rules:
    yield State.PAUSING, Event.GONE, Rule(State.PAUSED, _GIVE_BACK)
    yield State.PAUSING, Event.STOP, Rule(State.STOPPING, (Effect.WANT_STOPPED,), Ending.STOPPED)
    yield State.PAUSING, Event.RESUME, Rule(State.PAUSING)
    yield State.PAUSING, Event.DEADLINE, Rule(State.PAUSED, (Effect.SETTLE, Effect.ORPHAN))


def _in_place() -> _Rules:
    yield State.YIELDING, Event.YIELDED, Rule(State.YIELDED)
    yield State.YIELDING, Event.YIELD_FAILED, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.YIELDING, Event.DEADLINE, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.YIELDED, Event.RESUME, Rule(State.RESUMING, (Effect.WANT_RUNNING,))
    yield State.YIELDED, Event.PAUSE, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.YIELDED, Event.DEADLINE, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.RESUMING, Event.RESTORED, Rule(State.RUNNING, (Effect.OPEN_BILLING,))
    yield State.RESUMING, Event.YIELD_FAILED, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.RESUMING, Event.DEADLINE, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.RESUMING, Event.PAUSE, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.RESUMING, Event.GONE, Rule(State.PAUSED, _GIVE_BACK)
    yield State.RESUMING, Event.STOP, Rule(State.STOPPING, _SHUT_DOWN, Ending.STOPPED)
    for state in (State.YIELDING, State.YIELDED):
        yield state, Event.STOP, Rule(State.STOPPING, (Effect.WANT_STOPPED,), Ending.STOPPED)
        yield state, Event.GONE, Rule(State.PAUSED, _GIVE_BACK)


def _paused() -> _Rules:
    yield State.PAUSED, Event.PLACED, Rule(State.STARTING, (Effect.WANT_RUNNING,))
    yield State.PAUSED, Event.ENQUEUED, Rule(State.QUEUED)
    yield State.PAUSED, Event.STOP, Rule(State.STOPPED)


def _silent() -> _Rules:
    yield State.LOST, Event.READY, Rule(State.RUNNING, (Effect.REOPEN, Effect.OPEN_BILLING))
    yield State.LOST, Event.NOT_READY, Rule(State.STARTING, (Effect.REOPEN,))
    yield State.LOST, Event.EXITED, Rule(State.STOPPING, (Effect.WANT_STOPPED,), Ending.STOPPED)
    yield State.LOST, Event.START_FAILED, Rule(State.STOPPING, (Effect.WANT_STOPPED,), Ending.FAILED)
    yield State.LOST, Event.CRASHED, Rule(State.STOPPING, (Effect.WANT_STOPPED,), Ending.FAILED)
    yield State.LOST, Event.GONE, Rule(State.PAUSED, _GIVE_BACK)
    yield State.LOST, Event.PAUSE, Rule(State.PAUSING, (Effect.WANT_PAUSED,))
    yield State.LOST, Event.STOP, Rule(State.STOPPING, (Effect.WANT_STOPPED,), Ending.STOPPED)


def _ending() -> _Rules:
    # `to` is STOPPED here and FAILED when the session's `ending` says so.
    yield State.STOPPING, Event.GONE, Rule(State.STOPPED, _GIVE_BACK)
    yield State.STOPPING, Event.DEADLINE, Rule(State.STOPPED, (Effect.SETTLE, Effect.ORPHAN))
    yield State.STOPPING, Event.STOP, Rule(State.STOPPING)


RULES: dict[tuple[State, Event], Rule] = {
    (state, event): rule
    for section in (_waiting, _coming_up, _at_work, _giving_back, _in_place, _paused, _silent, _ending)
    for state, event, rule in section()
}


# What a person may ask for, by the name of the API's verb.
_VERBS: dict[str, tuple[Event, ...]] = {
    "pause": (Event.PAUSE,),
    "resume": (Event.RESUME, Event.PLACED),
    "restart": (Event.RESTART,),
    "stop": (Event.STOP,),
}


def rule_for(state: State, event: Event, *, ending: Ending | None = None) -> Rule | None:
    """The rule of a pair, or None when the pair changes nothing. `ending` turns the end of `stopping` into failed."""
    rule = RULES.get((state, event))
    if rule is not None and state is State.STOPPING and rule.to is State.STOPPED and ending is Ending.FAILED:
        return Rule(State.FAILED, rule.effects)
    return rule


def allowed_verbs(state: State, *, resumed: bool = False, wakes: bool = False) -> list[str]:
    """The verbs that are legal in a state, in the order in which a page shows them.

    A waiting session can be paused only when it was `resumed`: one that never ran has nothing to be paused. A paused one
    that `wakes` (is going to resume by itself) can be asked to stay paused.
    """
    verbs = [verb for verb, events in _VERBS.items() if _may(state, verb, events)]
    if state is State.QUEUED and not resumed:
        verbs.remove("pause")
    if state is State.RUNNING:
        verbs += ["keep-alive", "access"]
    if state is State.PAUSED and wakes:
        verbs.append("stay-paused")
    return verbs


def reachable(start: Iterable[State]) -> set[State]:
    """All states that some sequence of events leads to from `start`."""
    found, frontier = set(start), list(start)
    while frontier:
        state = frontier.pop()
        for (origin, event), rule in RULES.items():
            if origin is not state:
                continue
            for to in {rule.to, *((State.FAILED,) if (origin, event) == (State.STOPPING, Event.GONE) else ())} - found:
                found.add(to)
                frontier.append(to)
    return found


def _may(state: State, verb: str, events: tuple[Event, ...]) -> bool:
    if verb == "resume" and state is State.QUEUED:
        return False
    if verb == "stop" and state is State.STOPPING:
        return False
    return any((state, event) in RULES for event in events)
