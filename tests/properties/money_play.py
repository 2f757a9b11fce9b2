"""The stories that `test_money_model` plays: each act done to the database and on paper.

Both must refuse with the same code, or both do it. Which wallet, person, run or budget an act is about follows from its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.models import Membership, User
from billing import services as billing
from billing.domain.budgets import Rule
from billing.domain.pricing import Price, hold_micro
from billing.models import SYSTEM_ID, TransferKind
from gshare_core.clock import ManualClock
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from tests.builders import a_group, a_super_admin, a_user, cr
from tests.properties.money_model import Paper, RefusedError
from tests.properties.money_parts import Clockwork, Purse, micros, month_starts

Act = tuple[timedelta, str, int, int, int]
ZONES = ("UTC", "Asia/Seoul", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12")
PRICES = (
    Price(cr(50), Fraction(1, 4)),
    Price(cr("33.333333"), Fraction(3, 7), 300),
    Price(cr(8), Fraction(2)),
    Price(cr("0.000977"), Fraction(1, 16)),
)


@dataclass
class Person:
    user: User
    wallet: UUID


@dataclass
class Both:
    """The database and the paper, told the same."""

    time: ManualClock
    root: User
    people: list[Person]
    groups: list[Any]
    wallets: list[UUID]  # system, organisation, groups, people
    paper: Paper
    asked_price: Price = PRICES[0]
    runs: list[UUID] = field(default_factory=list)
    budgets: list[UUID] = field(default_factory=list)
    asks: list[UUID] = field(default_factory=list)

    @classmethod
    def build(cls, time: ManualClock) -> Both:
        one = a_group()
        groups = [one, a_group(one.organisation)]
        people = []
        for places in ([0], [0, 1], [1]):
            user = a_user(groups[places[0]])
            if len(places) > 1:
                Membership.objects.create(user=user, group=groups[1], role="member", created_at=time.now())
            people.append(Person(user, billing.ensure_wallet("user", user.pk)))
        organisation = billing.ensure_wallet("organisation", one.organisation_id)
        below = [billing.ensure_wallet("group", group.pk) for group in groups]
        wallets = [SYSTEM_ID, organisation, *below, *(person.wallet for person in people)]
        seats = {
            (person.wallet, wallet)
            for person in people
            for group, wallet in zip(groups, below, strict=True)
            if Membership.objects.filter(user=person.user, group=group).exists()
        }
        paper = Paper(
            SYSTEM_ID,
            dict.fromkeys(below, organisation),
            organisation,
            {wallet: Purse() for wallet in wallets},
            seats,
            {person.wallet for person in people},
        )
        both = cls(time, a_super_admin(), people, groups, wallets, paper)
        for wallet, amount in zip(wallets, (500, 200, 60, 60, 90, 13, 30), strict=True):
            both.same(
                partial(billing.adjust, wallet=wallet, amount=cr(amount), reason="begin", by=None),
                partial(paper.fiat, wallet, cr(amount)),
            )
        return both

    @property
    def now(self) -> int:
        return micros(self.time.now())

    def play(self, act: Act) -> None:
        """One act on both."""
        pause, name, a, b, c = act
        self.time.advance(pause)
        getattr(self, name)(a, b, c)
        self.paper.end_of_act()

    def same(self, real: Callable[[], Any], paper: Callable[[], Any]) -> Any:
        """Do it on both; the database in a savepoint, as a request would be its own transaction."""
        code, expected, result = "", "", None
        try:
            with transaction.atomic():
                result = real()
        except DomainError as refused:
            code = refused.code
        try:
            paper()
        except RefusedError as refused:
            expected = refused.code
        assert code == expected, f"refused with {code or 'nothing'}, on paper with {expected or 'nothing'}"
        return result

    def person(self, a: int) -> Person:
        return self.people[a % len(self.people)]

    def group_wallet(self, b: int) -> UUID:
        return self.wallets[2 + b % 2]

    def run(self, a: int) -> UUID | None:
        return self.runs[a * 7 % len(self.runs)] if self.runs else None

    # Credits ---------------------------------------------------------------------------------------------------------

    def issue(self, _a: int, _b: int, c: int) -> None:
        self.same(lambda: billing.issue(amount=c + 1, by=None), lambda: self.paper.fiat(SYSTEM_ID, c + 1))

    def adjust(self, a: int, b: int, c: int) -> None:
        wallet, amount = self.wallets[(a + b) % 7], (c + 1) * (-40 if a % 2 else 60)
        self.same(
            lambda: billing.adjust(wallet=wallet, amount=amount, reason="random", by=None),
            lambda: self.paper.fiat(wallet, amount),
        )

    def _pair(self, a: int, b: int) -> tuple[UUID, UUID]:
        """Mostly neighbours: who is below whom; sometimes not."""
        choices = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 5), (3, 6), (2, 6), (0, 4)]
        parent, child = choices[(a * 6 + b) % len(choices)]
        return self.wallets[parent], self.wallets[child]

    def allocate(self, a: int, b: int, c: int) -> None:
        (parent, child), amount = self._pair(a, b), c * 20 + 1
        self.same(
            lambda: billing.allocate(source=parent, to=child, amount=amount, by=None),
            lambda: self.paper.allocate(parent, child, amount),
        )

    def reclaim(self, a: int, b: int, c: int) -> None:
        (parent, child), amount = self._pair(a, b), c * 10 + 1
        self.same(
            lambda: billing.reclaim(source=child, to=parent, amount=amount, by=None),
            lambda: self.paper.reclaim(parent, child, amount),
        )

    def bulk(self, a: int, b: int, c: int) -> None:
        parent = self.group_wallet(a)
        children = [person.wallet for person in self.people][b % 3 :]
        order = billing.BulkOrder(TransferKind.ALLOCATE, parent, [billing.Move(child, c + 1) for child in children])
        self.same(
            lambda: billing.move_in_bulk(order, by=None),
            lambda: self.paper.bulk(parent, children, c + 1),
        )

    def grant(self, a: int, b: int, c: int) -> None:
        (parent, child), amount = self._pair(a, b), 0 if c % 5 == 0 else c * 4
        now = self.time.now()
        self.same(
            lambda: billing.set_monthly_grant(wallet=child, parent=parent, amount=amount, by=None),
            lambda: self.paper.grant(parent, child, amount, month_number(now.date())),
        )

    def refill(self, _a: int, _b: int, _c: int) -> None:
        self.same(billing.refill_due, lambda: self.paper.refill(month_number(self.time.now().date())))

    def ask(self, a: int, b: int, c: int) -> None:
        person, parent = self.person(a), self.group_wallet(b)
        key = uuid7()
        made = self.same(
            lambda: billing.ask_for_credits(
                wallet=person.wallet, parent=parent, amount=c + 1, reason="random", by=person.user
            ),
            lambda: self.paper.ask(key, parent, person.wallet, c + 1),
        )
        if made is not None:
            self.paper.asks[made.pk] = self.paper.asks.pop(key)
            self.asks.append(made.pk)

    def decide(self, a: int, b: int, _c: int) -> None:
        if not self.asks:
            return
        key = self.asks[-1 - a % len(self.asks)]
        verbs: list[tuple[str, Callable[[], Any]]] = [
            ("approved", lambda: billing.approve_request(request_id=key, by=self.root)),
            ("rejected", lambda: billing.reject_request(request_id=key, reason="random", by=self.root)),
        ]
        verdict, act = verbs[b % 2]
        self.same(act, lambda: self.paper.decide(key, verdict))

    # People ----------------------------------------------------------------------------------------------------------

    def leave(self, a: int, b: int, _c: int) -> None:
        person, group = self.person(a), self.groups[b % 2]
        Membership.objects.filter(user=person.user, group=group).delete()
        self.paper.seats.discard((person.wallet, self.group_wallet(b)))
        self.same(
            lambda: billing.return_to_parents(user_id=person.user.pk, group_id=group.pk),
            lambda: self.paper.leave(person.wallet, self.group_wallet(b)),
        )

    def join(self, a: int, b: int, _c: int) -> None:
        person, group = self.person(a), self.groups[b % 2]
        Membership.objects.get_or_create(
            user=person.user, group=group, defaults={"role": "member", "created_at": self.time.now()}
        )
        self.paper.seats.add((person.wallet, self.group_wallet(b)))
        User.objects.filter(pk=person.user.pk).update(is_active=True)
        self.paper.active.add(person.wallet)

    def deactivate(self, a: int, _b: int, _c: int) -> None:
        person = self.person(a)
        User.objects.filter(pk=person.user.pk).update(is_active=False)
        self.paper.active.discard(person.wallet)
        self.same(
            lambda: billing.return_to_parents(user_id=person.user.pk),
            lambda: self.paper.leave(person.wallet, None),
        )

    # Budgets and time ------------------------------------------------------------------------------------------------

    def budget(self, a: int, b: int, c: int) -> None:
        kind: Any = ("user", "group", "organisation")[a % 3]
        whose = {
            "user": self.person(b).user.pk,
            "group": self.groups[b % 2].pk,
            "organisation": self.groups[0].organisation_id,
        }[kind]
        zone, mode, limit = ZONES[c % 5], ("block", "warn")[c % 2], c * 25
        scope = billing.BudgetScope(kind, whose)
        key = uuid7()
        made = self.same(
            lambda: billing.create_budget(scope=scope, limit=limit, mode=mode, rule=Rule(zone), by=None),  # type: ignore[arg-type]
            lambda: self.paper.budget(key, whose, limit, blocks=mode == "block", zone=zone),
        )
        self.paper.limits[made.pk] = self.paper.limits.pop(key)
        self.budgets.append(made.pk)

    def change_budget(self, a: int, _b: int, c: int) -> None:
        if self.budgets:
            key = self.budgets[a % len(self.budgets)]
            billing.change_budget(budget_id=key, limit=c * 30, by=None)
            self.paper.limits[key].limit = c * 30

    def close_budget(self, a: int, _b: int, _c: int) -> None:
        if self.budgets:
            key = self.budgets.pop(a % len(self.budgets))
            billing.close_budget(budget_id=key, by=None)
            self.paper.limits[key].active = False

    def rederive(self, _a: int, _b: int, _c: int) -> None:
        assert billing.rederive_budgets() == 0

    def reprice(self, a: int, _b: int, _c: int) -> None:
        self.asked_price = PRICES[a % len(PRICES)]

    def month(self, a: int, b: int, _c: int) -> None:
        """To the edge of the next month in some zone: the microsecond before, or the first of it."""
        edge = min(start for start in month_starts(ZONES[a % 5]) if start > self.now)
        self.time.advance(timedelta(microseconds=edge - self.now - b % 2))

    # Runs ------------------------------------------------------------------------------------------------------------

    def open(self, a: int, b: int, _c: int) -> None:
        person, group = self.person(a), self.groups[b % 2]
        scopes = billing.Scopes(person.user.pk, group.pk, group.organisation_id)
        run, reference, price, at = uuid7(), uuid7(), self.asked_price, self.time.now()
        hold = hold_micro(price, timedelta(hours=1))
        meter = Clockwork(
            person.wallet,
            (scopes.user_id, scopes.group_id, scopes.organisation_id),
            price.rate_micro_per_hour * price.occupancy.numerator * price.factor_milli,
            price.occupancy.denominator * 1000 * 3600 * 10**6,
            hold,
            self.now,
            (person.wallet, reference, run),
        )
        made = self.same(
            lambda: billing.open_meter(
                billing.Opening(run, billing.Purpose(reference, "random"), scopes, price, hold), at=at
            ),
            lambda: self.paper.open(run, meter, self.now),
        )
        if made is not None:
            self.runs.append(run)

    def on_run(self, a: int, real: Callable[[UUID], Any], paper: Callable[[UUID], Any]) -> Any:
        run = self.run(a)
        return None if run is None else self.same(lambda: real(run), lambda: paper(run))

    def ready(self, a: int, _b: int, c: int) -> None:
        at = self.time.now()
        said = at + timedelta(seconds=c % 600 - 500)
        self.on_run(
            a,
            lambda run: billing.meter_ready(run, ready_at=said, at=at),
            lambda run: self.paper.ready(run, micros(said), self.now),
        )

    def alive(self, a: int, b: int, c: int) -> None:
        at = self.time.now()
        seen = at + timedelta(seconds=(c % 3600 - 3300) if b else 0)
        self.on_run(
            a, lambda run: billing.prove({run: seen}, at=at), lambda run: self.paper.prove(run, micros(seen), self.now)
        )

    def ask_end(self, a: int, _b: int, _c: int) -> None:
        at = self.time.now()
        self.on_run(a, lambda run: billing.request_end(run, at=at), lambda run: self.paper.ask_end(run, self.now))

    def settle(self, a: int, _b: int, c: int) -> None:
        at = self.time.now()
        seen = at - timedelta(seconds=c % 1800)
        self.on_run(
            a,
            lambda run: billing.settle(run, at=at, last_alive_at=seen),
            lambda run: self.paper.settle(run, micros(seen), self.now),
        )

    def suspend(self, a: int, _b: int, _c: int) -> None:
        at = self.time.now()
        self.on_run(a, lambda run: billing.suspend(run, at=at), lambda run: self.paper.suspend(run, self.now))

    def reopen(self, a: int, _b: int, _c: int) -> None:
        at = self.time.now()
        self.on_run(a, lambda run: billing.reopen(run, at=at), lambda run: self.paper.reopen(run, self.now))

    def carry(self, a: int, _b: int, _c: int) -> None:
        at, to = self.time.now(), uuid7()
        self.on_run(
            a,
            lambda run: billing.carry_meter(from_run=run, to_run=to, at=at),
            lambda run: self.paper.carry(run, to, self.now),
        )
        if to in self.paper.meters:
            self.runs.append(to)

    def tick(self, _a: int, b: int, _c: int) -> None:
        for _again in range(1 + b % 2):
            self.same(billing.top_up_due, lambda: self.paper.tick(self.now))


def month_number(day: date) -> int:
    return day.year * 12 + day.month
