"""A wallet's statement: entries, holds, spend per day and per session."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing import queries, statements
from billing import services as billing
from gshare_core.ids import uuid7
from tests.apps.billing.stage import HOLD, T0, at_time, ended, meter, opened, running, t, tick, wallet
from tests.builders import a_customer, a_group, a_user, cr

pytestmark = pytest.mark.django_db

UTC_ZONE = ZoneInfo("UTC")
MARCH: Any = {"start": datetime(2026, 3, 1, tzinfo=UTC), "end": datetime(2026, 4, 1, tzinfo=UTC)}


def test_an_entry_says_with_whom_and_for_which_run() -> None:
    with at_time(-60):
        alice = a_customer(100)
    run = running(alice)
    ended(run, at=30)
    rows = queries.entries(alice.wallet).order_by("-entry_number")
    charge, allocation = (queries.entry_row(row, alice.wallet) for row in rows)
    assert (charge.name, charge.run, charge.direction, charge.amount, charge.balance) == (
        "vit-ft",
        1,
        "out",
        -cr("6.25"),
        cr("93.75"),
    )
    assert (charge.billed_from, charge.billed_to, charge.reference) == (t(0), t(30), meter(run).reference)
    assert (allocation.name, allocation.direction, allocation.run) == (alice.group.name, "in", None)


def test_a_statement_takes_a_constant_number_of_queries(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    alice = a_customer(1000)
    for number in range(6):
        ended(running(alice, at=number * 60), at=number * 60 + 12)
    with django_assert_num_queries(1):
        rows = [queries.entry_row(row, alice.wallet) for row in queries.entries(alice.wallet)]
    assert len(rows) == 7


def test_holds_are_listed_oldest_session_first() -> None:
    alice = a_customer(100)
    run, waiting = running(alice), opened(alice)
    first, second = queries.holds_of(alice.wallet)
    assert (first.run_id, first.amount, first.hold_ends_at, first.running) == (run, HOLD, t(60), True)
    assert (second.run_id, second.hold_ends_at, second.running) == (waiting, None, False)
    assert sum(hold.amount for hold in (first, second)) == wallet(alice)[1]


def test_usage_is_summed_per_charge_and_not_multiplied_by_runs_or_intervals() -> None:
    alice = a_customer(1000)
    run = running(alice)
    tick(40, run)
    billing.request_end(run, at=t(48))
    second = uuid7()
    billing.carry_meter(from_run=run, to_run=second, at=t(49), last_alive_at=t(49))
    billing.meter_ready(second, ready_at=t(49), at=t(49))
    ended(second, at=61)
    other = running(alice, at=70)
    ended(other, at=82)
    found = queries.spend_per_reference(alice.wallet, **MARCH)
    assert [(row.amount, row.runs) for row in found] == [(cr("12.5"), 2), (cr("2.5"), 1)]
    assert (found[0].billed_from, found[0].billed_to) == (t(0), t(61))
    spent = sum(row.amount for row in queries.spend_per_day(alice.wallet, zone=UTC_ZONE, **MARCH))
    assert spent == cr(15) == cr(1000) - wallet(alice)[0]


def test_a_day_is_the_readers_own() -> None:
    alice = a_customer(1000)
    ended(running(alice), at=12)  # 9:13 on the 2nd in UTC, 18:13 in Seoul
    ended(running(alice, at=7 * 60), at=7 * 60 + 24)  # 16:25, already the 3rd in Seoul
    seoul = queries.spend_per_day(alice.wallet, zone=ZoneInfo("Asia/Seoul"), **MARCH)
    assert [(row.day, row.amount) for row in seoul] == [(date(2026, 3, 2), cr("2.5")), (date(2026, 3, 3), cr(5))]
    world = queries.spend_per_day(alice.wallet, zone=UTC_ZONE, **MARCH)
    assert [(row.day, row.amount) for row in world] == [(date(2026, 3, 2), cr("7.5"))]


def test_the_balance_over_time_begins_with_what_there_was() -> None:
    with at_time(-60):
        alice = a_customer(100)
    ended(running(alice), at=12)
    ended(running(alice, at=20), at=32)
    assert queries.balance_series(alice.wallet, start=T0, end=t(1000)) == [
        (T0, cr(100)),
        (t(13), cr("97.5")),
        (t(33), cr(95)),
    ]
    assert queries.balance_series(alice.wallet, start=t(-1000), end=t(-900)) == [(t(-1000), 0)]


def test_a_chart_of_very_many_entries_tells_the_last_of_each_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    with at_time(-60):
        alice = a_customer(1_000)
    for number in range(6):
        ended(running(alice, at=number * 20), at=number * 20 + 12)
    every = queries.balance_series(alice.wallet, start=T0, end=t(1_000))
    monkeypatch.setattr(statements, "STEPS", 4)
    few = queries.balance_series(alice.wallet, start=T0, end=t(200))  # four stretches of fifty minutes
    assert len(every) == 7
    assert [step[0] for step in few] == [T0, t(33), t(93), t(113)]
    assert set(few) <= set(every)
    assert few[-1] == every[-1]


def test_a_wallet_that_was_never_used_is_empty() -> None:
    person = a_user(a_group())
    row = queries.wallet_of(person.pk)
    assert (row.id, row.balance, row.available) == (None, 0, 0)
    assert queries.wallet_document(person.pk)["id"] is None
    alice = a_customer(100)
    opened(alice)
    assert queries.wallet_of(alice.user.pk).available == cr("87.5")
    assert queries.wallet_document(alice.user.pk)["held"] == "12.500000"


def test_money_that_was_refunded_is_no_negative_spend() -> None:
    alice = a_customer(100)
    billing.settle(opened(alice), at=t(5))
    assert queries.spend_per_day(alice.wallet, zone=UTC_ZONE, **MARCH) == []
