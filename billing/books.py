"""The open books of one transaction: the budgets, periods and wallets it has locked, and what it changes of them.

Guarantees: everything is locked in the documented order (budgets, periods by budget and start, wallets) before anything
is decided; every change of a hold or a charge moves wallet, budgets and period together; a charge is cut at every
boundary of a period and counted in the period it lies in; `close` writes each row once. One meter's changes never touch
another's hold.
Refuses: holding more than the wallet has free or a blocking budget leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.db.models import Q

from billing import ledger
from billing.alerts import Reached, raise_alerts
from billing.budgeting import spent_in
from billing.domain import budgets as periods_of_time
from billing.domain import metering
from billing.domain.budgets import Rule
from billing.domain.facts import BudgetFact, MoneyFacts, ScopeKind, Scopes, Shortage
from billing.models import REVENUE_ID, Budget, BudgetPeriod, Meter, TransferKind
from gshare_core.kit import locks
from gshare_core.kit.rows import Each, Prepared, sample, write


@dataclass(slots=True)
class BudgetPage:
    """A locked budget with the periods this transaction needs, and what it changes of them."""

    row: Budget
    rule: Rule
    periods: dict[datetime, BudgetPeriod] = field(default_factory=dict)
    held_change: int = 0
    spent_change: dict[UUID, int] = field(default_factory=dict)

    def period_at(self, at: datetime) -> BudgetPeriod | None:
        """The period that `at` lies in; None outside of a budget's fixed dates."""
        period = periods_of_time.period_at(self.rule, at)
        return None if period is None else self.periods[period.starts_at]

    def fact(self, period: BudgetPeriod) -> BudgetFact:
        """What a gate looks at, this transaction's changes included."""
        spent = period.spent + self.spent_change.get(period.pk, 0)
        held = self.row.held + self.held_change
        mode: periods_of_time.Mode = "block" if self.row.mode == "block" else "warn"
        return BudgetFact(self.row.pk, self.row.scope, self.row.limit, spent, held, mode)


@dataclass(frozen=True, slots=True)
class Room:
    """How much more may be held for somebody, and what it is that stops there."""

    amount: int
    reason: Shortage


@dataclass(frozen=True, slots=True)
class Stretch:
    """The budgets that count somebody at a moment, and the nearest boundaries of a period of any of his, before and after."""

    since: datetime | None
    until: datetime | None
    counting: frozenset[UUID]


