"""Every state that only leads on ends by a deadline, in code and in the table."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.deadlines import Limits, span_of
from sessions_app.domain.lifecycle import RULES, TRAITS, Event, State

LIMITS = Limits(timedelta(minutes=10), timedelta(minutes=3), timedelta(seconds=30), yield_rate=500, restore_rate=1000)
TRANSIENT = [state for state, traits in TRAITS.items() if traits.transient]
DEADLINES = (Event.DEADLINE, Event.DEADLINE_RESTART)


def test_the_transient_states_are_those_of_the_design():
    assert set(TRANSIENT) == {State.STARTING, State.PAUSING, State.STOPPING, State.YIELDING, State.RESUMING}


@given(st.sampled_from(list(State)), st.booleans(), st.integers(0, 8 * 1_048_576))
def test_exactly_the_transient_states_have_a_deadline(state, tearing_down, vram_mib):
    span = span_of(state, LIMITS, tearing_down=tearing_down, vram_mib=vram_mib)
    assert (span is not None) == TRAITS[state].transient
    assert span is None or timedelta(0) < span < timedelta(days=1)


@pytest.mark.parametrize("state", TRANSIENT)
@pytest.mark.parametrize("event", DEADLINES)
def test_deadlines_alone_lead_out_of_every_transient_state(state, event):
    seen = []
    while TRAITS[state].transient:
        rule = RULES.get((state, event)) or RULES.get((state, Event.DEADLINE))
        assert rule is not None, state
        assert state not in seen, "a deadline leads back to where it was"
        seen.append(state)
        state = rule.to
    assert len(seen) <= 3


def test_moving_memory_may_take_as_long_as_its_size_needs():
    eighty_gb = 80 * 1000**3 // 1_048_576
    assert span_of(State.YIELDING, LIMITS, vram_mib=eighty_gb) == pytest.approx(
        timedelta(seconds=190), abs=timedelta(seconds=1)
    )
    assert span_of(State.RESUMING, LIMITS, vram_mib=eighty_gb) == pytest.approx(
        timedelta(seconds=110), abs=timedelta(seconds=1)
    )
    assert span_of(State.YIELDING, LIMITS) == timedelta(seconds=30)


def test_a_start_that_ends_a_pod_first_has_the_time_of_an_end():
    assert span_of(State.STARTING, LIMITS, tearing_down=True) == LIMITS.end
