"""The table of a session's life."""

import pytest

from sessions_app.domain.lifecycle import (
    COUNTING,
    LIVE,
    OCCUPYING,
    RULES,
    TERMINAL,
    TRAITS,
    Effect,
    Ending,
    Event,
    State,
    allowed_verbs,
    counts_as_paused,
    reachable,
    rule_for,
)


def test_every_state_has_traits_and_the_lists_follow_from_them():
    assert set(TRAITS) == set(State)
    assert set(LIVE) | set(TERMINAL) == set(State)
    assert set(COUNTING) == {State.STARTING, State.RUNNING, State.RESUMING}
    assert State.LOST in OCCUPYING
    assert State.QUEUED not in OCCUPYING


def test_terminal_states_lead_nowhere():
    assert not [pair for pair in RULES if pair[0] in TERMINAL]


@pytest.mark.parametrize("state", LIVE)
def test_stop_is_legal_in_every_state_that_is_not_terminal(state):
    rule = rule_for(state, Event.STOP)
    assert rule is not None
    assert rule.to in {State.STOPPING, State.STOPPED}


@pytest.mark.parametrize("state", LIVE)
def test_every_live_state_can_reach_an_end(state):
    assert reachable([state]) & set(TERMINAL)


@pytest.mark.parametrize("state", [state for state in State if TRAITS[state].transient])
def test_every_transient_state_has_a_rule_for_its_deadline(state):
    assert (state, Event.DEADLINE) in RULES


def test_the_table_is_closed_over_known_states_and_events():
    for (state, event), rule in RULES.items():
        assert state in State
        assert event in Event
        assert rule.to in State
        assert set(rule.effects) <= set(Effect)


def test_leaving_the_card_frees_or_orphans_or_hands_on_its_claim():
    for (state, event), rule in RULES.items():
        if TRAITS[state].occupies and not TRAITS[rule.to].occupies and rule.to is not State.YIELDED:
            kept = {Effect.FREE, Effect.ORPHAN} & set(rule.effects)
            assert kept, f"{state} + {event} loses a claim"


def test_whoever_stops_being_billed_has_his_end_fixed_or_is_settled():
    ends = {Effect.END_BILLING, Effect.SETTLE, Effect.SUSPEND, Effect.NEXT_RUN}
    for (state, event), rule in RULES.items():
        if TRAITS[state].bills and not TRAITS[rule.to].bills:
            assert ends & set(rule.effects), f"{state} + {event} bills on"


def test_billing_begins_only_with_a_report_that_it_is_ready():
    opening = {pair[1] for pair, rule in RULES.items() if rule.does(Effect.OPEN_BILLING)}
    assert opening == {Event.READY, Event.RESTORED}


def test_stopping_ends_as_failed_when_a_failure_began_it():
    rule = rule_for(State.STOPPING, Event.GONE, ending=Ending.FAILED)
    assert rule is not None
    assert rule.to is State.FAILED
    assert rule.does(Effect.FREE)
    stopped = rule_for(State.STOPPING, Event.GONE, ending=Ending.STOPPED)
    assert stopped is not None
    assert stopped.to is State.STOPPED


@pytest.mark.parametrize(
    ("state", "verbs"),
    [
        (State.QUEUED, ["stop"]),
        (State.STARTING, ["pause", "stop"]),
        (State.RUNNING, ["pause", "restart", "stop", "keep-alive", "access"]),
        (State.PAUSING, ["resume", "stop"]),
        (State.PAUSED, ["resume", "stop"]),
        (State.STOPPING, []),
        (State.STOPPED, []),
        (State.FAILED, []),
        (State.LOST, ["pause", "stop"]),
    ],
)
def test_the_verbs_of_a_state_are_those_of_the_table(state, verbs):
    assert allowed_verbs(state) == verbs


@pytest.mark.parametrize("state", State)
def test_only_a_paused_session_that_wakes_by_itself_can_be_asked_to_stay_paused(state):
    more = ["stay-paused"] if state is State.PAUSED else []
    assert allowed_verbs(state, wakes=True) == allowed_verbs(state) + more


@pytest.mark.parametrize(
    ("state", "event", "to"),
    [
        (State.STARTING, Event.READY, State.RUNNING),
        (State.STARTING, Event.GONE, State.QUEUED),
        (State.STARTING, Event.GONE_CPU, State.PAUSED),
        (State.STARTING, Event.GONE_AGAIN, State.FAILED),
        (State.STARTING, Event.MISPLACED, State.STARTING),
        (State.RUNNING, Event.RESTART, State.STARTING),
        (State.RUNNING, Event.GONE, State.PAUSED),
        (State.RUNNING, Event.VANISHED, State.STARTING),
        (State.RUNNING, Event.VANISHED_AGAIN, State.FAILED),
        (State.RUNNING, Event.SILENT, State.LOST),
        (State.LOST, Event.READY, State.RUNNING),
        (State.LOST, Event.NOT_READY, State.STARTING),
        (State.LOST, Event.GONE, State.PAUSED),
        (State.YIELDING, Event.YIELDED, State.YIELDED),
        (State.YIELDED, Event.RESUME, State.RESUMING),
        (State.RESUMING, Event.RESTORED, State.RUNNING),
        (State.QUEUED, Event.REFUSED, State.FAILED),
        (State.QUEUED, Event.REFUSED_RESUMED, State.PAUSED),
    ],
)
def test_events_lead_where_the_design_says(state, event, to):
    rule = rule_for(state, event)
    assert rule is not None
    assert rule.to is to


@pytest.mark.parametrize("state", TERMINAL)
@pytest.mark.parametrize("event", [Event.READY, Event.GONE, Event.PAUSE, Event.RESUME])
def test_what_ended_is_not_revived_by_any_event(state, event):
    assert rule_for(state, event) is None


def test_pausing_counts_as_paused_only_when_its_owner_asked():
    assert counts_as_paused(State.PAUSING, by_owner=True)
    assert not counts_as_paused(State.PAUSING, by_owner=False)
    assert counts_as_paused(State.PAUSED, by_owner=False)


def test_only_a_resumed_session_in_line_can_be_paused():
    assert "pause" in allowed_verbs(State.QUEUED, resumed=True)
    assert "pause" not in allowed_verbs(State.QUEUED)
