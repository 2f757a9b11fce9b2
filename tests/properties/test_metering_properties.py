"""Metering for all prices and all ways to cut: the sum never depends on when it is cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from billing.domain import metering
from billing.domain.budgets import Rule, boundaries, next_boundary, period_at, periods_between
from billing.domain.metering import Reading
from billing.domain.pricing import Price, charge_micro, covered_us, covering_micro, hold_micro, shortest_us

START = datetime(2026, 1, 31, 22, 0, 0, 123456, tzinfo=UTC)
DAY_US = 86_400_000_000

prices = st.builds(
    Price,
    rate_micro_per_hour=st.integers(1, 2_000_000_000),
    occupancy=st.fractions(Fraction(1, 81_920), Fraction(8), max_denominator=81_920),
    factor_milli=st.sampled_from([1000, 300, 1]),
)
spans = st.integers(0, 60 * DAY_US)
moments = st.lists(spans, max_size=12)


def after(microseconds: int) -> datetime:
    return START + timedelta(microseconds=microseconds)


def plenty(price: Price) -> Reading:
    """A running meter that no hold, end or proof stops."""
    far = after(100 * DAY_US)
    return Reading(price, 10**15, 10**15, started_at=START, charged_until=START, proven_until=far)


def charge(reading: Reading, until: datetime, edges: list[datetime]) -> Reading:
    parts = metering.parts(reading, until, edges)
    amount = sum(part.amount for part in parts)
    return replace(
        reading,
        charged=reading.charged + amount,
        held=reading.held - amount,
        charged_until=max(until, reading.charged_until or until),
    )


@given(prices, spans, moments, moments)
def test_the_charge_does_not_depend_on_when_it_is_cut(
    price: Price, total: int, cuts: list[int], edges: list[int]
) -> None:
    reading = plenty(price)
    for cut in [*cuts, total]:  # in any order: late ones change nothing
        reading = charge(reading, metering.billable_until(reading, after(min(cut, total))), [after(e) for e in edges])
    assert reading.charged == charge_micro(price, total)


@given(prices, st.lists(st.tuples(spans, spans), min_size=1, max_size=6))
def test_several_intervals_cost_what_their_sum_costs(price: Price, intervals: list[tuple[int, int]]) -> None:
    reading, clock = plenty(price), 0
    for gap, length in intervals:
        clock += gap
        start = after(clock)
        clock += length
        end = after(clock)
        open_ = replace(reading, started_at=start, charged_until=start, proven_until=end)
        done = charge(open_, metering.billable_until(open_, end), [])
        reading = replace(done, closed_us=done.closed_us + metering.span_us(start, end))
    assert reading.charged == charge_micro(price, sum(length for _gap, length in intervals))


@given(prices, spans, moments)
def test_parts_are_never_negative_join_without_a_gap_and_span_no_boundary(
    price: Price, total: int, edges: list[int]
) -> None:
    cuts = {after(edge) for edge in edges}
    parts = metering.parts(plenty(price), after(total), cuts)
    assert all(part.amount >= 0 and part.start < part.end for part in parts)
    assert all(first.end == second.start for first, second in pairwise(parts))
    assert all(not any(part.start < cut < part.end for cut in cuts) for part in parts)
    assert sum(part.amount for part in parts) == charge_micro(price, total)


@given(prices, st.integers(0, 10**13), st.integers(1, 10**13), st.integers(0, 30 * DAY_US), spans)
def test_a_hold_is_never_overdrawn_and_never_ends_early(
    price: Price, charged: int, held: int, closed_us: int, lived: int
) -> None:
    charged = charge_micro(price, closed_us)  # what a consistent meter has charged for its earlier intervals
    held = min(held, charge_micro(price, 30 * DAY_US))
    reading = replace(plenty(price), charged=charged, held=held, closed_us=closed_us)
    until = metering.billable_until(reading, after(lived))
    amount = sum(part.amount for part in metering.parts(reading, until))
    assert 0 <= amount <= held
    if until < after(lived):  # stopped by the hold: another microsecond would not have been paid for
        assert covering_micro(price, metering.billed_us(reading, until) + 1) > charged + held


@given(prices, st.integers(1, 600))
def test_a_hold_for_a_window_lasts_the_whole_window(price: Price, minutes: int) -> None:
    window = timedelta(minutes=minutes)
    hold = hold_micro(price, window)
    assert hold > 0
    reading = replace(plenty(price), held=hold, target=hold)
    reach = metering.hold_ends_at(reading)
    assert reach is not None
    assert reach >= START + window  # a century at most, which no window here is
    assert not metering.overrun(reading, START + window)


@given(prices, st.integers(1, 10**13), spans)
def test_filling_a_low_hold_makes_it_full_and_due_later(price: Price, hold: int, lived: int) -> None:
    reading = replace(plenty(price), held=hold, target=hold)
    now = after(lived)
    wanted = metering.lack(reading, now)
    due = metering.low_from(reading)
    assert due is not None
    assert (wanted > 0) == (now >= due)  # it looks ahead a century, and lived here is 60 days
    filled = replace(reading, held=reading.held + wanted)
    assert wanted == 0 or metering.remaining(filled, now) == hold


@given(prices, st.integers(1, 10**13))
def test_reach_and_cost_are_inverse_to_each_other(price: Price, amount: int) -> None:
    reach = covered_us(price, amount)
    assert covering_micro(price, reach) <= amount < covering_micro(price, reach + 1)
    first = shortest_us(price, amount)
    assert charge_micro(price, first) >= amount > charge_micro(price, first - 1)


@given(
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Africa/Cairo", "Asia/Seoul", "Pacific/Apia"]),
    st.datetimes(datetime(2009, 1, 1), datetime(2030, 1, 1)),
    st.integers(0, 400 * DAY_US),
)
def test_months_of_any_zone_tile_the_time(zone: str, naive: datetime, length: int) -> None:
    rule, start = Rule(zone), naive.replace(tzinfo=UTC)
    end = start + timedelta(microseconds=length)
    found = list(periods_between(rule, start, end))
    assert start in found[0]
    assert end in found[-1]
    assert all(first.ends_at == second.starts_at for first, second in pairwise(found))
    assert all(timedelta(days=27, hours=22) < p.ends_at - p.starts_at < timedelta(days=31, hours=2) for p in found)
    assert {p.starts_at for p in found[1:]} - {start, end} == boundaries([rule], start, end)
    now = period_at(rule, start)
    assert now is not None
    assert next_boundary(rule, start) == now.ends_at
