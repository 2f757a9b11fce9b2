"""The life of a meter: what a run is billed for, from its hold to its settlement."""

from __future__ import annotations

from fractions import Fraction

import pytest
from django.db import IntegrityError, transaction

from billing import queries
from billing import services as billing
from billing.domain.budgets import Rule
from billing.domain.pricing import Price, charge_micro
from billing.models import Account, MeterInterval
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from tests.apps.billing.stage import (
    HOLD,
    HOUR,
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
from tests.builders import a_customer, cr
from tests.dying import every_death_then_again

pytestmark = pytest.mark.django_db


# Hold ----------------------------------------------------------------------------------------------------------------


def test_admission_sets_the_hold_aside_and_charges_nothing() -> None:
    alice = a_customer(100)
    run = opened(alice)
    assert wallet(alice) == (cr(100), HOLD)
    assert meter(run).held == HOLD
    assert meter(run).charged == 0
    assert books_agree()


def test_a_hold_that_the_wallet_has_not_free_is_refused_and_leaves_nothing() -> None:
    alice = a_customer(20)
    opened(alice)
    with pytest.raises(DomainError) as refused:
        opened(alice)
    assert refused.value.code == "insufficient_credit"
    assert refused.value.facts == {"needed": "12.500000", "available": "7.500000"}
    assert wallet(alice) == (cr(20), HOLD)
    assert books_agree()


def test_somebody_without_a_wallet_has_nothing_to_hold() -> None:
    alice = a_customer()
    Account.objects.filter(pk=alice.wallet).delete()
    assert billing.lock_money(alice.scopes, at=t(0)).wallet_id is None
    with pytest.raises(DomainError) as refused:
        opened(alice)
    assert refused.value.code == "insufficient_credit"


def test_waiting_in_line_costs_nothing_and_gives_the_whole_hold_back() -> None:
    alice = a_customer(100)
    run = opened(alice)
    done = billing.settle(run, at=t(300))
    assert (done.charged, done.released, done.billed_from) == (0, HOLD, None)
    assert wallet(alice) == (cr(100), 0)
    assert books_agree()


def test_a_run_without_a_meter_costs_nothing_and_is_no_error() -> None:
    nobody = uuid7()
    billing.hand_off(nobody, at=t(0))
    billing.meter_ready(nobody, ready_at=t(0), at=t(0))
    billing.prove({nobody: t(1)}, at=t(1))
    billing.request_end(nobody, at=t(1))
    assert billing.reopen(nobody, at=t(1)) == 0
    assert billing.suspend(nobody, at=t(1)) == billing.Settlement()
    assert billing.settle(nobody, at=t(1)) == billing.Settlement()
    assert billing.carry_meter(from_run=nobody, to_run=uuid7(), at=t(1)) == billing.Settlement()


def test_a_hold_must_be_above_zero_and_a_rate_positive() -> None:
    alice = a_customer(100)
    with pytest.raises(ValueError):
        opened(alice, hold=0)
    with pytest.raises(ValueError):
        Price(0, Fraction(1, 4))


# Start ---------------------------------------------------------------------------------------------------------------


def test_a_run_bills_from_the_ready_report_not_from_the_click() -> None:
    alice = a_customer(100)
    run = opened(alice, at=0)
    billing.meter_ready(run, ready_at=t(7), at=t(8))
    alive(run, at=30)
    done = ended(run, at=27)
    assert (done.billed_from, done.billed_to) == (t(7), t(27))
    assert done.charged == charge_micro(QUARTER, 20 * 60 * 1_000_000)
    assert wallet(alice) == (cr(100) - done.charged, 0)
    assert books_agree()


def test_a_run_that_never_is_ready_bills_nothing() -> None:
    alice = a_customer(100)
    run = opened(alice)
    alive(run, at=10)
    done = ended(run, at=10)
    assert (done.charged, done.released) == (0, HOLD)
    assert books_agree()


def test_a_ready_time_before_the_hand_off_counts_from_the_hand_off_and_one_in_the_future_from_now() -> None:
    alice = a_customer(100)
    early, late = opened(alice, at=0), opened(alice, at=0)
    billing.hand_off(early, at=t(5))
    billing.meter_ready(early, ready_at=t(2), at=t(6))
    billing.meter_ready(late, ready_at=t(60), at=t(6))
    assert meter(early).started_at == t(5)
    assert meter(late).started_at == t(6)


def test_repeated_and_late_ready_reports_change_nothing() -> None:
    alice = a_customer(100)
    run = running(alice)
    billing.meter_ready(run, ready_at=t(3), at=t(4))
    assert meter(run).started_at == t(0)
    assert MeterInterval.objects.filter(meter_id=run).count() == 1


def test_a_ready_after_the_asked_end_bills_nothing_one_before_it_still_bills() -> None:
    alice = a_customer(100)
    late, overtaken = opened(alice), opened(alice)
    for run in (late, overtaken):
        billing.request_end(run, at=t(10))
    billing.meter_ready(late, ready_at=t(11), at=t(12))
    billing.meter_ready(overtaken, ready_at=t(4), at=t(12))
    assert billing.settle(late, at=t(12), last_alive_at=t(12)).charged == 0
    done = billing.settle(overtaken, at=t(12), last_alive_at=t(12))
    assert (done.billed_from, done.billed_to) == (t(4), t(10))
    assert books_agree()


def test_a_gone_that_overtook_running_bills_what_it_reports() -> None:
    alice = a_customer(100)
    run = opened(alice)
    billing.meter_ready(run, ready_at=t(2), at=t(20))
    done = billing.settle(run, at=t(20), last_alive_at=t(12))
    assert (done.billed_from, done.billed_to) == (t(2), t(12))


# End -----------------------------------------------------------------------------------------------------------------


def test_the_first_request_fixes_the_end_and_later_ones_do_not_move_it() -> None:
    alice = a_customer(100)
    run = running(alice)
    billing.request_end(run, at=t(10))
    billing.request_end(run, at=t(15))
    assert billing.settle(run, at=t(16), last_alive_at=t(16)).billed_to == t(10)


def test_nothing_bills_past_the_last_proof_of_life() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=12)
    done = billing.settle(run, at=t(40))
    assert done.billed_to == t(12)
    assert done.running_us == 12 * 60 * 1_000_000


