"""Warnings before an end: when they are due, that none is skipped, and that each end is announced anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.countdown import Told, leads, step

NOON = datetime(2026, 10, 14, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LOOKS = timedelta(seconds=10)
NOTHING = Told()


@pytest.mark.parametrize(
    ("minutes", "first", "second"), [(60, 15, 5), (30, 15, 5), (20, 10, 5), (10, 5, 2.5), (2, 1, 0.5), (1440, 15, 5)]
)
def test_the_warnings_come_min_15_half_and_min_5_quarter_before(minutes: int, first: float, second: float):
    assert leads(minutes * MINUTE) == (first * MINUTE, second * MINUTE)


def walked(aim: datetime, limit: timedelta, start: datetime, *, told: Told = NOTHING, every: timedelta = LOOKS):
    """The warnings and the end of a countdown that is looked at again and again: {what: when}."""
    seen, now = {}, start
    while "end" not in seen:
        found = step(aim, told, limit, now)
        told = found.told
        if found.warn:
            assert found.warn not in seen, "nothing is announced twice"
            seen[found.warn] = now
        if found.due:
            seen["end"] = now
        now += every
    return seen


def test_both_warnings_come_in_time_and_then_the_end():
    assert walked(NOON, HOUR, NOON - HOUR) == {1: NOON - 15 * MINUTE, 2: NOON - 5 * MINUTE, "end": NOON}


def test_a_limit_that_was_passed_already_still_leaves_the_last_warnings_time():
    assert walked(NOON - HOUR, 20 * MINUTE, NOON) == {2: NOON, "end": NOON + 5 * MINUTE}


def test_a_countdown_that_is_first_seen_between_the_warnings_gives_the_first_at_once():
    assert walked(NOON, HOUR, NOON - 9 * MINUTE) == {1: NOON - 9 * MINUTE, 2: NOON - 5 * MINUTE, "end": NOON}


def test_an_end_that_moves_away_is_announced_anew():
    told = step(NOON, Told(), HOUR, NOON - 4 * MINUTE).told
    later = step(NOON + 2 * HOUR, told, HOUR, NOON - 3 * MINUTE)
    assert (later.due, later.warn, later.told) == (False, 0, Told())
    assert walked(NOON + 2 * HOUR, HOUR, NOON, told=told)[1] == NOON + 105 * MINUTE


def test_an_end_that_drifts_a_little_is_the_same_one():
    told = step(NOON, Told(), HOUR, NOON - 5 * MINUTE).told
    drifted = step(NOON + MINUTE, told, HOUR, NOON - 3 * MINUTE)
    assert (drifted.warn, drifted.at) == (0, NOON + MINUTE)
    earlier = step(NOON - MINUTE, told, HOUR, NOON - 3 * MINUTE)
    assert (earlier.warn, earlier.at) == (0, NOON), "not before the moment that was named"


@given(
    st.integers(1, 2_000),
    st.lists(st.tuples(st.integers(-3_000, 3_000), st.integers(1, 600)), min_size=1, max_size=40),
)
def test_nothing_ends_unannounced_or_before_the_moment_that_was_named(limit_min: int, looks: list[tuple[int, int]]):
    limit, now, told = limit_min * MINUTE, NOON, Told()
    announced_at = named = None
    for aim_offset, seconds in looks:
        now += timedelta(seconds=seconds)
        found = step(NOON + aim_offset * MINUTE, told, limit, now)
        if found.warn == 2:
            announced_at, named = now, found.at
            assert found.at >= now + leads(limit)[1] / 2
        if found.due:
            assert announced_at is not None and named is not None
            assert now >= named > announced_at
        told = found.told
