"""The tick: holds are filled when half is used, charges are posted, warnings come before the end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import Notification
from billing import queries
from billing import services as billing
from billing.domain.budgets import Rule
from billing.domain.pricing import charge_micro
from billing.models import Transfer
from tests.apps.billing.stage import (
    HOLD,
    QUARTER,
    alive,
    at_time,
    books_agree,
    charges,
    ended,
    meter,
    opened,
    running,
    t,
    tick,
    wallet,
)
from tests.builders import Customer, a_customer, a_group, cr, fund

pytestmark = pytest.mark.django_db

MINUTE_US = 60_000_000


def cost_of(minutes: float) -> int:
    return charge_micro(QUARTER, int(minutes * MINUTE_US))


# Topping up ----------------------------------------------------------------------------------------------------------


def test_a_hold_is_filled_when_less_than_half_remains_and_the_charge_is_posted() -> None:
    alice = a_customer(100)
    run = running(alice)
    assert tick(30, run) == billing.TickResult()
    assert charges(run) == []
    result = tick(31, run)
    assert (result.posted, result.filled, result.short, result.charged) == (1, 1, 0, cost_of(31))
    assert charges(run) == [(0, 31, cost_of(31))]
    assert meter(run).held == HOLD
    assert wallet(alice) == (cr(100) - cost_of(31), HOLD)
    reach = meter(run).hold_ends_at
    assert reach is not None
    assert timedelta(0) <= t(91) - reach < timedelta(milliseconds=1)
    assert books_agree()


def test_late_and_repeated_ticks_come_to_the_same_total() -> None:
    totals = []
    for moments in ([31, 62, 93], [59], [31, 31, 31, 40, 62, 62.5, 93], []):
        alice = a_customer(100)
        run = running(alice)
        for moment in moments:
            tick(moment, run)
            tick(moment)
        totals.append(ended(run, at=100).charged)
        assert wallet(alice) == (cr(100) - totals[-1], 0)
    assert set(totals) == {cost_of(100)}
    assert books_agree()


def test_a_clock_that_steps_back_changes_nothing() -> None:
    alice = a_customer(100)
    run = running(alice)
    tick(40, run)
    tick(20)
    tick(39, run)
    assert charges(run) == [(0, 40, cost_of(40))]
    assert ended(run, at=70).charged == cost_of(70)
    assert books_agree()


def test_an_asked_end_is_not_topped_up() -> None:
    alice = a_customer(100)
    run = running(alice)
    billing.request_end(run, at=t(45))
    assert tick(50, run).looked_at == 0
    assert meter(run).held == HOLD
    assert billing.settle(run, at=t(51), last_alive_at=t(51)).charged == cost_of(45)


def test_waiting_runs_are_not_looked_at() -> None:
    alice = a_customer(100)
    opened(alice)
    assert tick(500).looked_at == 0


def test_a_run_is_charged_only_as_far_as_it_was_seen_alive_but_its_hold_is_filled_for_now() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=25)
    tick(40)
    assert charges(run) == [(0, 25, cost_of(25))]
    assert meter(run).held == HOLD + cost_of(40) - cost_of(25)
    assert billing.settle(run, at=t(45)).charged == cost_of(25)
    assert books_agree()


def test_a_hold_is_filled_partly_with_what_there_is() -> None:
    alice = a_customer(15)
    run = running(alice)
    result = tick(40, run)
    assert (result.filled, result.short) == (0, 1)
    assert wallet(alice) == (cr(15) - cost_of(40), cr(15) - cost_of(40))
    assert meter(run).short == "credit_exhausted"
    assert meter(run).hold_ends_at == t(72)
    assert books_agree()


def test_the_oldest_session_of_a_wallet_is_filled_first() -> None:
    alice = a_customer(35)
    older, younger = running(alice), running(alice)
    tick(48, older, younger)
    assert meter(older).short == ""
    assert meter(older).held == HOLD
    assert meter(younger).short == "credit_exhausted"
    assert meter(younger).held == HOLD
    assert charges(younger) == []  # nothing was left to fill it with, so nothing was posted either
    assert wallet(alice) == (cr(25), cr(25))
    assert books_agree()


def test_one_session_outrunning_its_hold_never_shrinks_another_sessions_hold() -> None:
    alice = a_customer(25)
    long, short = running(alice), running(alice, at=50)
    tick(100, long, short)
    assert meter(long).hold_ends_at == t(60)
    assert meter(short).held == HOLD
    with at_time(100):
        assert queries.exhausted(t(100), 10) == [long]
    assert ended(long, at=100).charged == HOLD
    assert meter(short).held == HOLD
    assert wallet(alice) == (HOLD, HOLD)
    assert ended(short, at=110).charged == HOLD
    assert books_agree()


# The end of the credits ----------------------------------------------------------------------------------------------


def test_a_balance_that_equals_the_hold_runs_the_whole_hold_window() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    assert meter(run).hold_ends_at == t(60)
    for moment in (31, 45, 59, 59.9):
        tick(moment, run)
        assert queries.exhausted(t(moment), 10) == []
        assert charges(run) == []
    tick(60.5, run)
    assert queries.exhausted(t(60.5), 10) == [run]
    assert queries.exhaustion_reason(run) == "credit_exhausted"
    done = ended(run, at=60.5)
    assert (done.charged, done.billed_to) == (HOLD, t(60))
    assert done.not_billed == cost_of(60.5) - HOLD
    assert wallet(alice) == (0, 0)
    assert books_agree()


def test_the_pause_at_the_end_of_the_hold_tries_the_filling_first() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    tick(55, run)
    fund(alice, 100)
    alive(run, at=61)
    with at_time(61):
        assert queries.exhausted(t(61), 10) == []  # no tick has tried yet
        assert billing.top_up_ended().filled == 1
        assert queries.exhausted(t(61), 10) == []
    assert charges(run) == [(0, 61, cost_of(61))]
    assert books_agree()


def test_credits_that_come_after_the_end_of_the_hold_was_final_do_not_bill_past_it() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    tick(61, run)
    assert queries.exhausted(t(61), 10) == [run]
    billing.request_end(run, at=t(61))
    fund(alice, 100)
    done = billing.settle(run, at=t(62), last_alive_at=t(62))
    assert (done.charged, done.billed_to) == (HOLD, t(60))
    assert wallet(alice) == (cr(100), 0)
    assert books_agree()


def test_credits_that_come_before_the_pause_let_the_run_go_on() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    tick(61, run)
    fund(alice, 100)
    tick(62, run)
    assert queries.exhausted(t(62), 10) == []
    assert ended(run, at=70).charged == cost_of(70)
    assert books_agree()


def test_after_an_outage_the_tick_charges_from_what_is_free_and_the_run_goes_on() -> None:
    alice = a_customer(100)
    run = running(alice)
    result = tick(5 * 60, run)
    assert (result.filled, result.charged) == (1, cr("62.5"))
    assert wallet(alice) == (cr("37.5"), HOLD)
    assert ended(run, at=6 * 60).charged == cr(75)
    assert books_agree()


def test_after_an_outage_what_cannot_be_had_is_noted_and_nobody_else_pays() -> None:
    alice = a_customer(40)
    run, other = running(alice), opened(alice)
    tick(5 * 60, run)
    assert charges(run) == [(0, 132, cr("27.5"))]  # its hold and the 15 that were free
    assert meter(other).held == HOLD
    assert wallet(alice) == (HOLD, HOLD)
    assert queries.exhausted(t(5 * 60), 10) == [run]
    done = ended(run, at=5 * 60)
    assert (done.charged, done.billed_to, done.not_billed) == (cr("27.5"), t(132), cr("62.5") - cr("27.5"))
    assert books_agree()


def test_after_an_outage_a_settlement_that_comes_first_does_the_catching_up() -> None:
    alice, bob = a_customer(100), a_customer(20)
    rich, poor = running(alice), running(bob)
    full, part = ended(rich, at=180), ended(poor, at=180)
    assert (full.charged, full.not_billed, full.billed_to) == (cr("37.5"), 0, t(180))
    assert (part.charged, part.not_billed, part.billed_to) == (cr(20), cr("17.5"), t(96))
    assert wallet(alice) == (cr("62.5"), 0)
    assert wallet(bob) == (0, 0)
    assert books_agree()


def test_no_transfer_is_made_for_what_is_not_billed() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    ended(run, at=600)
    assert list(Transfer.objects.filter(kind="charge").values_list("amount", flat=True)) == [HOLD]


# Warnings ------------------------------------------------------------------------------------------------------------


def test_the_user_is_warned_once_in_the_last_stretch_of_a_hold_that_could_not_be_filled() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    tick(45, run)
    assert Notification.objects.filter(user=alice.user, kind="hold_ends").count() == 0
    tick(51, run)
    tick(52, run)
    tick(59, run)
    (notice,) = Notification.objects.filter(user=alice.user, kind="hold_ends")
    assert notice.title == "vit-ft pauses at 10:00"
    assert "Request credits" in notice.body


def test_a_filling_takes_the_warning_back_and_the_next_end_warns_anew() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    tick(51, run)
    fund(alice, "12.5")
    tick(52, run)
    assert meter(run).warned_at is None
    tick(111, run)
    assert Notification.objects.filter(user=alice.user, kind="hold_ends").count() == 2
    assert meter(run).hold_ends_at == t(120)


def test_the_warning_speaks_the_users_zone() -> None:
    alice = a_customer("12.5")
    type(alice.user).objects.filter(pk=alice.user.pk).update(time_zone="Asia/Seoul")
    run = running(alice)
    tick(51, run)
    assert Notification.objects.get(user=alice.user, kind="hold_ends").title == "vit-ft pauses at 19:00"


# Batches -------------------------------------------------------------------------------------------------------------


def test_many_wallets_are_looked_after_in_batches(gshare) -> None:  # type: ignore[no-untyped-def]
    gshare(meter_batch=3)
    group = a_group()
    people = [a_customer(100, group=group) for _number in range(7)]
    runs = [running(person) for person in people]
    result = tick(40, *runs)
    assert (result.looked_at, result.posted, result.filled) == (7, 7, 7)
    assert {wallet(person) for person in people} == {(cr(100) - cost_of(40), HOLD)}
    assert books_agree()


def test_a_tick_does_at_most_what_it_is_asked_for_and_the_next_does_the_rest() -> None:
    group = a_group()
    runs = [running(a_customer(100, group=group)) for _number in range(3)]
    alive(*runs, at=40)
    with at_time(40):
        assert billing.top_up_due(limit=2).posted == 2
        assert billing.top_up_due().posted == 1
        assert billing.top_up_due().looked_at == 0
    assert books_agree()


def low(customer: Customer) -> list[str]:
    rows = Notification.objects.filter(user=customer.user, kind="low_balance").order_by("at", "id")
    return list(rows.values_list("title", flat=True))


def test_who_has_credits_for_less_than_two_hours_is_told_once_with_the_time_left() -> None:
    alice = a_customer(50)  # four hours at 12.5 an hour
    run = running(alice)
    for minute in range(31, 236, 10):
        tick(minute, run)
    (title,) = low(alice)
    assert title.startswith("Your credits last until 13:00, ")  # 09:00 and four hours
    ahead = int(title.partition(", ")[2].partition(" ")[0])
    assert 80 <= ahead < 120  # looked at whenever a hold is filled
    body = Notification.objects.get(user=alice.user, kind="low_balance").body
    assert body.endswith("at 12.50 cr an hour. Then it is paused; its files stay.")


def test_credits_that_arrive_take_the_notice_back_and_the_next_time_is_told_anew() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    tick(31, run)
    assert low(alice) == ["Your credits last until 10:00, 29 minutes more"]
    fund(alice, 100)
    tick(32, run)
    for minute in range(63, 500, 31):
        tick(minute, run)
    assert len(low(alice)) == 2
    assert books_agree()


def test_two_sessions_share_what_is_left_and_who_ran_nothing_in_between_is_told_again() -> None:
    alice = a_customer(50)
    first, second = running(alice), running(alice)
    tick(40, first, second)
    assert low(alice) == ["Your credits last until 11:00, 80 minutes more"]  # 50 at 25 an hour
    for run in (first, second):
        ended(run, at=41)
    with at_time(42):
        billing.top_up_due()
    run = running(alice, at=60)
    tick(60 + 45, run)  # 32.92 credits last for 158 minutes
    assert len(low(alice)) == 2


def test_who_has_plenty_or_a_budget_in_the_way_hears_nothing_of_low_credits() -> None:
    alice, bob = a_customer(1000), a_customer(1000)
    scope = billing.BudgetScope("user", bob.user.pk)
    billing.create_budget(scope=scope, limit=HOLD, mode="block", rule=Rule("UTC"), by=None)
    runs = running(alice), running(bob)
    for minute in (31, 52, 59):
        tick(minute, *runs)
    assert low(alice) == low(bob) == []
    assert Notification.objects.filter(user=bob.user, kind="hold_ends").count() == 1
