"""Everything that moves money, from eight connections at once, in random order: no deadlock, nothing below zero, nothing lost.

The acts are those of `tests/properties/test_money_model.py`, which knows what each comes to when they come one after another;
here they come together. A thousand rounds in `make soak`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError

from accounts.models import Group, Membership, User
from billing import services as billing
from billing import trial
from billing.domain.budgets import Rule
from billing.domain.pricing import Price
from billing.models import SYSTEM_ID, Account, Allocation, Budget, CreditRequest, Meter, Transfer, TransferKind
from billing.trial import totals
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_site.settings.test import GIVEN
from tests.apps.billing.stage import QUARTER, at_time, books_agree, opened, t
from tests.builders import LONG_AGO, Customer, a_customer, a_group, a_super_admin, cr, fund_group
from tests.concurrency.rivals import together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(3600)]

THREADS = 8
ROUNDS = 1_000 if GIVEN.get("GSHARE_TEST_SOAK_ROUNDS") else 40
PATIENCE = 3_000
PRICES = (QUARTER, Price(cr("33.333333"), Fraction(3, 7)), Price(cr(8), Fraction(2), 300), Price(7, Fraction(1, 16)))
REFUSALS = {
    "insufficient_credit",
    "budget_exceeded",
    "insufficient_pool",
    "invalid",
    "grant_exceeds_parent",
    "already_decided",
    "conflict",
    "forbidden",
    "not_found",
}


@dataclass
class Rival:
    """One connection's random acts; refusals are answers, anything else fails the test."""

    seed: int
    people: list[Customer]
    wallets: dict[UUID, UUID]  # of the groups
    root: Any
    minute: int = 0
    runs: list[UUID] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def __call__(self) -> Counter[str]:
        acts: list[Callable[[], Any]] = [self.open] * 3
        acts += [self.alive, self.tick, self.end, self.suspend, self.reopen] * 2
        acts += [self.allocate, self.reclaim, self.bulk, self.grant, self.refill, self.ask, self.decide] * 2
        acts += [
            self.adjust,
            self.budget,
            self.change_budget,
            self.leave,
            self.join,
            self.deactivate,
            self.rederive,
            self.check,
        ]
        for _round in range(ROUNDS):
            self.minute += self.random.choice((0, 1, 20, 50, 300, 4_000, -10))
            act = self.random.choice(acts)
            try:
                with at_time(self.minute):
                    act()
                self.done[act.__name__] += 1
            except DomainError as refused:
                if refused.code not in REFUSALS:
                    raise
        return self.done

    def who(self) -> Customer:
        return self.random.choice(self.people)

    def amount(self) -> int:
        return self.random.randrange(1, 9_000_000)

    def open(self) -> None:
        run = opened(self.who(), at=self.minute, price=self.random.choice(PRICES))
        billing.meter_ready(run, ready_at=t(self.minute), at=t(self.minute))
        self.runs.append(run)

    def alive(self) -> None:
        billing.prove(dict.fromkeys(self.runs[::-1], t(self.minute)), at=t(self.minute))

    def tick(self) -> None:
        billing.top_up_due()

    def refill(self) -> None:
        billing.refill_due()

    def rederive(self) -> None:
        assert billing.rederive_budgets() == 0, "a counter had drifted"

    def check(self) -> None:
        """A trial balance from the last one, beside everything: nothing that commits late or at once is a difference."""
        found = trial.check()
        assert found.agrees, found.found

    def end(self) -> None:
        if self.runs:
            run = self.runs.pop(self.random.randrange(len(self.runs)))
            billing.request_end(run, at=t(self.minute))
            if self.random.random() < 0.3:
                self.runs.append(new := uuid7())
                billing.carry_meter(from_run=run, to_run=new, at=t(self.minute))
                return
            billing.settle(run, at=t(self.minute), last_alive_at=t(self.minute))

    def suspend(self) -> None:
        if self.runs:
            billing.suspend(self.random.choice(self.runs), at=t(self.minute))

    def reopen(self) -> None:
        if self.runs:
            billing.reopen(self.random.choice(self.runs), at=t(self.minute))

    def allocate(self) -> None:
        one = self.who()
        billing.allocate(source=self.wallets[one.group.pk], to=one.wallet, amount=self.amount(), by=None)

    def reclaim(self) -> None:
        one = self.who()
        billing.reclaim(source=one.wallet, to=self.wallets[one.group.pk], amount=self.amount(), by=None)

    def bulk(self) -> None:
        group = self.random.choice(list(self.wallets))
        kind = self.random.choice((TransferKind.ALLOCATE, TransferKind.RECLAIM))
        moves = [billing.Move(one.wallet, self.amount()) for one in self.people if one.group.pk == group]
        self.random.shuffle(moves)
        billing.move_in_bulk(billing.BulkOrder(kind, self.wallets[group], moves), by=None)

    def adjust(self) -> None:
        amount = self.amount() * self.random.choice((1, -1))
        billing.adjust(wallet=self.who().wallet, amount=amount, reason="random", by=None)

    def grant(self) -> None:
        one = self.who()
        parent = self.wallets[one.group.pk]
        billing.set_monthly_grant(wallet=one.wallet, parent=parent, amount=self.amount(), by=None)

    def ask(self) -> None:
        one = self.who()
        parent = self.wallets[one.group.pk]
        billing.ask_for_credits(wallet=one.wallet, parent=parent, amount=self.amount(), reason="random", by=one.user)

    def decide(self) -> None:
        key = CreditRequest.objects.filter(state="open").order_by("?").values_list("pk", flat=True).first()
        if key is not None:
            self.random.choice(
                (
                    lambda: billing.approve_request(request_id=key, by=self.root),
                    lambda: billing.reject_request(request_id=key, reason="random", by=self.root),
                )
            )()

    def budget(self) -> None:
        one = self.who()
        kind: Any = self.random.choice(("user", "group", "organisation"))
        scope = billing.BudgetScope(kind, dict(one.scopes.as_pairs())[kind])
        zone = self.random.choice(("UTC", "Asia/Seoul", "America/New_York"))
        mode: Any = self.random.choice(("warn", "block"))
        billing.create_budget(scope=scope, limit=cr(900), mode=mode, rule=Rule(zone), by=None)

    def change_budget(self) -> None:
        key = Budget.objects.filter(is_active=True).order_by("?").values_list("pk", flat=True).first()
        if key is None:
            return
        if self.random.random() < 0.5:
            billing.close_budget(budget_id=key, by=None)
        else:
            billing.change_budget(budget_id=key, limit=cr(self.random.randrange(2_000)), by=None)

    def leave(self) -> None:
        one = self.who()
        Membership.objects.filter(user=one.user, group=one.group).delete()
        billing.return_to_parents(user_id=one.user.pk, group_id=one.group.pk)

    def deactivate(self) -> None:
        one = self.who()
        User.objects.filter(pk=one.user.pk).update(is_active=False)
        billing.return_to_parents(user_id=one.user.pk)

    def join(self) -> None:
        one = self.who()
        User.objects.filter(pk=one.user.pk).update(is_active=True)
        with suppress(IntegrityError):  # a rival seated him
            Membership.objects.create(user=one.user, group=one.group, role="member", created_at=LONG_AGO)

    def settle_all(self) -> None:
        for run in self.runs:
            billing.settle(run, at=t(self.minute))


