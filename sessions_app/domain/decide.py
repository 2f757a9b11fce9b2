"""What a cluster's report means for a session: pure judgement over what is known of the session and the report.

Guarantees (fencing): only the current run's reports move a session; all but `gone` need its generation too; a report
that carries `ready_at` counts first as ready, then as itself. A stale report yields no event.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gshare_core.contract import Phase, Reason, StatusReport
from sessions_app.domain.lifecycle import Event, State

_FAILURE_EVENTS = {
    Reason.IMAGE_PULL_FAILED: Event.START_FAILED,
    Reason.MOUNT_FAILED: Event.START_FAILED,
    Reason.CRASH_LOOP: Event.CRASHED,
    Reason.CLAIM_MISMATCH: Event.MISPLACED,
    Reason.NODE_LOCK: Event.MISPLACED,
    Reason.NODE_GONE: Event.MISPLACED,
}


DRAINED = "drained"
"""Why a start went away that did not fail: its node is emptied."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a session and its current run when a report comes in."""

    state: State
    run: int
    generation: int
    has_card: bool
    restarting: bool
    misplaced: bool
    failed_starts: int
    vanished_at: datetime | None
    drained: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a start may fail before it is given up, and how soon a second vanishing is a failure."""

    start_attempts: int = 3
    vanish_window: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Heard:
    """One event of a report, with the typed reason of the timeline."""

    event: Event
    reason: str = ""


def is_current(known: Known, report: StatusReport) -> bool:
    """Whether the report may move the session: its run, and its generation unless it is `gone`."""
    if report.run != known.run:
        return False
    return report.phase is Phase.GONE or report.generation == known.generation


def events_of(known: Known, report: StatusReport, *, now: datetime, patience: Patience = Patience()) -> list[Heard]:
    """The events of a report in order; empty when it is stale or changes nothing."""
    if not is_current(known, report):
        return []
    heard: list[Heard] = []
    state = known.state
    if _becomes_ready(known, report):
        heard.append(Heard(Event.READY))
        state = State.RUNNING
    last = _own_event(known, report, state, now, patience)
    return [*heard, last] if last is not None else heard


def _becomes_ready(known: Known, report: StatusReport) -> bool:
    if report.ready_at is None:
        return False
    if known.state is State.LOST:
        return report.phase is Phase.RUNNING
    return known.state is State.STARTING and not known.restarting and not known.misplaced


def _own_event(known: Known, report: StatusReport, state: State, now: datetime, patience: Patience) -> Heard | None:
    match report.phase:
        case Phase.GONE:
            return _gone(known, report, state, now, patience)
        case Phase.EXITED:
            return Heard(Event.EXITED, "exited")
        case Phase.FAILED if report.reason is not None:
            event = _FAILURE_EVENTS[report.reason]
            if event is Event.MISPLACED and state is not State.STARTING:
                return None
            return Heard(event, report.reason.value)
        case Phase.STARTING | Phase.PULLING if state is State.LOST:
            return Heard(Event.NOT_READY)
        case Phase.YIELDED:
            return Heard(Event.YIELDED)
        case Phase.RESTORED:
            return Heard(Event.RESTORED)
    return None


def _gone(known: Known, report: StatusReport, state: State, now: datetime, patience: Patience) -> Heard:
    reason = report.reason or Reason.VANISHED
    why = "" if reason is Reason.STOPPED else reason.value
    if state is State.STARTING:
        if known.restarting:
            return Heard(Event.GONE_RESTART)
        if not known.has_card:
            return Heard(Event.GONE_CPU, why)
        if known.drained:
            return Heard(Event.GONE, DRAINED)
        if known.failed_starts + 1 >= patience.start_attempts:
            return Heard(Event.GONE_AGAIN, "placement_failed")
        return Heard(Event.GONE, why)
    if state is State.RUNNING and reason in {Reason.VANISHED, Reason.STOPPED}:
        recent = known.vanished_at is not None and now - known.vanished_at < patience.vanish_window
        return Heard(Event.VANISHED_AGAIN if recent else Event.VANISHED, Reason.VANISHED.value)
    return Heard(Event.GONE, why)
