"""The meter's arithmetic: what bills, until when, and how far a hold reaches."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from billing.domain import metering
from billing.domain.metering import Reading
from billing.domain.pricing import Price
from gshare_core.money import parse_credits

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
PRICE = Price(parse_credits("50"), Fraction(1, 4))  # 12.5 credits an hour
HOLD = parse_credits("12.5")


def after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def running(**fields: object) -> Reading:
    base = Reading(PRICE, HOLD, HOLD, started_at=START, charged_until=START, proven_until=after(24 * 60))
    return replace(base, **fields)  # type: ignore[arg-type]


def test_a_hold_that_is_exactly_an_hours_price_reaches_exactly_an_hour() -> None:
    assert metering.hold_ends_at(running()) == after(60)


def test_a_meter_that_does_not_run_has_no_end_of_its_hold() -> None:
    waiting = Reading(PRICE, HOLD, HOLD)
    assert metering.hold_ends_at(waiting) is None
    assert metering.low_from(waiting) is None
    assert not metering.is_low(waiting, after(500))


def test_less_than_half_remains_only_after_half_of_the_window() -> None:
    assert not metering.is_low(running(), after(30))
    assert metering.is_low(running(), after(30) + timedelta(milliseconds=1))
    low_from = metering.low_from(running())
    assert low_from is not None
    assert metering.is_low(running(), low_from)
    assert not metering.is_low(running(), low_from - timedelta(microseconds=1))
    assert timedelta(0) < low_from - after(30) < timedelta(milliseconds=1)


def test_a_low_hold_lacks_what_makes_it_full_again_from_now_on() -> None:
    assert metering.lack(running(), after(20)) == 0
    assert metering.lack(running(), after(45)) == parse_credits("9.375")
    assert metering.lack(running(), after(120)) == parse_credits("25")  # the overrun hour and a full hold


def test_nothing_bills_past_the_proof_of_life() -> None:
    assert metering.runs_until(running(proven_until=after(10)), after(20)) == after(10)
    assert metering.billable_until(running(proven_until=after(10)), after(20)) == after(10)


def test_nothing_bills_past_the_asked_end() -> None:
    assert metering.billable_until(running(end_at=after(15)), after(20)) == after(15)


def test_nothing_bills_past_what_the_hold_covers() -> None:
    assert metering.runs_until(running(), after(90)) == after(90)
    assert metering.billable_until(running(), after(90)) == after(60)


def test_without_any_proof_nothing_bills() -> None:
    assert metering.billable_until(running(proven_until=None), after(20)) == START


def test_a_clock_that_steps_back_takes_nothing_back() -> None:
    charged = running(charged=parse_credits("6.25"), held=parse_credits("6.25"), charged_until=after(30))
    assert metering.billable_until(charged, after(10)) == after(30)
    assert metering.parts(charged, after(10)) == []


def test_an_end_that_was_asked_for_stops_topping_up() -> None:
    ended = running(end_at=after(50))
    assert metering.lack(ended, after(55)) == 0
    assert metering.low_from(ended) is None
    assert metering.remaining(ended, after(55)) == metering.remaining(running(), after(50))


def test_an_overrun_is_what_the_hold_does_not_pay_for() -> None:
    assert metering.overrun(running(), after(60)) == 0
    assert metering.overrun(running(), after(120)) == HOLD


def test_a_topped_up_overrun_covers_exactly_up_to_the_end() -> None:
    odd = replace(running(), price=Price(7, Fraction(3, 16)), held=1, target=1)
    for minutes in (40_000, 40_001.37, 77_777.7):
        end = after(minutes)
        filled = replace(odd, held=odd.held + metering.overrun(odd, end), proven_until=end)
        reach = metering.hold_ends_at(filled)
        assert reach is not None
        assert reach >= end


def test_a_micro_credit_that_pays_for_millennia_ends_within_a_century() -> None:
    cheap = replace(running(), price=Price(1, Fraction(1, 81_920), 1), held=10**15, target=1)
    assert metering.hold_ends_at(cheap) == START + metering.HORIZON
    assert metering.low_from(cheap) == START + metering.HORIZON


def test_parts_are_cut_at_every_boundary_inside_and_add_up() -> None:
    edges = [after(20), after(40), after(60), START, after(90)]
    parts = metering.parts(running(), after(60), edges)
    assert [(part.start, part.end) for part in parts] == [
        (START, after(20)),
        (after(20), after(40)),
        (after(40), after(60)),
    ]
    assert sum(part.amount for part in parts) == HOLD
    assert metering.parts(running(), START) == []


def test_earlier_intervals_count_in_the_total_and_the_hold() -> None:
    second = running(closed_us=30 * 60 * 1_000_000, charged=parse_credits("6.25"))
    assert metering.cost_until(second, after(30)) == HOLD
    assert metering.hold_ends_at(second) == after(60)


@pytest.mark.parametrize(
    ("hand_off", "ready", "now", "start"),
    [
        (0, 5, 9, 5),  # the ready report, not the click
        (6, 5, 9, 6),  # never before the hand-off
        (0, 12, 9, 9),  # a report from the future counts from now
    ],
)
def test_billing_starts_at_the_ready_report_between_hand_off_and_now(
    hand_off: int, ready: int, now: int, start: int
) -> None:
    got = metering.interval_start(not_before=after(hand_off), ready_at=after(ready), at=after(now))
    assert got == after(start)


def test_an_interval_cannot_end_before_it_starts() -> None:
    assert metering.span_us(START, after(1)) == 60_000_000
    with pytest.raises(ValueError):
        metering.span_us(after(1), START)