def _grant(parent: UUID, child: UUID) -> None:
    with at_time(0):
        billing.set_monthly_grant(wallet=child, parent=parent, amount=cr(500), by=None)


def test_everything_at_once_from_eight_connections_loses_nothing_and_never_goes_below_zero() -> None:
    groups: list[Group] = [a_group()]
    groups.append(a_group(groups[0].organisation))
    people = [a_customer(100, group=groups[number % 2]) for number in range(5)]
    wallets = {group.pk: fund_group(group, 300) for group in groups}
    organisation = billing.ensure_wallet("organisation", groups[0].organisation_id)
    billing.issue(amount=cr(10_000), by=None)
    billing.set_monthly_grant(wallet=organisation, parent=SYSTEM_ID, amount=cr(1_000), by=None)
    for wallet in wallets.values():
        _grant(organisation, wallet)
    root = a_super_admin()
    rivals = [Rival(seed, people, wallets, root) for seed in range(THREADS)]
    done: Counter[str] = Counter()
    for result in together(*rivals, patience=PATIENCE):
        if isinstance(result, BaseException):
            raise result
        done += result
    assert {
        "check",
        "open",
        "tick",
        "end",
        "allocate",
        "reclaim",
        "grant",
        "refill",
        "ask",
        "decide",
        "leave",
        "deactivate",
    } <= set(done)
    assert books_agree()
    for rival in rivals:
        rival.settle_all()
    sums = totals()
    assert sums.issued == sums.earned + sums.in_wallets
    assert not Meter.objects.filter(settled_at=None).exists()
    assert not Account.objects.filter(held__gt=0).exists()
    assert not Budget.objects.filter(held__gt=0).exists()
    assert Transfer.objects.filter(kind="charge").exists()
    assert Allocation.objects.exists()
    assert books_agree()
