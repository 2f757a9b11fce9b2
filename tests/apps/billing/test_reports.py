"""Reports: whatever they are grouped by, they come to what the ledger says, to the micro-credit."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing import queries
from billing.models import Transfer
from billing.queries import ReportAsked
from tests.apps.billing.stage import QUARTER, T0, alive, at_time, ended, running, t, tick
from tests.builders import Customer, a_customer, a_group, cr

pytestmark = pytest.mark.django_db

ALL = ReportAsked(T0 - timedelta(days=1), T0 + timedelta(days=40), "all")
HOUR_US = 3_600_000_000


@pytest.fixture
def busy() -> tuple[Customer, Customer]:
    """Alice in two groups of one organisation and bob in another one; runs of several stretches, one that outran its hold."""
    alice = a_customer(100)
    elsewhere = Customer(alice.user, a_group(alice.group.organisation), alice.wallet)
    bob = a_customer("12.5")
    ended(running(alice), at=60)
    run = running(alice, at=100)
    tick(131, run)
    ended(run, at=160)
    ended(running(elsewhere, at=200), at=230)
    ended(running(alice, at=24 * 60), at=24 * 60 + 6)
    long = running(bob, at=0)
    alive(long, at=90)
    tick(90, long)
    ended(long, at=90)
    return alice, bob


def charged() -> int:
    return sum(Transfer.objects.filter(kind="charge").values_list("amount", flat=True))


def lines(by: Any, asked: ReportAsked = ALL) -> dict[str, queries.UsageRow]:
    return {row.name: row for row in queries.usage(by, asked)}


def test_every_grouping_comes_to_the_same_total_and_that_is_the_ledgers(busy: Any) -> None:
    assert charged() == cr("12.5") * 2 + cr("6.25") + cr("1.25") + cr("12.5")
    for by in ("session", "user", "group", "organisation", "day"):
        total = queries.usage_total(queries.usage(by, ALL))
        assert total.amount == charged(), by
        assert total.running_us == (60 + 60 + 30 + 6 + 60) * 60_000_000, by
        assert total.card_us == total.running_us / Decimal(4), by
        assert total.not_billed == cr("6.25"), by  # bob's half hour that nobody could pay


def test_a_run_that_was_charged_in_many_pieces_is_one_run_and_its_time_is_counted_once(busy: Any) -> None:
    alice, bob = busy
    rows = lines("user")
    assert (rows[alice.user.email].runs, rows[alice.user.email].sessions) == (4, 4)
    assert (rows[bob.user.email].runs, rows[bob.user.email].not_billed) == (1, cr("6.25"))
    assert [row.name for row in queries.usage("user", ALL)] == [alice.user.email, bob.user.email]


def test_groups_and_organisations_have_what_ran_in_them(busy: Any) -> None:
    alice, bob = busy
    groups = lines("group")
    assert groups[alice.group.name].amount == cr("26.25")
    assert sorted(row.amount for row in groups.values()) == sorted([cr("26.25"), cr("6.25"), cr("12.5")])
    organisations = lines("organisation")
    assert organisations[alice.group.organisation.name].amount == cr("32.5")
    assert organisations[bob.group.organisation.name].amount == cr("12.5")
    mine = ReportAsked(ALL.start, ALL.end, "group", alice.group.pk)
    assert queries.usage_total(queries.usage("day", mine)).amount == cr("26.25")
    assert queries.usage("day", ReportAsked(ALL.start, ALL.end, "user", alice.user.pk)) != []


def test_days_are_those_of_the_zone_that_is_asked_for(busy: Any) -> None:
    assert {key: row.amount for key, row in lines("day").items()} == {
        "2026-03-02": cr("43.75"),
        "2026-03-03": cr("1.25"),
    }
    west = ReportAsked(ALL.start, ALL.end, "all", zone=ZoneInfo("Etc/GMT+12"))  # 21:00 of the day before
    assert list(lines("day", west)) == ["2026-03-01", "2026-03-02"]


def test_a_stretch_has_its_beginning_and_not_its_end(busy: Any) -> None:
    first = ReportAsked(t(0), t(100), "all")
    rest = ReportAsked(t(100), ALL.end, "all")
    parts = [queries.usage_total(queries.usage("session", asked)).amount for asked in (first, rest)]
    assert sum(parts) == charged()
    assert parts[0] == cr("12.5") + cr("12.5")
    assert queries.usage("session", ReportAsked(t(0) - timedelta(days=9), t(0), "all")) == []


def test_four_quarter_sessions_for_an_hour_are_one_card_hour_and_cost_what_one_card_costs() -> None:
    alice = a_customer(100)
    runs = [running(alice) for _one in range(4)]
    for run in runs:
        ended(run, at=60)
    (row,) = queries.usage("user", ALL)
    assert (row.card_us, row.amount) == (HOUR_US, cr(50))
    assert QUARTER.rate_micro_per_hour == cr(50)


def test_one_statement_answers_however_much_there_is(busy: Any, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1), at_time(0):
        queries.usage("session", ALL)