class Metered(Protocol):
    """As much of a meter as says what has to be locked for it."""

    @property
    def scopes(self) -> Scopes: ...
    @property
    def wallet_id(self) -> UUID: ...
    @property
    def counted_by(self) -> Sequence[UUID]: ...
    @property
    def charged_until(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class _Posting:
    """A charge that will be written, and the stretch it pays for."""

    movement: ledger.Movement
    meter_id: UUID
    part: metering.Part


def _budgets_of(users: object, groups: object, organisations: object) -> Q:
    return Q(is_active=True) & (Q(user_id__in=users) | Q(group_id__in=groups) | Q(organisation_id__in=organisations))


_BUDGETS_OF = Prepared(
    lambda *owners: Budget.objects.filter(_budgets_of(*owners)).order_by("pk").select_for_update(no_key=True),
    *map(Each, map(sample, (1, 2, 3))),
)
_BUDGETS_OF_AND = Prepared(
    lambda named, *owners: (
        Budget.objects.filter(_budgets_of(*owners) | Q(pk__in=named)).order_by("pk").select_for_update(no_key=True)
    ),
    *map(Each, map(sample, (1, 2, 3, 4))),
)


class Books:
    """See the module. `open` locks, the verbs change what is in memory, `close` writes."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.pages: dict[UUID, BudgetPage] = {}
        self._active: dict[tuple[ScopeKind, UUID], list[BudgetPage]] = {}
        self._pages: dict[Scopes, list[BudgetPage]] = {}
        self._counting: dict[Scopes, list[tuple[BudgetPage, BudgetPeriod]]] = {}
        self._stretches: dict[Scopes, Stretch] = {}
        self.purses: dict[UUID, ledger.Purse] = {}
        self._hold_change: dict[UUID, int] = {}
        self._postings: list[_Posting] = []

    @classmethod
    def open_for(cls, meters: Sequence[Metered], at: datetime) -> Books:
        """Lock what belongs to these (locked) meters, for charges up to `at`."""
        books = cls(at)
        since = min([at, *(meter.charged_until for meter in meters if meter.charged_until is not None)])
        named = {budget for meter in meters for budget in meter.counted_by}
        books._lock_budgets(list({meter.scopes for meter in meters}), named, since)
        books.purses = ledger.lock_purses({meter.wallet_id for meter in meters})
        return books

    @classmethod
    def open_at(cls, scopes: Collection[Scopes], at: datetime) -> tuple[Books, dict[UUID, UUID]]:
        """Lock what belongs to people who are about to run something; with the wallets that there are, by person."""
        books = cls(at)
        books._lock_budgets(list(scopes), set(), at)
        purses = ledger.lock_purses_of({one.user_id for one in scopes})
        books.purses = {purse.id: purse for purse in purses.values()}
        return books, {user: purse.id for user, purse in purses.items()}

    # Looking ----------------------------------------------------------------------------------------------------------

    def counting(self, scopes: Scopes) -> list[tuple[BudgetPage, BudgetPeriod]]:
        """The active budgets of these scopes that count at `at`, with their present periods, the narrowest first."""
        found = self._counting.get(scopes)
        if found is None:
            now = ((page, page.period_at(self.at)) for page in self._pages_of(scopes))
            found = self._counting[scopes] = [(page, period) for page, period in now if period is not None]
        return found

    def facts(self, scopes: Scopes, wallet: UUID | None) -> MoneyFacts:
        """What gates 5 and 6 look at, what has been set aside here included."""
        purse = self.purses.get(wallet) if wallet is not None else None
        return MoneyFacts(
            wallet_id=wallet,
            balance=purse.balance if purse else 0,
            held=purse.held + self._hold_change.get(purse.id, 0) if purse else 0,
            budgets=tuple(page.fact(period) for page, period in self.counting(scopes)),
        )

    def room(self, scopes: Scopes, wallet: UUID) -> Room:
        """What may still be held: the least of what is free in the wallet and what blocking budgets leave."""
        free = self.purses[wallet].available - self._hold_change.get(wallet, 0)
        facts = (page.fact(period) for page, period in self.counting(scopes))
        least = min((fact.room for fact in facts if fact.blocks), default=free)
        return Room(least, "budget_exhausted") if least < free else Room(free, "credit_exhausted")

    def rules(self, scopes: Scopes) -> list[Rule]:
        """When the scopes' active budgets count."""
        return [page.rule for page in self._pages_of(scopes)]

    def stretch(self, scopes: Scopes) -> Stretch:
        """Which budgets count the scopes at `at`, and from when until when no period of theirs begins or ends."""
        found = self._stretches.get(scopes)
        if found is None:
            sides = [periods_of_time.boundaries_around(rule, self.at) for rule in self.rules(scopes)]
            found = self._stretches[scopes] = Stretch(
                max((before for before, _after in sides if before is not None), default=None),
                min((after for _before, after in sides if after is not None), default=None),
                frozenset(page.row.pk for page, _period in self.counting(scopes)),
            )
        return found

    def rooms(self) -> dict[UUID, int]:
        """What each blocking budget that counts at `at` leaves."""
        now = ((page, page.period_at(self.at)) for pages in self._active.values() for page in pages)
        facts = (page.fact(period) for page, period in now if period is not None)
        return {fact.budget_id: fact.room for fact in facts if fact.blocks}

    # Changing ---------------------------------------------------------------------------------------------------------

    def hold(self, meter: Meter, amount: int) -> None:
        """Set `amount` more aside for a meter. Callers looked at `room` first."""
        self._hold_change[meter.wallet_id] = self._hold_change.get(meter.wallet_id, 0) + amount
        self._count_hold(meter, amount)
        meter.held += amount

    def count(self, budget: UUID, *, held: int, spent: int) -> None:
        """Holds and charges of the present period that were written for meters which this budget counts."""
        page = self.pages[budget]
        page.held_change += held
        period = page.period_at(self.at)
        if period is None:
            raise RuntimeError("a budget counts nothing outside of its dates")
        if spent:
            page.spent_change[period.pk] = page.spent_change.get(period.pk, 0) + spent

    def read_purses_again(self) -> None:
        """Wallets were written by the ledger while they were locked here."""
        self.purses = ledger.lock_purses(self.purses)

    def join(self, meter: Meter) -> None:
        """Let exactly the budgets that count now count the meter's hold; nothing else moves."""
        now = [page.row.pk for page, _period in self.counting(meter.scopes)]
        for key in set(now) - set(meter.counted_by):
            self.pages[key].held_change += meter.held
        for key in set(meter.counted_by) - set(now):
            self.pages[key].held_change -= meter.held
        meter.counted_by = now

    def charge(self, meter: Meter, until: datetime) -> int:
        """Charge a meter up to `until`, from its hold; answers the amount. `until` lies within what the hold covers."""
        reading = meter.reading
        if reading.charged_until is None:
            return 0
        edges = periods_of_time.boundaries(self.rules(meter.scopes), reading.charged_until, until)
        charged = 0
        for part in metering.parts(reading, until, edges):
            if part.amount:
                self._post(meter, part)
            charged += part.amount
        self._count_hold(meter, -charged)
        meter.held -= charged
        meter.charged += charged
        meter.charged_until = max(until, reading.charged_until)
        return charged

    def release(self, meter: Meter) -> int:
        """Give the rest of a hold back; neither income nor spend. Answers the amount."""
        released = meter.held
        self.hold(meter, -released)
        meter.counted_by = []
        return released

    def close(self) -> None:
        """Write transfers, wallets, budgets, periods, alerts and postings. Meters are their owners' to save."""
        holds = {key: change for key, change in self._hold_change.items() if change}
        movements = [posting.movement for posting in self._postings]
        if movements or holds:
            keys = ledger.post(movements, self.purses, holds)
            _insert_postings(self._postings, keys)
        _update_budgets(self.pages.values())
        _update_periods(self.pages.values())
        raise_alerts(_reached(self.pages.values()), self.at)
        self._hold_change, self._postings = {}, []
        for page in self.pages.values():
            page.held_change, page.spent_change = 0, {}

    # Inside -----------------------------------------------------------------------------------------------------------

    def _lock_budgets(self, scopes: Sequence[Scopes], named: set[UUID], since: datetime) -> None:
        """Lock the scopes' active budgets and the named ones, then the periods from `since` to now.

        A period that is not there yet is made under its budget's lock, so two transactions never make it at once.
        Whoever makes a budget locks the table against this statement, so no charge overlooks a new budget.
        """
        pairs = [(one.user_id, one.group_id, one.organisation_id) for one in scopes]
        ids = [sorted(set(of_kind)) for of_kind in zip(*pairs, strict=True)]
        if named:
            budgets = locks.lock_found(locks.Rank.BUDGET, _BUDGETS_OF_AND, sorted(named), *ids)
        else:
            budgets = locks.lock_found(locks.Rank.BUDGET, _BUDGETS_OF, *ids)
        self.pages = {row.pk: BudgetPage(row, row.rule) for row in budgets}
        for page in self.pages.values():
            if page.row.is_active:
                self._active.setdefault(page.row.scope_pair, []).append(page)
        wanted = {
            (page.row.pk, period.starts_at): period
            for page in self.pages.values()
            if page.row.is_active
            for period in periods_of_time.periods_between(page.rule, since, self.at)
        }
        if not wanted:
            return
        keys, starts = zip(*wanted, strict=True)
        known = BudgetPeriod.objects.filter(budget_id__in=set(keys), starts_at__in=set(starts))
        rows = {
            (row.budget_id, row.starts_at): row
            for row in known.order_by("budget_id", "starts_at").select_for_update(no_key=True)
        }
        missing = [self._new_period(*key, wanted[key]) for key in sorted(wanted.keys() - rows.keys())]
        rows |= {(row.budget_id, row.starts_at): row for row in BudgetPeriod.objects.bulk_create(missing)}
        for key in sorted(rows):
            locks.note(locks.Rank.PERIOD, f"{key[0]} {key[1].isoformat()}")
            self.pages[key[0]].periods[key[1]] = rows[key]

    def _new_period(self, budget_id: UUID, starts_at: datetime, period: periods_of_time.Period) -> BudgetPeriod:
        """A period as it is met for the first time, with its past: late charges and clocks that stepped back have one."""
        spent = spent_in(self.pages[budget_id].row, period.starts_at, period.ends_at)
        return BudgetPeriod(budget_id=budget_id, starts_at=starts_at, ends_at=period.ends_at, spent=spent)

    def _pages_of(self, scopes: Scopes) -> list[BudgetPage]:
        if not self._active:
            return []
        found = self._pages.get(scopes)
        if found is None:
            found = [page for pair in scopes.as_pairs() for page in self._active.get(pair, ())]
            self._pages[scopes] = found
        return found

    def _count_hold(self, meter: Meter, change: int) -> None:
        for key in meter.counted_by:
            self.pages[key].held_change += change

    def _post(self, meter: Meter, part: metering.Part) -> None:
        movement = ledger.Movement(
            kind=TransferKind.CHARGE,
            debit=meter.wallet_id,
            credit=REVENUE_ID,
            amount=part.amount,
            key=ledger.charge_key(meter.run_id, part.start),
            at=self.at,
            from_held=part.amount,
            reference=meter.reference,
            label=meter.label,
        )
        self._postings.append(_Posting(movement, meter.run_id, part))
        for page in self._pages_of(meter.scopes):
            period = page.period_at(part.start)
            if period is not None:
                page.spent_change[period.pk] = page.spent_change.get(period.pk, 0) + part.amount


def _insert_postings(postings: Sequence[_Posting], keys: Sequence[UUID]) -> None:
    if not postings:
        return
    write(
        "INSERT INTO billing_posting (transfer_id, meter_id, billed_from, billed_to)"
        " SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[], %s::timestamptz[])",
        [
            list(keys),
            [posting.meter_id for posting in postings],
            [posting.part.start for posting in postings],
            [posting.part.end for posting in postings],
        ],
    )


def _update_budgets(pages: Iterable[BudgetPage]) -> None:
    changes = {page.row.pk: page.held_change for page in pages if page.held_change}
    _add("billing_budget", "held", changes)


def _update_periods(pages: Iterable[BudgetPage]) -> None:
    _add("billing_budgetperiod", "spent", {key: add for page in pages for key, add in page.spent_change.items()})


def _add(table: str, column: str, changes: dict[UUID, int]) -> None:
    """Add to a counter of locked rows. The rows are locked by this transaction, so their order does not matter here."""
    if not changes:
        return
    write(
        f"UPDATE {table} AS row SET {column} = row.{column} + new.change"  # noqa: S608 -- our own names
        " FROM unnest(%s::uuid[], %s::bigint[]) AS new (id, change) WHERE row.id = new.id",
        [list(changes), list(changes.values())],
    )


def _reached(pages: Iterable[BudgetPage]) -> list[Reached]:
    """The thresholds at which the spend of a period that was charged stands now."""
    found = []
    for page in pages:
        for period in page.periods.values():
            if change := page.spent_change.get(period.pk):
                spent = period.spent + change
                steps = periods_of_time.reached(page.row.limit, spent)
                found += [Reached(page.row.pk, period.pk, step, spent) for step in steps]
    return found
