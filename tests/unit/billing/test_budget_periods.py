"""Periods of budgets in their own zones, daylight saving included."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from billing.domain.budgets import Period, Rule, boundaries, next_boundary, period_at, periods_between, reached


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "at", "starts", "ends"),
    [
        ("UTC", utc(2026, 3, 15), utc(2026, 3, 1), utc(2026, 4, 1)),
        ("Asia/Seoul", utc(2026, 3, 31, 14, 59), utc(2026, 2, 28, 15), utc(2026, 3, 31, 15)),
        ("Asia/Seoul", utc(2026, 3, 31, 15), utc(2026, 3, 31, 15), utc(2026, 4, 30, 15)),
        ("Europe/Berlin", utc(2026, 3, 15), utc(2026, 2, 28, 23), utc(2026, 3, 31, 22)),  # clocks went forward
        ("Europe/Berlin", utc(2026, 10, 15), utc(2026, 9, 30, 22), utc(2026, 10, 31, 23)),  # and back
        ("America/New_York", utc(2026, 12, 31, 23), utc(2026, 12, 1, 5), utc(2027, 1, 1, 5)),  # over the year
        ("UTC", utc(2028, 2, 29, 23, 59), utc(2028, 2, 1), utc(2028, 3, 1)),  # a leap day
        ("UTC", utc(2100, 2, 28, 23, 59), utc(2100, 2, 1), utc(2100, 3, 1)),  # a century without one
        ("Asia/Seoul", utc(2028, 2, 29, 14, 59), utc(2028, 1, 31, 15), utc(2028, 2, 29, 15)),
        (
            "Etc/GMT+12",
            utc(2026, 4, 1, 11, 59),
            utc(2026, 3, 1, 12),
            utc(2026, 4, 1, 12),
        ),  # the last zone to begin a month
        ("Pacific/Kiritimati", utc(2026, 3, 31, 10), utc(2026, 3, 31, 10), utc(2026, 4, 30, 10)),  # and the first
        ("Asia/Kathmandu", utc(2026, 4, 30, 18, 15), utc(2026, 4, 30, 18, 15), utc(2026, 5, 31, 18, 15)),
        # The day before the first is 25 hours long and ends with the clock going back at midnight.
        ("Africa/Cairo", utc(2024, 10, 31, 21, 30), utc(2024, 9, 30, 21), utc(2024, 10, 31, 22)),
        ("Africa/Cairo", utc(2024, 10, 31, 22), utc(2024, 10, 31, 22), utc(2024, 11, 30, 22)),
        # Midnight of the first does not exist: the day begins an hour later by the wall, at the instant of the jump.
        ("America/Asuncion", utc(2017, 10, 1, 12), utc(2017, 10, 1, 4), utc(2017, 11, 1, 3)),
        # Midnight of the first comes twice, and the wall shows the old month again after the first one.
        ("America/St_Johns", utc(2009, 11, 1, 2, 45), utc(2009, 11, 1, 2, 30), utc(2009, 12, 1, 3, 30)),
    ],
)
def test_a_month_is_the_budgets_own_with_daylight_saving(
    zone: str, at: datetime, starts: datetime, ends: datetime
) -> None:
    assert period_at(Rule(zone), at) == Period(starts, ends)


def test_a_budget_of_one_day_covers_that_local_day_and_nothing_else() -> None:
    spring = Rule("Europe/Berlin", date(2026, 3, 29), date(2026, 3, 29))
    autumn = Rule("Europe/Berlin", date(2026, 10, 25), date(2026, 10, 25))
    plain = Rule("Europe/Berlin", date(2026, 6, 1), date(2026, 6, 1))
    spans = []
    for rule, noon in ((spring, utc(2026, 3, 29, 12)), (autumn, utc(2026, 10, 25, 12)), (plain, utc(2026, 6, 1, 12))):
        period = period_at(rule, noon)
        assert period is not None
        spans.append(period.ends_at - period.starts_at)
    assert spans == [timedelta(hours=23), timedelta(hours=25), timedelta(hours=24)]


def test_fixed_dates_count_from_the_first_to_the_last_day_both_included() -> None:
    rule = Rule("Asia/Seoul", date(2026, 3, 1), date(2026, 3, 31))
    assert period_at(rule, utc(2026, 2, 28, 14, 59)) is None
    assert period_at(rule, utc(2026, 2, 28, 15)) is not None
    assert period_at(rule, utc(2026, 3, 31, 14, 59)) is not None
    assert period_at(rule, utc(2026, 3, 31, 15)) is None


def test_periods_of_a_stretch_follow_each_other_without_a_gap() -> None:
    found = list(periods_between(Rule("Europe/Berlin"), utc(2026, 1, 15), utc(2026, 12, 15)))
    assert len(found) == 12
    assert all(first.ends_at == second.starts_at for first, second in pairwise(found))
    assert utc(2026, 1, 15) in found[0]
    assert utc(2026, 12, 15) in found[-1]


def test_a_stretch_that_ends_on_a_boundary_touches_the_next_period() -> None:
    found = list(periods_between(Rule("UTC"), utc(2026, 3, 15), utc(2026, 4, 1)))
    assert [period.starts_at for period in found] == [utc(2026, 3, 1), utc(2026, 4, 1)]


def test_boundaries_are_strictly_inside_and_of_every_rule() -> None:
    rules = [Rule("UTC"), Rule("Asia/Seoul"), Rule("UTC", date(2026, 3, 20), date(2026, 3, 25))]
    assert boundaries(rules, utc(2026, 3, 15), utc(2026, 4, 1)) == {
        utc(2026, 3, 31, 15),
        utc(2026, 3, 20),
        utc(2026, 3, 26),
    }
    assert boundaries([Rule("UTC")], utc(2026, 4, 1), utc(2026, 5, 1)) == set()


def test_the_next_boundary_is_the_end_of_the_period_or_the_start_of_fixed_dates() -> None:
    fixed = Rule("UTC", date(2026, 3, 20), date(2026, 3, 25))
    assert next_boundary(Rule("UTC"), utc(2026, 3, 15)) == utc(2026, 4, 1)
    assert next_boundary(Rule("UTC"), utc(2026, 4, 1)) == utc(2026, 5, 1)
    assert next_boundary(fixed, utc(2026, 3, 15)) == utc(2026, 3, 20)
    assert next_boundary(fixed, utc(2026, 3, 20)) == utc(2026, 3, 26)
    assert next_boundary(fixed, utc(2026, 3, 26)) is None


@pytest.mark.parametrize(
    ("limit", "spent", "percents"),
    [(100, 49, []), (100, 50, [50]), (100, 99, [50, 80]), (100, 250, [50, 80, 100]), (0, 0, []), (0, 1, [50, 80, 100])],
)
def test_thresholds_are_reached_by_what_was_spent(limit: int, spent: int, percents: list[int]) -> None:
    assert reached(limit, spent) == percents


def test_half_a_pair_of_dates_and_a_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError):
        Rule("UTC", date(2026, 3, 1))
    with pytest.raises(ValueError):
        Rule("UTC", date(2026, 3, 2), date(2026, 3, 1))
