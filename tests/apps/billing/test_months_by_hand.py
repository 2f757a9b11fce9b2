"""What runs over the edge of a budget's period costs where: tables computed by hand, at 12.5 credits an hour.

The installation's zone is UTC here; the budgets have their own.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import BudgetPeriod, Posting
from gshare_core.clock import ManualClock
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.apps.billing.stage import HOLD, QUARTER, books_agree
from tests.builders import Customer, a_customer, cr

pytestmark = pytest.mark.django_db

Parts = list[tuple[str, str, str]]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def a_run(customer: Customer, begins: str, ends: str, ticks: tuple[str, ...] = ()) -> None:
    """Ready at `begins`, asked to end and gone at `ends`, looked at in between, in the order that is given."""
    run, start, end = uuid7(), at(begins), at(ends)
    opening = billing.Opening(run, billing.Purpose(uuid7(), "by hand"), customer.scopes, QUARTER, HOLD)
    billing.open_meter(opening, at=start)
    billing.meter_ready(run, ready_at=start, at=start)
    for moment in ticks:
        billing.prove({run: at(moment)}, at=at(moment))
        with clock.using(ManualClock(at(moment))):
            billing.top_up_due()
    billing.request_end(run, at=end)
    billing.settle(run, at=end, last_alive_at=end)


def a_budget(customer: Customer, rule: Rule, begins: str) -> None:
    with clock.using(ManualClock(at(begins) - timedelta(days=40))):
        scope = billing.BudgetScope("user", customer.user.pk)
        billing.create_budget(scope=scope, limit=cr(5_000), mode="block", rule=rule, by=None)


def posted() -> Parts:
    rows = Posting.objects.order_by("billed_from").select_related("transfer")
    return [(f"{row.billed_from:%m-%d %H:%M}", f"{row.billed_to:%m-%d %H:%M}", _credits(row)) for row in rows]


def _credits(row: Posting) -> str:
    return f"{row.transfer.amount // 1_000_000}.{row.transfer.amount % 1_000_000:06d}"


@pytest.mark.parametrize(
    ("zone", "begins", "ends", "parts"),
    [
        # a leap day has a whole day to run, and the month ends after it
        (
            "UTC",
            "2028-02-29 22:00",
            "2028-03-01 01:00",
            [("02-29 22:00", "03-01 00:00", "25.000000"), ("03-01 00:00", "03-01 01:00", "12.500000")],
        ),
        # a year without
        (
            "UTC",
            "2026-02-28 23:30",
            "2026-03-01 00:30",
            [("02-28 23:30", "03-01 00:00", "6.250000"), ("03-01 00:00", "03-01 00:30", "6.250000")],
        ),
        # the end of a year
        (
            "UTC",
            "2026-12-31 23:00",
            "2027-01-01 02:00",
            [("12-31 23:00", "01-01 00:00", "12.500000"), ("01-01 00:00", "01-01 02:00", "25.000000")],
        ),
        # Seoul's April begins nine hours before the installation's
        (
            "Asia/Seoul",
            "2026-03-31 14:00",
            "2026-03-31 16:00",
            [("03-31 14:00", "03-31 15:00", "12.500000"), ("03-31 15:00", "03-31 16:00", "12.500000")],
        ),
        # twelve hours behind, and fourteen ahead
        (
            "Etc/GMT+12",
            "2026-04-01 11:30",
            "2026-04-01 12:30",
            [("04-01 11:30", "04-01 12:00", "6.250000"), ("04-01 12:00", "04-01 12:30", "6.250000")],
        ),
        (
            "Pacific/Kiritimati",
            "2026-03-31 09:45",
            "2026-03-31 10:15",
            [("03-31 09:45", "03-31 10:00", "3.125000"), ("03-31 10:00", "03-31 10:15", "3.125000")],
        ),
        # an hour is an hour where the wall skips one and where it shows one twice
        ("Europe/Berlin", "2026-03-29 00:30", "2026-03-29 01:30", [("03-29 00:30", "03-29 01:30", "12.500000")]),
        ("Europe/Berlin", "2026-10-25 00:30", "2026-10-25 01:30", [("10-25 00:30", "10-25 01:30", "12.500000")]),
        # April and November begin in Berlin by the clock that is in force then
        (
            "Europe/Berlin",
            "2026-03-31 21:00",
            "2026-03-31 23:00",
            [("03-31 21:00", "03-31 22:00", "12.500000"), ("03-31 22:00", "03-31 23:00", "12.500000")],
        ),
        (
            "Europe/Berlin",
            "2026-10-31 22:00",
            "2026-11-01 00:00",
            [("10-31 22:00", "10-31 23:00", "12.500000"), ("10-31 23:00", "11-01 00:00", "12.500000")],
        ),
    ],
)
def test_a_run_over_the_edge_of_a_month_is_cut_there(zone: str, begins: str, ends: str, parts: Parts) -> None:
    alice = a_customer(2_000)
    a_budget(alice, Rule(zone), begins)
    a_run(alice, begins, ends)
    assert posted() == parts
    spent = list(BudgetPeriod.objects.filter(spent__gt=0).order_by("starts_at").values_list("spent", flat=True))
    assert spent == [cr(amount) for _from, _to, amount in parts]
    assert books_agree()


@pytest.mark.parametrize(
    ("day", "begins", "ends", "spent"),
    [
        (date(2026, 3, 29), "2026-03-28 21:00", "2026-03-30 00:00", "287.5"),  # 23 hours
        (date(2026, 10, 25), "2026-10-24 20:00", "2026-10-26 03:00", "312.5"),  # 25 hours
        (date(2028, 2, 29), "2028-02-28 20:00", "2028-03-01 03:00", "300"),  # a leap day, 24
    ],
)
def test_a_budget_of_one_day_counts_the_hours_that_the_day_has_in_its_zone(
    day: date, begins: str, ends: str, spent: str
) -> None:
    alice = a_customer(2_000)
    a_budget(alice, Rule("Europe/Berlin", day, day), begins)
    a_run(alice, begins, ends)
    assert BudgetPeriod.objects.get().spent == cr(spent)
    assert books_agree()


def test_ticks_whose_clock_steps_back_over_the_edge_charge_each_month_once() -> None:
    alice = a_customer(2_000)
    a_budget(alice, Rule("Asia/Seoul"), "2026-03-31 13:00")
    steps = ("2026-03-31 13:40", "2026-03-31 15:20", "2026-03-31 14:50", "2026-03-31 15:10", "2026-03-31 15:59")
    a_run(alice, "2026-03-31 13:00", "2026-03-31 16:00", steps)
    spent = list(BudgetPeriod.objects.filter(spent__gt=0).order_by("starts_at").values_list("spent", flat=True))
    assert spent == [cr(25), cr("12.5")]
    assert books_agree()
