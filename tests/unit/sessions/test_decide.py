"""What a report means, whatever the order in which it comes in."""

from datetime import UTC, datetime, timedelta

import pytest

from gshare_core.contract import StatusReport
from sessions_app.domain.decide import Known, Patience, events_of
from sessions_app.domain.lifecycle import Event, State

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)


def known(state=State.STARTING, **changes):
    facts = {
        "run": 2,
        "generation": 5,
        "has_card": True,
        "restarting": False,
        "misplaced": False,
        "failed_starts": 0,
        "vanished_at": None,
    }
    return Known(state=state, **(facts | changes))


def report(phase, reason=None, *, run=2, generation=5, ready=False):
    return StatusReport.model_validate(
        {
            "run": run,
            "generation": generation,
            "sequence": 10,
            "phase": phase,
            "reason": reason,
            "ready_at": NOW - timedelta(minutes=5) if ready else None,
            "observed_at": NOW,
            "sent_at": NOW,
        }
    )


def events(found):
    return [heard.event for heard in found]


def test_ready_makes_a_starting_session_run():
    assert events(events_of(known(), report("running", ready=True), now=NOW)) == [Event.READY]


def test_a_report_of_an_earlier_run_says_nothing():
    assert events_of(known(), report("running", run=1, ready=True), now=NOW) == []
    assert events_of(known(), report("gone", "stopped", run=1), now=NOW) == []


def test_a_report_of_an_earlier_generation_says_nothing_unless_it_is_gone():
    assert events_of(known(State.PAUSING), report("running", generation=4, ready=True), now=NOW) == []
    assert events(events_of(known(State.PAUSING), report("gone", "stopped", generation=4), now=NOW)) == [Event.GONE]


def test_a_gone_that_overtook_running_counts_first_as_ready():
    found = events_of(known(), report("gone", "evicted", ready=True), now=NOW)
    assert events(found) == [Event.READY, Event.GONE]
    assert found[-1].reason == "evicted"


def test_an_exit_before_anybody_saw_it_running_counts_first_as_ready():
    assert events(events_of(known(), report("exited", ready=True), now=NOW)) == [Event.READY, Event.EXITED]


def test_a_late_ready_does_not_revive_what_is_stopping():
    assert events_of(known(State.STOPPING), report("running", ready=True), now=NOW) == []


@pytest.mark.parametrize(
    ("changes", "event"),
    [
        ({}, Event.GONE),
        ({"failed_starts": 2}, Event.GONE_AGAIN),
        ({"has_card": False}, Event.GONE_CPU),
        ({"restarting": True}, Event.GONE_RESTART),
        ({"misplaced": True}, Event.GONE),
    ],
)
def test_gone_while_starting_depends_on_what_was_going_on(changes, event):
    assert events(events_of(known(**changes), report("gone", "stopped"), now=NOW)) == [event]


def test_a_pod_that_vanishes_is_started_again_and_twice_is_a_failure():
    vanished = report("gone", "vanished", ready=True)
    assert events(events_of(known(State.RUNNING), vanished, now=NOW)) == [Event.VANISHED]
    long_ago = known(State.RUNNING, vanished_at=NOW - timedelta(minutes=11))
    assert events(events_of(long_ago, vanished, now=NOW)) == [Event.VANISHED]
    just_now = known(State.RUNNING, vanished_at=NOW - timedelta(minutes=9))
    assert events(events_of(just_now, vanished, now=NOW)) == [Event.VANISHED_AGAIN]


@pytest.mark.parametrize("reason", ["evicted", "disk_exceeded", "drained", "node_lost", "cluster_stopped"])
def test_what_the_infrastructure_ended_is_paused_and_names_the_reason(reason):
    found = events_of(known(State.RUNNING), report("gone", reason, ready=True), now=NOW)
    assert [(heard.event, heard.reason) for heard in found] == [(Event.GONE, reason)]


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("image_pull_failed", Event.START_FAILED),
        ("mount_failed", Event.START_FAILED),
        ("crash_loop", Event.CRASHED),
        ("claim_mismatch", Event.MISPLACED),
        ("node_lock", Event.MISPLACED),
        ("node_gone", Event.MISPLACED),
    ],
)
def test_failures_are_named(reason, event):
    found = events_of(known(), report("failed", reason), now=NOW)
    assert [(heard.event, heard.reason) for heard in found] == [(event, reason)]


def test_a_misplaced_start_is_not_called_ready_any_more():
    assert events_of(known(misplaced=True), report("running", ready=True), now=NOW) == []


def test_terminating_changes_nothing():
    assert events_of(known(State.STOPPING), report("terminating", ready=True), now=NOW) == []


def test_a_lost_session_comes_back_as_it_is():
    lost = known(State.LOST)
    assert events(events_of(lost, report("running", ready=True), now=NOW)) == [Event.READY]
    assert events(events_of(lost, report("starting"), now=NOW)) == [Event.NOT_READY]


def test_a_start_that_was_drained_is_no_failed_one():
    gone = report("gone", "stopped")
    known_to_fail = known(State.STARTING, misplaced=True, failed_starts=2)
    assert events(events_of(known_to_fail, gone, now=NOW, patience=Patience())) == [Event.GONE_AGAIN]
    drained = known(State.STARTING, misplaced=True, failed_starts=2, drained=True)
    [heard] = events_of(drained, gone, now=NOW, patience=Patience())
    assert (heard.event, heard.reason) == (Event.GONE, "drained")
