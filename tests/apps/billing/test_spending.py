"""What the overview says a place spends of its budget: only a budget whose dates are now, by the days of its own zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from billing.domain.budgets import Rule, period_at
from billing.models import Budget
from billing.spending import spend_of_places
from tests.builders import LONG_AGO, a_group

pytestmark = pytest.mark.django_db

FIRST, LAST = date(2026, 3, 10), date(2026, 3, 12)
MICROSECOND = timedelta(microseconds=1)


def limits_shown(at: datetime) -> list[int | None]:
    return [place.limit for place in spend_of_places("group", month=at, today=at, at=at)]


@pytest.mark.parametrize(
    ("zone", "begins", "ends"),
    [
        ("Pacific/Kiritimati", datetime(2026, 3, 9, 10, tzinfo=UTC), datetime(2026, 3, 12, 10, tzinfo=UTC)),
        ("Etc/GMT+12", datetime(2026, 3, 10, 12, tzinfo=UTC), datetime(2026, 3, 13, 12, tzinfo=UTC)),
        ("Asia/Kathmandu", datetime(2026, 3, 9, 18, 15, tzinfo=UTC), datetime(2026, 3, 12, 18, 15, tzinfo=UTC)),
    ],
)
def test_a_budget_is_in_force_from_its_first_to_its_last_day_in_its_own_zone(
    zone: str, begins: datetime, ends: datetime
) -> None:
    budget = Budget.objects.create(
        group=a_group(), limit=7, mode="warn", time_zone=zone, first_day=FIRST, last_day=LAST, created_at=LONG_AGO
    )
    assert limits_shown(begins - MICROSECOND) == []
    assert limits_shown(begins) == [budget.limit]
    assert limits_shown(ends - MICROSECOND) == [budget.limit]
    assert limits_shown(ends) == []
    moments = [begins - MICROSECOND, begins, ends - MICROSECOND, ends]
    counts = [period_at(Rule(zone, FIRST, LAST), at) is not None for at in moments]
    assert counts == [False, True, True, False]


def test_a_budget_whose_dates_have_gone_does_not_hide_the_one_of_this_month() -> None:
    group, at = a_group(), datetime(2026, 5, 5, 5, tzinfo=UTC)
    rows = [("UTC", None, None, 900, 0), ("UTC", FIRST, LAST, 10, 10)]
    for zone, first, last, limit, held in rows:
        Budget.objects.create(
            group=group, limit=limit, mode="block", time_zone=zone, first_day=first, last_day=last, held=held,
            created_at=LONG_AGO,
        )  # fmt: skip
    (place,) = spend_of_places("group", month=at, today=at, at=at)
    assert (place.limit, place.used, place.percent) == (900, 0, 0)
