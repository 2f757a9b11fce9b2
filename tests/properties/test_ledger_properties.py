"""The ledger under random acts on a real database: it always balances, and every run costs what the formula says."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import services as billing
from billing.domain.budgets import Rule
from billing.domain.pricing import Price, charge_micro
from billing.models import Account, Budget, BudgetPeriod
from billing.trial import differences, totals
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.quantities import microseconds_between
from tests.apps.billing.stage import alive, at_time, meter, opened, t
from tests.builders import Customer, a_customer, a_group, cr, fund_group

pytestmark = pytest.mark.django_db

MINUTE_US = 60_000_000
bounded = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))

prices = st.sampled_from(
    [
        Price(cr(50), Fraction(1, 4)),
        Price(cr("33.333333"), Fraction(3, 7)),
        Price(7, Fraction(1, 16)),
        Price(cr(8), Fraction(2)),
    ]
)
acts = st.one_of(
    st.tuples(st.just("open"), st.integers(0, 2), prices),
    st.tuples(st.just("ready"), st.integers(0, 5), st.integers(0, 30)),
    st.tuples(st.just("alive"), st.integers(0, 5), st.integers(-60, 5)),
    st.tuples(st.just("ask"), st.integers(0, 5), st.none()),
    st.tuples(st.just("settle"), st.integers(0, 5), st.integers(-60, 5)),
    st.tuples(st.just("suspend"), st.integers(0, 5), st.none()),
    st.tuples(st.just("reopen"), st.integers(0, 5), st.none()),
    st.tuples(st.just("carry"), st.integers(0, 5), st.none()),
    st.tuples(st.just("tick"), st.none(), st.none()),
    st.tuples(st.just("allocate"), st.integers(0, 2), st.integers(1, 30)),
    st.tuples(st.just("reclaim"), st.integers(0, 2), st.integers(1, 30)),
    st.tuples(st.just("adjust"), st.integers(0, 2), st.integers(-20, 20)),
)
stories = st.lists(st.tuples(st.sampled_from([0, 1, 20, 45, 300]), acts), min_size=5, max_size=30)


@dataclass
class World:
    """A small installation that acts are played on; refusals are part of the play."""

    people: list[Customer]
    group: UUID
    runs: list[UUID] = field(default_factory=list)
    minute: float = 0

    @classmethod
    def build(cls) -> World:
        group = a_group()
        people = [a_customer(amount, group=group) for amount in (100, 13, 0)]
        for kind, zone, mode in (
            ("user", "UTC", "warn"),
            ("group", "Asia/Seoul", "block"),
            ("organisation", "UTC", "block"),
        ):
            scopes = dict(people[0].scopes.as_pairs())
            scope = billing.BudgetScope(kind, scopes[kind])  # type: ignore[index, arg-type]
            billing.create_budget(scope=scope, limit=cr(60), mode=mode, rule=Rule(zone), by=None)  # type: ignore[arg-type]
        return cls(people, fund_group(group, 50), minute=29 * 24 * 60)

    def play(self, pause: int, act: tuple[str, Any, Any]) -> None:
        self.minute += pause
        name, which, how = act
        try:
            getattr(self, name)(which, how)
        except DomainError as refused:
            if refused.code not in {"insufficient_credit", "budget_exceeded", "insufficient_pool", "invalid"}:
                raise

    def run(self, which: int) -> UUID:
        return self.runs[which % len(self.runs)] if self.runs else uuid7()

    def open(self, which: int, price: Price) -> None:
        self.runs.append(opened(self.people[which], at=self.minute, price=price))

    def ready(self, which: int, ago: int) -> None:
        billing.meter_ready(self.run(which), ready_at=t(self.minute - ago), at=t(self.minute))

    def alive(self, which: int, shift: int) -> None:
        billing.prove({self.run(which): t(self.minute + shift)}, at=t(self.minute))

    def ask(self, which: int, _how: None) -> None:
        billing.request_end(self.run(which), at=t(self.minute))

    def settle(self, which: int, shift: int) -> None:
        run = self.run(which)
        first = billing.settle(run, at=t(self.minute), last_alive_at=t(self.minute + shift))
        again = billing.settle(run, at=t(self.minute + 5), last_alive_at=t(self.minute + 5))
        assert (first.charged, first.billed_to) == (again.charged, again.billed_to)

    def suspend(self, which: int, _how: None) -> None:
        billing.suspend(self.run(which), at=t(self.minute))

    def reopen(self, which: int, _how: None) -> None:
        billing.reopen(self.run(which), at=t(self.minute))

    def carry(self, which: int, _how: None) -> None:
        if self.runs:
            old, new = self.run(which), uuid7()
            settled = meter(old).settled_at
            billing.carry_meter(from_run=old, to_run=new, at=t(self.minute))
            if settled is None:
                self.runs.append(new)

    def tick(self, _which: None, _how: None) -> None:
        for _twice in range(2):
            with at_time(self.minute):
                billing.top_up_due()

    def allocate(self, which: int, amount: int) -> None:
        billing.allocate(source=self.group, to=self.people[which].wallet, amount=cr(amount), by=None)

    def reclaim(self, which: int, amount: int) -> None:
        billing.reclaim(source=self.people[which].wallet, to=self.group, amount=cr(amount), by=None)

    def adjust(self, which: int, amount: int) -> None:
        billing.adjust(wallet=self.people[which].wallet, amount=amount * cr(1), reason="random", by=None)


def check(world: World) -> None:
    """What must hold after every story."""
    assert differences() == []
    sums = totals()
    assert sums.issued == sums.earned + sums.in_wallets
    for run in world.runs:
        row = meter(run)
        assert row.charged == charge_micro(row.price, _billed_us(run))
        assert row.proven_until is None or all(end <= row.proven_until for end in _ends(run))
    for period in BudgetPeriod.objects.select_related("budget").filter(budget__mode="block"):
        now = Budget.objects.get(pk=period.budget_id)
        assert period.spent <= now.limit


def _billed_us(run: UUID) -> int:
    row = meter(run)
    if row.started_at is None or row.charged_until is None:
        return row.closed_us
    return row.closed_us + microseconds_between(row.started_at, row.charged_until)


def _ends(run: UUID) -> list[Any]:
    return [row.ends_at for row in meter(run).intervals.all() if row.ends_at is not None]


@bounded
@given(stories)
def test_the_ledger_balances_after_any_story(story: list[tuple[int, tuple[str, Any, Any]]]) -> None:
    with transaction.atomic():
        world = World.build()
        for pause, act in story:
            world.play(pause, act)
        check(world)
        for run in world.runs:
            billing.settle(run, at=t(world.minute))
        check(world)
        assert not Account.objects.filter(held__gt=0).exists()
        assert not Budget.objects.filter(held__gt=0).exists()
        transaction.set_rollback(True)


@bounded
@given(st.lists(st.integers(1, 179), max_size=8), prices, st.integers(1, 180))
def test_any_ticks_and_any_proof_bill_the_same_total(moments: list[int], price: Price, end: int) -> None:
    with transaction.atomic():
        alice = a_customer(1000)
        run = opened(alice, price=price)
        billing.meter_ready(run, ready_at=t(0), at=t(0))
        for moment in moments:  # in any order: late ticks and a clock that steps back
            if moment < end:
                alive(run, at=moment)
            with at_time(moment):
                billing.top_up_due()
        billing.request_end(run, at=t(max([end, *moments])))
        last = max([end, *moments])
        done = billing.settle(run, at=t(last + 1), last_alive_at=t(last + 1))
        assert done.charged == charge_micro(price, last * MINUTE_US)
        assert differences() == []
        transaction.set_rollback(True)