def test_proof_only_moves_forward_and_never_past_now() -> None:
    alice = a_customer(100)
    run = running(alice)
    billing.prove({run: t(20)}, at=t(20))
    billing.prove({run: t(10)}, at=t(21))
    assert meter(run).proven_until == t(20)
    billing.prove({run: t(500)}, at=t(22))
    assert meter(run).proven_until == t(22)


def test_a_settled_run_is_settled_once_and_repeats_its_answer() -> None:
    alice = a_customer(100)
    run = running(alice)
    first = ended(run, at=30)
    again = billing.settle(run, at=t(50), last_alive_at=t(50))
    assert again.charged == first.charged == cr("6.25")
    assert (again.billed_from, again.billed_to, again.released) == (t(0), t(30), 0)
    billing.prove({run: t(60)}, at=t(60))
    billing.meter_ready(run, ready_at=t(55), at=t(60))
    assert billing.settle(run, at=t(70)).charged == first.charged
    assert wallet(alice) == (cr("93.75"), 0)
    assert books_agree()


def test_ending_never_fails_because_the_wallet_is_short() -> None:
    alice = a_customer("12.5")
    run = running(alice)
    done = ended(run, at=200)
    assert (done.charged, done.billed_to, done.not_billed) == (HOLD, t(60), charge_micro(QUARTER, 140 * 60 * 1_000_000))
    assert wallet(alice) == (0, 0)
    assert books_agree()


def test_an_end_is_never_before_what_is_already_charged() -> None:
    alice = a_customer(100)
    run = running(alice)
    tick(31, run)
    billing.request_end(run, at=t(20))  # a clock that stepped back
    assert meter(run).end_at == t(31)
    assert billing.settle(run, at=t(32), last_alive_at=t(32)).billed_to == t(31)
    assert books_agree()


