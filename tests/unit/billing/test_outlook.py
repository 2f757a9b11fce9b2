"""Where a budget is heading, computed by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from billing.domain.budgets import Period
from billing.domain.outlook import Outlook, Spending, outlook

APRIL = Period(datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC))
DAY = timedelta(days=1)


def ahead(limit: int, *, spent: int, recent: int, days: float, on: float, accrued: int = 0) -> Outlook:
    at = APRIL.starts_at + on * DAY
    return outlook(limit, Spending(spent, accrued, recent, at - days * DAY), APRIL, at)


def test_the_pace_of_the_last_days_is_carried_to_the_end_of_the_period() -> None:
    found = ahead(10_000, spent=2_000, recent=700, days=7, on=10)
    assert found == Outlook(
        spent=2_000,
        accrued=0,
        pace_per_day=100,
        projected=2_000 + 20 * 100,
        reaches_limit_at=None,
        basis="recent_spend",
    )


def test_it_says_when_the_limit_is_met_within_the_period_and_not_after_it() -> None:
    found = ahead(3_000, spent=2_000, recent=700, days=7, on=10)
    assert found.reaches_limit_at == APRIL.starts_at + 20 * DAY
    assert ahead(4_001, spent=2_000, recent=700, days=7, on=10).reaches_limit_at is None
    assert ahead(4_000, spent=2_000, recent=700, days=7, on=10).reaches_limit_at is None  # with the period's end


def test_what_runs_counts_as_spent_and_a_limit_that_is_met_says_now() -> None:
    found = ahead(2_000, spent=1_900, accrued=100, recent=700, days=7, on=10)
    assert found.reaches_limit_at == APRIL.starts_at + 10 * DAY
    assert found.projected == 2_000 + 20 * 100


@pytest.mark.parametrize("days", [0, 0.01, 0.5, 1])
def test_the_pace_of_less_than_a_day_is_taken_over_a_day(days: float) -> None:
    assert ahead(10_000, spent=50, recent=50, days=days, on=10).pace_per_day == 50


def test_who_spent_nothing_spends_nothing() -> None:
    found = ahead(1_000, spent=400, recent=0, days=7, on=10)
    assert (found.projected, found.reaches_limit_at, found.basis) == (400, None, "nothing_spent")


def test_a_number_past_every_float_is_exact() -> None:
    found = ahead(10**18, spent=0, recent=7 * 10**15 + 7, days=7, on=29)
    assert (found.pace_per_day, found.projected) == (10**15 + 1, 10**15 + 1)
