"""Money under real concurrency: threads with connections of their own, committed transactions."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from billing import ledger
from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import SYSTEM_ID, Account, Budget, BudgetPeriod, Meter, MonthlyGrant, Transfer, TransferKind
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import locks
from tests.apps.billing.stage import (
    HOLD,
    alive,
    at_time,
    books_agree,
    charges,
    ended,
    meter,
    opened,
    running,
    t,
    wallet,
)
from tests.builders import Customer, a_customer, a_group, a_user, cr, fund_group
from tests.concurrency.rivals import Held, Waiting, times, together
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
RIVALS = 8
ROOT = Path(__file__).resolve().parents[2]


def outcomes(results: list[Any]) -> Counter[str]:
    """How many did it, and how many were refused with which code; anything else fails the test."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, DomainError):
            raise result
    return Counter(result.code if isinstance(result, DomainError) else "done" for result in results)


def later(minutes: float, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with its thread's clock at this time."""

    def run() -> Any:
        with at_time(minutes):
            return call()

    return run


def a_tick() -> billing.TickResult:
    return billing.top_up_due()


# Wallets -------------------------------------------------------------------------------------------------------------


def test_rival_allocations_of_the_last_credit_move_it_once() -> None:
    alice = a_customer()
    group = fund_group(alice.group, 1)
    results = together(*times(RIVALS, lambda: billing.allocate(source=group, to=alice.wallet, amount=cr(1), by=None)))
    assert outcomes(results) == {"done": 1, "insufficient_pool": RIVALS - 1}
    assert wallet(alice) == (cr(1), 0)
    assert books_agree()


def test_rival_bulk_orders_that_there_is_enough_for_once_move_all_of_one_and_nothing_of_the_others() -> None:
    group = a_group()
    people = [a_customer(group=group) for _one in range(5)]
    source = fund_group(group, 5)

    def bulk(backwards: bool) -> Any:
        moves = [billing.Move(one.wallet, cr(1)) for one in people]
        order = billing.BulkOrder(TransferKind.ALLOCATE, source, moves[::-1] if backwards else moves)
        return billing.move_in_bulk(order, by=None)

    results = together(*(partial(bulk, number % 2 == 0) for number in range(RIVALS)))
    assert outcomes(results) == {"done": 1, "insufficient_pool": RIVALS - 1}
    assert [wallet(one) for one in people] == [(cr(1), 0)] * 5
    assert books_agree()


def test_an_allocation_and_a_hold_never_spend_the_same_credit() -> None:
    alice = a_customer("12.5")
    group = billing.ensure_wallet("group", alice.group.pk)
    results = together(
        *times(4, lambda: billing.reclaim(source=alice.wallet, to=group, amount=cr(1), by=None)),
        *times(4, lambda: opened(alice)),
    )
    found = outcomes(results)
    assert found["done"] in {1, 4}  # the one hold, or the four reclaims
    assert books_agree()


def test_a_key_moves_credits_once_however_many_try() -> None:
    alice = a_customer()

    def move() -> UUID:
        with locks.ordered():
            movement = ledger.Movement(TransferKind.ALLOCATE, SYSTEM_ID, alice.wallet, cr(1), "the key", t(0))
            return ledger.transfer(movement).pk

    billing.issue(amount=cr(100), by=None)
    results = together(*times(RIVALS, move))
    assert outcomes(results) == {"done": RIVALS}
    assert len(set(results)) == 1
    assert wallet(alice) == (cr(1), 0)


def test_a_wallet_is_made_once_however_many_look() -> None:
    person = a_user(a_group())
    found = together(*times(RIVALS, lambda: billing.ensure_wallet("user", person.pk)))
    assert len(set(found)) == 1
    assert Account.objects.filter(user=person).count() == 1


def in_april(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with its thread's clock at the first of April."""
    return later(29 * 24 * 60 + 16 * 60, call)  # minutes after T0


def test_refills_at_the_same_instant_raise_everybody_once() -> None:
    alice, bob = a_customer(), a_customer()
    billing.issue(amount=cr(500), by=None)
    for one in (alice, bob):
        organisation = billing.ensure_wallet("organisation", one.group.organisation_id)
        group = billing.ensure_wallet("group", one.group.pk)
        for parent, child in ((SYSTEM_ID, organisation), (organisation, group), (group, one.wallet)):
            with at_time(0):
                billing.set_monthly_grant(wallet=child, parent=parent, amount=cr(10), by=None)
    outcomes(together(*times(RIVALS, in_april(billing.refill_due))))
    assert [wallet(one) for one in (alice, bob)] == [(cr(10), 0)] * 2
    assert Transfer.objects.filter(kind="grant").count() == 6
    assert books_agree()


def test_rival_grants_never_promise_more_than_their_parent_gets() -> None:
    group = a_group()
    people = [a_customer(group=group) for _one in range(RIVALS)]
    organisation, source = billing.ensure_wallet("organisation", group.organisation_id), fund_group(group, 1)
    billing.set_monthly_grant(wallet=organisation, parent=SYSTEM_ID, amount=cr(30), by=None)
    billing.set_monthly_grant(wallet=source, parent=organisation, amount=cr(30), by=None)
    grants = [
        partial(billing.set_monthly_grant, wallet=one.wallet, parent=source, amount=cr(10), by=None) for one in people
    ]
    less = partial(billing.set_monthly_grant, wallet=source, parent=organisation, amount=cr(20), by=None)
    found = outcomes(together(*grants, less))
    assert found["done"] == 3  # three of ten each, or two of them and the lower sum
    given = sum(MonthlyGrant.objects.filter(parent=source).values_list("amount", flat=True))
    assert given <= MonthlyGrant.objects.get(wallet=source).amount


def test_of_rivals_who_decide_one_request_one_does_and_credits_move_at_most_once() -> None:
    alice = a_customer()
    source = fund_group(alice.group, 100)
    chiefs = [a_user(alice.group, "group_admin") for _one in range(RIVALS - 2)]
    for _round in range(5):
        had = wallet(alice)[0]
        asked = billing.ask_for_credits(wallet=alice.wallet, parent=source, amount=cr(1), reason="x", by=alice.user)
        calls = [partial(billing.approve_request, request_id=asked.pk, by=chief) for chief in chiefs]
        calls.append(partial(billing.reject_request, request_id=asked.pk, by=chiefs[0], reason="no"))
        calls.append(partial(billing.withdraw_request, request_id=asked.pk, by=alice.user))
        random.shuffle(calls)
        assert outcomes(together(*calls)) == {"done": 1, "already_decided": RIVALS - 1}
        asked.refresh_from_db()
        assert wallet(alice)[0] == had + (cr(1) if asked.state == "approved" else 0)
    assert books_agree()


# Holds ---------------------------------------------------------------------------------------------------------------


def test_credit_for_seven_of_twenty_admits_exactly_seven() -> None:
    alice = a_customer("99.999999")  # seven holds of 12.5, nearly eight
    results = together(*times(20, lambda: opened(alice)))
    assert outcomes(results) == {"done": 7, "insufficient_credit": 13}
    assert wallet(alice) == (cr("99.999999"), 7 * HOLD)
    assert books_agree()


@pytest.mark.timeout(240)
def test_two_processes_cannot_spend_the_same_credit_twice(service_environment: dict[str, str]) -> None:
    alice = a_customer("99.999999")
    command = [sys.executable, "-m", "tests.concurrency.money_child", str(alice.user.pk), str(alice.group.pk), "10"]
    children = [
        subprocess.Popen(
            command, cwd=ROOT, env=service_environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _number in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    answers = together(*(partial(child.communicate, "go\n", 60) for child in children))
    counts = [tuple(int(number) for number in out.split()) for out, _err in answers]
    assert [sum(column) for column in zip(*counts, strict=True)] == [7, 13]
    assert [child.returncode for child in children] == [0, 0]
    assert wallet(alice) == (cr("99.999999"), 7 * HOLD)
    assert books_agree()


def test_a_blocking_budget_for_three_admits_exactly_three_of_different_members() -> None:
    group = a_group()
    people = [a_customer(100, group=group) for _number in range(RIVALS)]
    scope = billing.BudgetScope("group", group.pk)
    budget = billing.create_budget(scope=scope, limit=cr("37.5"), mode="block", rule=Rule("UTC"), by=None)
    BudgetPeriod.objects.all().delete()  # the period is made by whoever comes first
    results = together(*(partial(opened, customer) for customer in people))
    assert outcomes(results) == {"done": 3, "budget_exceeded": RIVALS - 3}
    assert Budget.objects.get(pk=budget.pk).held == 3 * HOLD
    assert BudgetPeriod.objects.count() == 1
    assert books_agree()


# Charges -------------------------------------------------------------------------------------------------------------


def test_ticks_at_the_same_instant_charge_and_fill_once() -> None:
    group = a_group()
    runs = [running(a_customer(100, group=group)) for _number in range(6)]
    alive(*runs, at=40)
    results = together(*times(RIVALS, later(40, a_tick)))
    assert sum(result.posted for result in results) == len(runs)
    assert {len(charges(run)) for run in runs} == {1}
    assert {meter(run).held for run in runs} == {HOLD}
    assert books_agree()


def test_a_run_is_settled_once_while_ticks_run() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=40)
    billing.request_end(run, at=t(40))
    settle = later(41, lambda: billing.settle(run, at=t(41), last_alive_at=t(41)).charged)
    results = together(*times(4, settle), *times(4, later(41, a_tick)))
    assert set(results[:4]) == {cr("8.333333")}
    assert wallet(alice) == (cr(100) - cr("8.333333"), 0)
    assert books_agree()


def test_a_settlement_a_suspension_and_a_tick_at_once_bill_the_run_once() -> None:
    for _round in range(4):
        alice = a_customer(100)
        run = running(alice)
        alive(run, at=40)
        outcomes(
            together(
                partial(billing.suspend, run, at=t(41)),
                partial(billing.settle, run, at=t(41)),
                *times(3, later(41, a_tick)),
                *times(3, partial(billing.request_end, run, at=t(40))),
            )
        )
        assert billing.settle(run, at=t(42)).charged == cr("8.333333")
        assert wallet(alice) == (cr(100) - cr("8.333333"), 0)
    assert books_agree()


def test_one_sessions_catching_up_waits_for_nobody_elses_hold() -> None:
    """The last free credits go to whoever comes first; no hold of the other shrinks."""
    alice = a_customer(30)
    first, second = running(alice), running(alice)
    results = together(
        lambda: ended(first, at=90),
        lambda: ended(second, at=90),
    )
    billed = sorted(result.charged for result in results)
    assert sum(billed) <= cr(30)
    assert billed[0] >= HOLD
    assert wallet(alice) == (cr(30) - sum(billed), 0)
    assert books_agree()


def test_a_charge_that_is_being_written_is_not_overlooked_by_a_new_budget() -> None:
    alice = a_customer(100)
    run = running(alice)
    alive(run, at=30)
    billing.request_end(run, at=t(30))
    scope = billing.BudgetScope("user", alice.user.pk)

    def settle(pause: Callable[[], None]) -> None:
        with locks.ordered():
            billing.settle(run, at=t(31))
            pause()

    def create() -> UUID:
        with at_time(31):
            return billing.create_budget(scope=scope, limit=cr(50), mode="block", rule=Rule("UTC"), by=None).pk

    settling = Held(settle)
    creating = Waiting(create)
    until(creating.is_blocked, within=10, what="the new budget to wait for the charge")
    settling.release()
    budget = creating.result()
    assert BudgetPeriod.objects.get(budget_id=budget).spent == cr("6.25")
    assert books_agree()


def test_proof_of_life_and_ticks_do_not_block_each_other_for_ever() -> None:
    group = a_group()
    runs = [running(a_customer(100, group=group)) for _number in range(12)]

    def seen(minute: float) -> Callable[[], None]:
        return lambda: billing.prove({run: t(minute) for run in reversed(runs)}, at=t(minute))

    outcomes(together(*(seen(35 + number) for number in range(4)), *times(4, later(40, a_tick))))
    outcomes(together(later(41, a_tick), seen(41)))
    assert {meter(run).proven_until for run in runs} == {t(41)}
    assert books_agree()


# Everything at once --------------------------------------------------------------------------------------------------


class _Round:
    """One thread's random acts on shared wallets; refusals are fine, anything else is not."""

    def __init__(self, seed: int, people: list[Customer], groups: list[UUID]) -> None:
        self.random = random.Random(seed)
        self.people, self.groups = people, groups
        self.runs: list[UUID] = []
        self.minute = 0.0

    def __call__(self) -> int:
        refused = 0
        for _step in range(50):
            self.minute += self.random.choice([0.5, 7, 21])
            try:
                self.random.choice([self.open, self.open, self.end, self.allocate, self.reclaim, self.tick, self.see])()
            except DomainError:
                refused += 1
        for run in self.runs:
            billing.settle(run, at=t(self.minute))
        return refused

    def open(self) -> None:
        customer = self.random.choice(self.people)
        run = opened(customer, at=self.minute)
        billing.meter_ready(run, ready_at=t(self.minute), at=t(self.minute))
        self.runs.append(run)

    def end(self) -> None:
        if self.runs:
            run = self.runs.pop(self.random.randrange(len(self.runs)))
            if self.random.random() < 0.5:
                ended(run, at=self.minute)
                return
            new = uuid7()
            billing.request_end(run, at=t(self.minute))
            billing.carry_meter(from_run=run, to_run=new, at=t(self.minute), last_alive_at=t(self.minute))
            billing.meter_ready(new, ready_at=t(self.minute), at=t(self.minute))
            self.runs.append(new)

    def allocate(self) -> None:
        customer = self.random.choice(self.people)
        source = billing.ensure_wallet("group", customer.group.pk)
        billing.allocate(source=source, to=customer.wallet, amount=cr(self.random.randint(1, 9)), by=None)

    def reclaim(self) -> None:
        customer = self.random.choice(self.people)
        to = billing.ensure_wallet("group", customer.group.pk)
        billing.reclaim(source=customer.wallet, to=to, amount=cr(self.random.randint(1, 9)), by=None)

    def tick(self) -> None:
        with at_time(self.minute):
            billing.top_up_due()

    def see(self) -> None:
        runs = self.runs[::-1]
        billing.prove(dict.fromkeys(runs, t(self.minute)), at=t(self.minute))


@pytest.mark.timeout(300)
def test_hundreds_of_mixed_acts_deadlock_nobody_and_the_books_agree() -> None:
    groups = [a_group() for _number in range(2)]
    people = [a_customer(200, group=groups[number % 2]) for number in range(4)]
    wallets = [fund_group(group, 300) for group in groups]
    for group in groups:
        scope = billing.BudgetScope("group", group.pk)
        billing.create_budget(scope=scope, limit=cr(500), mode="block", rule=Rule("UTC"), by=None)
    rounds = [_Round(seed, people, wallets) for seed in range(RIVALS)]
    results = together(*rounds)
    outcomes(results)
    assert Meter.objects.filter(settled_at=None).count() == 0
    assert Account.objects.filter(held__gt=0).count() == 0
    assert Transfer.objects.filter(kind="charge").exists()
    assert books_agree()