def test_a_pause_bills_nothing_and_a_resume_takes_a_new_hold_at_the_new_price() -> None:
    alice = a_customer(100)
    run = running(alice)
    first = ended(run, at=30)
    dearer = Price(cr(110), Fraction(1, 4))
    second = opened(alice, at=24 * 60, price=dearer)
    assert wallet(alice) == (cr(100) - first.charged, cr("27.5"))
    billing.meter_ready(second, ready_at=t(24 * 60), at=t(24 * 60))
    done = ended(second, at=24 * 60 + 60)
    assert done.charged == cr("27.5")
    assert wallet(alice) == (cr(100) - cr("6.25") - cr("27.5"), 0)
    assert books_agree()


def test_ending_a_paused_session_bills_nothing_more() -> None:
    alice = a_customer(100)
    run = running(alice)
    paused = ended(run, at=30)
    stopped = billing.settle(run, at=t(3000), last_alive_at=t(3000))
    assert stopped.charged == paused.charged
    assert wallet(alice) == (cr(100) - paused.charged, 0)


# Silence, return, succession -----------------------------------------------------------------------------------------


def test_a_lost_run_is_billed_to_its_last_proof_and_releases_its_hold() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=12)
    done = billing.suspend(run, at=t(17))
    assert (done.billed_to, done.charged) == (t(12), cr("2.5"))
    assert wallet(alice) == (cr("97.5"), 0)
    assert billing.suspend(run, at=t(18)).charged == done.charged
    assert books_agree()


def test_a_lost_run_that_comes_back_takes_a_new_hold_and_opens_the_next_interval() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=12)
    billing.suspend(run, at=t(17))
    assert billing.reopen(run, at=t(40)) == HOLD
    billing.meter_ready(run, ready_at=t(0), at=t(40))  # the pod was ready all along, this interval begins now
    done = ended(run, at=52)
    assert (done.billed_from, done.billed_to) == (t(40), t(52))
    assert done.charged == cr(5)  # 24 minutes in two intervals
    assert done.running_us == 24 * 60 * 1_000_000
    assert charges(run) == [(0, 12, cr("2.5")), (40, 52, cr("2.5"))]
    assert books_agree()


def test_a_lost_run_that_comes_back_to_an_empty_wallet_is_refused_and_changes_nothing() -> None:
    alice = a_customer(15)
    run = running(alice)
    alive(run, at=30)
    billing.suspend(run, at=t(35))
    with pytest.raises(DomainError) as refused:
        billing.reopen(run, at=t(40))
    assert refused.value.code == "insufficient_credit"
    assert meter(run).suspended_at == t(35)
    assert billing.settle(run, at=t(41)).charged == cr("6.25")
    assert books_agree()


def test_a_lost_run_that_ends_is_settled_with_what_was_billed() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=12)
    billing.suspend(run, at=t(17))
    billing.meter_ready(run, ready_at=t(0), at=t(18))
    done = billing.settle(run, at=t(20), last_alive_at=t(19))
    assert done.charged == cr("2.5")
    assert meter(run).proven_until == t(19)  # recorded, not billed
    assert books_agree()


def test_a_restart_keeps_price_and_what_is_left_of_the_hold() -> None:
    alice = a_customer(100)
    old = running(alice)
    billing.request_end(old, at=t(20))
    new = uuid7()
    done = billing.carry_meter(from_run=old, to_run=new, at=t(21), last_alive_at=t(21))
    assert (done.charged, done.released, done.billed_to) == (charge_micro(QUARTER, 20 * 60 * 1_000_000), 0, t(20))
    assert meter(new).held == HOLD - done.charged
    assert meter(new).number == 2
    assert wallet(alice) == (cr(100) - done.charged, HOLD - done.charged)
    again = billing.carry_meter(from_run=old, to_run=new, at=t(22))
    assert again == done
    billing.meter_ready(new, ready_at=t(22), at=t(22))
    assert ended(new, at=42).charged == done.charged
    assert wallet(alice) == (cr(100) - 2 * done.charged, 0)
    assert books_agree()


def test_going_back_in_line_keeps_the_hold() -> None:
    alice = a_customer("12.5")
    old, new = opened(alice), uuid7()
    done = billing.carry_meter(from_run=old, to_run=new, at=t(3))
    assert (done.charged, done.released) == (0, 0)
    assert meter(new).held == HOLD
    assert wallet(alice) == (HOLD, HOLD)
    assert books_agree()


