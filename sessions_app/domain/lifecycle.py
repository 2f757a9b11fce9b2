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
    START_FAILED = "start_failed"  # image_pull_failed
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


def _rules() -> Iterator[tuple[State, Event, Rule]]:
    s, e, f = State, Event, Effect

    # Waiting.
    yield s.QUEUED, e.PLACED, Rule(s.STARTING, (f.WANT_RUNNING,))
    yield s.QUEUED, e.REFUSED, Rule(s.FAILED, (f.SETTLE,))
    yield s.QUEUED, e.REFUSED_RESUMED, Rule(s.PAUSED, (f.SETTLE,))
    yield s.QUEUED, e.STOP, Rule(s.STOPPED, (f.SETTLE,))
    yield s.QUEUED, e.PAUSE, Rule(s.PAUSED, (f.SETTLE,))

    # Coming up.
    yield s.STARTING, e.READY, Rule(s.RUNNING, (f.OPEN_BILLING,))
    yield s.STARTING, e.MISPLACED, Rule(s.STARTING, (f.WANT_PAUSED,))
    yield s.STARTING, e.GONE, Rule(s.QUEUED, (f.FREE, f.REQUEUE))
    yield s.STARTING, e.GONE_CPU, Rule(s.PAUSED, _GIVE_BACK)
    yield s.STARTING, e.GONE_AGAIN, Rule(s.FAILED, _GIVE_BACK)
    yield s.STARTING, e.GONE_RESTART, Rule(s.STARTING, (f.NEXT_RUN, f.WANT_RUNNING))
    yield s.STARTING, e.DEADLINE, Rule(s.STOPPING, _SHUT_DOWN, Ending.FAILED)
    yield s.STARTING, e.DEADLINE_RESTART, Rule(s.PAUSED, (f.SETTLE, f.ORPHAN))

    # At work.
    yield s.RUNNING, e.RESTART, Rule(s.STARTING, (f.WANT_PAUSED, f.END_BILLING))
    yield s.RUNNING, e.YIELD, Rule(s.YIELDING, (f.WANT_YIELDED, f.END_BILLING))
    yield s.RUNNING, e.GONE, Rule(s.PAUSED, _GIVE_BACK)
    yield s.RUNNING, e.VANISHED, Rule(s.STARTING, (f.NEXT_RUN, f.WANT_RUNNING))
    yield s.RUNNING, e.VANISHED_AGAIN, Rule(s.FAILED, _GIVE_BACK)

    for state in (s.STARTING, s.RUNNING):
        yield state, e.PAUSE, Rule(s.PAUSING, _TEAR_DOWN)
        yield state, e.STOP, Rule(s.STOPPING, _SHUT_DOWN, Ending.STOPPED)
        yield state, e.EXITED, Rule(s.STOPPING, _SHUT_DOWN, Ending.STOPPED)
        yield state, e.START_FAILED, Rule(s.STOPPING, _SHUT_DOWN, Ending.FAILED)
        yield state, e.CRASHED, Rule(s.STOPPING, _SHUT_DOWN, Ending.FAILED)
        yield state, e.SILENT, Rule(s.LOST, (f.SUSPEND,))

    # Giving the card back.
    yield s.PAUSING, e.GONE, Rule(s.PAUSED, _GIVE_BACK)
    yield s.PAUSING, e.STOP, Rule(s.STOPPING, (f.WANT_STOPPED,), Ending.STOPPED)
    yield s.PAUSING, e.RESUME, Rule(s.PAUSING)
    yield s.PAUSING, e.DEADLINE, Rule(s.PAUSED, (f.SETTLE, f.ORPHAN))

    # In place.
    yield s.YIELDING, e.YIELDED, Rule(s.YIELDED)
    yield s.YIELDING, e.YIELD_FAILED, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.YIELDING, e.DEADLINE, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.YIELDED, e.RESUME, Rule(s.RESUMING, (f.WANT_RUNNING,))
    yield s.YIELDED, e.PAUSE, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.YIELDED, e.DEADLINE, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.RESUMING, e.RESTORED, Rule(s.RUNNING, (f.OPEN_BILLING,))
    yield s.RESUMING, e.YIELD_FAILED, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.RESUMING, e.DEADLINE, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.RESUMING, e.PAUSE, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.RESUMING, e.GONE, Rule(s.PAUSED, _GIVE_BACK)
    yield s.RESUMING, e.STOP, Rule(s.STOPPING, _SHUT_DOWN, Ending.STOPPED)
    for state in (s.YIELDING, s.YIELDED):
        yield state, e.STOP, Rule(s.STOPPING, (f.WANT_STOPPED,), Ending.STOPPED)
        yield state, e.GONE, Rule(s.PAUSED, _GIVE_BACK)

    # Free.
    yield s.PAUSED, e.PLACED, Rule(s.STARTING, (f.WANT_RUNNING,))
    yield s.PAUSED, e.ENQUEUED, Rule(s.QUEUED)
    yield s.PAUSED, e.STOP, Rule(s.STOPPED)

    # Silent.
    yield s.LOST, e.READY, Rule(s.RUNNING, (f.REOPEN, f.OPEN_BILLING))
    yield s.LOST, e.NOT_READY, Rule(s.STARTING, (f.REOPEN,))
    yield s.LOST, e.EXITED, Rule(s.STOPPING, (f.WANT_STOPPED,), Ending.STOPPED)
    yield s.LOST, e.START_FAILED, Rule(s.STOPPING, (f.WANT_STOPPED,), Ending.FAILED)
    yield s.LOST, e.CRASHED, Rule(s.STOPPING, (f.WANT_STOPPED,), Ending.FAILED)
    yield s.LOST, e.GONE, Rule(s.PAUSED, _GIVE_BACK)
    yield s.LOST, e.PAUSE, Rule(s.PAUSING, (f.WANT_PAUSED,))
    yield s.LOST, e.STOP, Rule(s.STOPPING, (f.WANT_STOPPED,), Ending.STOPPED)

    # Ending. `to` is STOPPED here and FAILED when the session's `ending` says so.
    yield s.STOPPING, e.GONE, Rule(s.STOPPED, _GIVE_BACK)
    yield s.STOPPING, e.DEADLINE, Rule(s.STOPPED, (f.SETTLE, f.ORPHAN))
    yield s.STOPPING, e.STOP, Rule(s.STOPPING)


RULES: dict[tuple[State, Event], Rule] = {(state, event): rule for state, event, rule in _rules()}

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


def allowed_verbs(state: State) -> list[str]:
    """The verbs that are legal in a state, in the order in which a page shows them."""
    verbs = [verb for verb, events in _VERBS.items() if _may(state, verb, events)]
    if state is State.RUNNING:
        verbs += ["keep-alive", "access"]
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