# Cost so far ---------------------------------------------------------------------------------------------------------


def test_cost_so_far_comes_from_the_meter_and_stops_at_the_asked_end() -> None:
    alice = a_customer(100)
    run = running(alice)
    cost = queries.cost([run, uuid7()], t(24))[run]
    assert (cost.hourly, cost.accrued, cost.charged, cost.held) == (HOLD, cr(5), 0, HOLD)
    assert cost.hold_ends_at == t(60)
    assert queries.accrued_of([alice.wallet], t(24)) == {alice.wallet: cr(5)}
    tick(36, run)
    later = queries.cost([run], t(48))[run]
    assert (later.charged, later.accrued, later.total) == (cr("7.5"), cr("2.5"), cr(10))
    billing.request_end(run, at=t(48))
    assert queries.cost([run], t(500))[run].total == cr(10)


def test_the_preview_sees_the_same_money_as_the_locked_gate() -> None:
    alice = a_customer(100)
    opened(alice)
    preview = queries.money_facts(alice.scopes, at=t(1))
    assert preview == billing.lock_money(alice.scopes, at=t(1))
    assert (preview.balance, preview.held, preview.available) == (cr(100), HOLD, cr("87.5"))
    assert queries.personal_wallet_id(alice.user.pk) == alice.wallet


# Constraints ---------------------------------------------------------------------------------------------------------


def test_intervals_of_a_meter_cannot_overlap_nor_end_before_they_start() -> None:
    alice = a_customer(100)
    run = running(alice)
    ended(run, at=30)
    for start, end in ((10, 20), (29, None), (-5, 1)):
        with pytest.raises(IntegrityError), transaction.atomic():
            MeterInterval.objects.create(meter_id=run, starts_at=t(start), ends_at=None if end is None else t(end))
    with pytest.raises(IntegrityError), transaction.atomic():
        MeterInterval.objects.create(meter_id=run, starts_at=t(50), ends_at=t(49))
    MeterInterval.objects.create(meter_id=run, starts_at=t(30), ends_at=t(31))


def test_a_run_has_one_meter() -> None:
    alice = a_customer(100)
    run = opened(alice)
    with pytest.raises(IntegrityError), transaction.atomic():
        billing.open_meter(
            billing.Opening(run, billing.Purpose(uuid7(), "again"), alice.scopes, QUARTER, HOLD), at=t(0) + HOUR
        )
    assert wallet(alice) == (cr(100), HOLD)


def test_a_settlement_that_is_killed_anywhere_bills_nothing_or_everything_and_the_repeat_finishes_it_once() -> None:
    alice = a_customer(20)
    scope = billing.BudgetScope("user", alice.user.pk)
    budget = billing.create_budget(scope=scope, limit=cr(100), mode="warn", rule=Rule("UTC"), by=None)
    run = running(alice)
    billing.request_end(run, at=t(72))  # twelve minutes past its hold, paid from what is free

    def settle() -> None:
        billing.settle(run, at=t(73), last_alive_at=t(73))

    def check() -> None:
        assert (wallet(alice), meter(run).settled_at is None) in {((cr(20), HOLD), True), ((cr(5), 0), False)}
        assert books_agree()

    def done() -> None:
        assert wallet(alice) == (cr(5), 0)
        assert charges(run) == [(0, 72, cr(15))]
        budget.refresh_from_db()
        assert budget.held == 0
        assert books_agree()

    assert every_death_then_again(settle, check, done) > 5


def test_a_tick_that_is_killed_anywhere_charges_and_fills_nothing_or_everything_and_the_repeat_finishes_it_once() -> (
    None
):
    alice, bob = a_customer(100), a_customer(100)
    runs = running(alice), running(bob)
    alive(*runs, at=40)
    moved = (cr(100) - cr("12.5") * 40 // 60, HOLD)

    def work() -> None:
        with at_time(40):
            billing.top_up_due()

    def check() -> None:
        assert {wallet(one) for one in (alice, bob)} <= {(cr(100), HOLD), moved}
        assert books_agree()

    def done() -> None:
        assert [wallet(one) for one in (alice, bob)] == [moved, moved]
        assert books_agree()

    assert every_death_then_again(work, check, done) > 5
