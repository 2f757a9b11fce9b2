"""A tick writes what the pure arithmetic of metering says, row by row, for any meters, wallets and budgets.

The ordinary ones are written by one statement (`billing.filling`), the others one by one; here all are done one by one, in
their order, by `billing.domain` alone, and every column is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings as conf
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import services as billing
from billing.domain import budgets as periods_of_time
from billing.domain import metering
from billing.domain.pricing import Price, charge_micro, hold_micro
from billing.models import Account, Budget, BudgetPeriod, Meter, MeterInterval, Posting
from gshare_core.clock import ManualClock
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.builders import LONG_AGO, Customer, a_customer, a_group

pytestmark = pytest.mark.django_db

US = timedelta(microseconds=1)
DAY_US = 86_400_000_000
PLENTY = 10**15
NOWS = (
    datetime(2026, 3, 18, 9, 30, 0, 123_457, tzinfo=UTC),
    datetime(2026, 3, 31, 15, 0, 0, 1, tzinfo=UTC),  # a microsecond into Seoul's April
    datetime(2028, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
)

prices = st.builds(
    Price,
    rate_micro_per_hour=st.integers(1, 2_000_000_000),
    occupancy=st.fractions(Fraction(1, 81_920), Fraction(8), max_denominator=81_920),
    factor_milli=st.sampled_from([1000, 300, 1]),
)
spans = st.one_of(st.integers(0, 3_600_000_000), st.integers(0, 40 * DAY_US))


# Mostly what a tick meets; rarely weeks, and a clock that stepped back.
open_spans = st.integers(0, 30).flatmap(
    lambda dice: st.integers(-60_000_000, -1) if dice == 30 else spans if dice > 27 else st.integers(0, 7_200_000_000)
)


@dataclass(frozen=True)
class Case:
    """A due meter: what it ran before, what has not been charged, how far it is proven, and its hold."""

    price: Price
    person: int
    closed_us: int
    charged_us: int
    open_us: int
    proven_us: int | None  # after `charged_until`
    window_us: int
    held_milli: int  # of a full hold


cases = st.builds(
    Case,
    price=prices,
    person=st.integers(0, 2),
    closed_us=spans,
    charged_us=spans,
    open_us=open_spans,
    proven_us=st.one_of(st.none(), spans),
    window_us=st.one_of(st.just(3_600_000_000), st.integers(1, 3_600_000_000)),
    held_milli=st.one_of(st.integers(0, 1_000), st.integers(0, 3_000)),
)


@dataclass
class Paper:
    """What the tick may take, and what it comes to."""

    at: datetime
    free: dict[UUID, int]
    room: dict[UUID, int]  # of blocking budgets
    rules: dict[UUID, periods_of_time.Rule]
    counting: set[UUID]
    budget_held: dict[UUID, int]
    spent: dict[tuple[UUID, datetime], int] = field(default_factory=dict)
    postings: dict[str, tuple[datetime, int]] = field(default_factory=dict)

    def look_after(self, meter: Meter) -> dict[str, Any]:
        """One meter, as the documents say; answers its columns afterwards."""
        reading, short, filled = meter.reading, meter.short, 0
        counted = set(meter.counted_by)
        if wanted := metering.lack(reading, self.at):
            for key in self.counting - counted:
                self._hold(key, reading.held)
            counted = self.counting
            free = self.free[meter.wallet_id]
            least = max(0, min((self.room[key] for key in self.room), default=free))
            filled = min(wanted, free, least)
            short = "" if filled == wanted else "budget_exhausted" if least < free else "credit_exhausted"
            self.free[meter.wallet_id] -= filled
            for key in counted:
                self._hold(key, filled)
            reading = replace(reading, held=reading.held + filled)
        reading = self._charge(meter, reading, counted, all_of_it=filled > 0)
        reach = metering.hold_ends_at(reading)
        assert reach is not None
        assert reading.charged_until is not None
        low_from = metering.low_from(reading)
        assert low_from is not None
        edges = [periods_of_time.next_boundary(rule, reading.charged_until) for rule in self.rules.values()]
        return {
            "held": reading.held,
            "charged": reading.charged,
            "charged_until": reading.charged_until,
            "counted_by": counted,
            "hold_ends_at": reach,
            "due_at": min([low_from, *(edge for edge in edges if edge is not None)]),
            "short": short,
            "exhausted_at": self.at if short and reach <= self.at else None,
            "warned_at": self.at if short and reach - conf.GSHARE.grace <= self.at else None,
        }

    def _hold(self, key: UUID, amount: int) -> None:
        self.budget_held[key] += amount
        if key in self.room:
            self.room[key] -= amount

    def _charge(
        self, meter: Meter, reading: metering.Reading, counted: set[UUID], *, all_of_it: bool
    ) -> metering.Reading:
        assert reading.charged_until is not None
        until = metering.billable_until(reading, self.at)
        edges = periods_of_time.boundaries(self.rules.values(), reading.charged_until, until)
        if not all_of_it:
            until = max(edges, default=reading.charged_until)
        charged = 0
        for part in metering.parts(reading, until, edges):
            charged += part.amount
            if part.amount:
                self.postings[f"charge/{meter.run_id}/{part.start.isoformat()}"] = (part.end, part.amount)
                self._spend(part)
        for key in counted:
            self.budget_held[key] -= charged
            if key in self.room:
                self.room[key] += charged
        return replace(
            reading,
            held=reading.held - charged,
            charged=reading.charged + charged,
            charged_until=max(until, reading.charged_until),
        )

    def _spend(self, part: metering.Part) -> None:
        for key, rule in self.rules.items():
            period = periods_of_time.period_at(rule, part.start)
            assert period is not None
            self.spent[key, period.starts_at] = self.spent.get((key, period.starts_at), 0) + part.amount
            if key in self.room and self.at in period:
                self.room[key] -= part.amount


def a_meter(case: Case, customer: Customer, at: datetime, counted_by: list[UUID]) -> Meter:
    charged_until = at - case.open_us * US
    started_at = charged_until - case.charged_us * US
    target = hold_micro(case.price, case.window_us * US)
    return Meter(
        run_id=uuid7(),
        reference=uuid7(),
        number=1,
        label="random",
        user=customer.user,
        group=customer.group,
        organisation_id=customer.group.organisation_id,
        wallet_id=customer.wallet,
        rate_micro_per_hour=case.price.rate_micro_per_hour,
        occupancy_numerator=case.price.occupancy.numerator * 3,
        occupancy_denominator=case.price.occupancy.denominator * 3,  # not reduced: the value counts
        factor_milli=case.price.factor_milli,
        opened_at=started_at,
        billable_from=started_at,
        started_at=started_at,
        closed_us=case.closed_us,
        charged=charge_micro(case.price, case.closed_us + case.charged_us),
        charged_until=charged_until,
        proven_until=None if case.proven_us is None else charged_until + case.proven_us * US,
        held=target * case.held_milli // 1000,
        target=target,
        counted_by=counted_by,
        due_at=at - timedelta(seconds=1),
    )


def a_budget(customer: Customer, mode: str, zone: str, held: int, room: int) -> Budget:
    return Budget.objects.create(
        group=customer.group, limit=held + room, mode=mode, time_zone=zone, held=held, created_at=LONG_AGO
    )


def expected(meters: list[Meter], paper: Paper) -> dict[UUID, dict[str, Any]]:
    ordered = sorted(meters, key=lambda row: (row.wallet_id, row.reference, row.run_id))
    return {row.run_id: paper.look_after(row) for row in ordered}


def part_of(milli: int | None, meters: list[Meter], at: datetime) -> int:
    lacking = sum(metering.lack(row.reading, at) for row in meters)
    return PLENTY if milli is None else lacking * milli // 1000


def columns(run_id: UUID, names: list[str]) -> dict[str, Any]:
    row = Meter.objects.get(pk=run_id)
    found = {name: getattr(row, name) for name in names}
    return {**found, "counted_by": set(row.counted_by)}


# Thousandths of what all who draw on it lack, or more than enough.
amounts = st.one_of(st.none(), st.sampled_from([0, 999, 1_000, 1_001]), st.integers(500, 1_500))
budgets = st.lists(
    st.tuples(
        st.sampled_from(["block", "warn"]),
        st.sampled_from(["Asia/Seoul", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"]),
        amounts,
    ),
    max_size=2,
)


wallets = st.one_of(st.just((None,) * 3), st.tuples(*[amounts] * 3))
nows = st.sampled_from([NOWS[0], NOWS[0], *NOWS])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(nows, st.lists(cases, min_size=1, max_size=8), wallets, budgets, st.sampled_from([True, True, False]))
def test_a_tick_writes_what_the_arithmetic_says_for_any_meters_wallets_and_budgets(
    at: datetime,
    given_cases: list[Case],
    thousandths: tuple[int | None, ...],
    limited: list[tuple[str, str, int | None]],
    joined: bool,
) -> None:
    with transaction.atomic():
        group = a_group()
        people = [a_customer(group=group) for _one in range(3)]
        meters = [a_meter(case, people[case.person], at, []) for case in given_cases]
        held = sum(row.held for row in meters) if joined else 0
        limits = [(mode, zone, part_of(milli, meters, at)) for mode, zone, milli in limited]
        free = [
            part_of(milli, [row for row in meters if row.wallet_id == customer.wallet], at)
            for milli, customer in zip(thousandths, people, strict=True)
        ]
        rows = [a_budget(people[0], mode, zone, held, room) for mode, zone, room in limits]
        for row in meters:
            row.counted_by = [budget.pk for budget in rows] if joined else []
        Meter.objects.bulk_create(meters)
        MeterInterval.objects.bulk_create([MeterInterval(meter=row, starts_at=row.started_at) for row in meters])
        for customer, amount in zip(people, free, strict=True):
            mine = sum(row.held for row in meters if row.wallet_id == customer.wallet)
            if amount + mine:
                billing.adjust(wallet=customer.wallet, amount=amount + mine, reason="begin", by=None)
            Account.objects.filter(pk=customer.wallet).update(held=mine)
        before = {row.pk: row for row in Account.objects.filter(pk__in=[one.wallet for one in people])}
        paper = Paper(
            at,
            {customer.wallet: amount for customer, amount in zip(people, free, strict=True)},
            {row.pk: room for row, (mode, _zone, room) in zip(rows, limits, strict=True) if mode == "block"},
            {row.pk: row.rule for row in rows},
            {row.pk for row in rows},
            {row.pk: row.held for row in rows},
        )
        want = expected(meters, paper)
        with clock.using(ManualClock(at)):
            done = billing.top_up_due()
        assert done.looked_at == len(meters)
        for run_id, told in want.items():
            assert columns(run_id, list(told)) == told
        assert {row.pk: row.held for row in Budget.objects.all()} == paper.budget_held
        spent = {(row.budget_id, row.starts_at): row.spent for row in BudgetPeriod.objects.filter(spent__gt=0)}
        assert spent == paper.spent
        check_entries(paper, before, want, meters)
        transaction.set_rollback(True)


def check_entries(
    paper: Paper, before: dict[UUID, Account], want: dict[UUID, dict[str, Any]], meters: list[Meter]
) -> None:
    """Transfers, their numbers and running balances, and the wallets."""
    posted = Posting.objects.select_related("transfer")
    assert {row.transfer.key: (row.billed_to, row.transfer.amount) for row in posted} == paper.postings
    assert all(row.transfer.key.endswith(row.billed_from.isoformat()) for row in posted)
    for wallet, was in before.items():
        assert was.balance is not None
        now = Account.objects.get(pk=wallet)
        entries = sorted((row.transfer for row in posted if row.transfer.debit_id == wallet), key=_number)
        balance, number = was.balance, was.entries
        for entry in entries:
            balance, number = balance - entry.amount, number + 1
            assert (entry.debit_number, entry.debit_balance) == (number, balance)
            assert (entry.kind, entry.label, entry.at) == ("charge", "random", paper.at)
        mine = [row.run_id for row in meters if row.wallet_id == wallet]
        assert (now.balance, now.entries, now.held) == (balance, number, sum(want[run]["held"] for run in mine))


def _number(entry: Any) -> int:
    return int(entry.debit_number)


def test_ordinary_meters_are_not_read_one_by_one() -> None:
    at = NOWS[0]
    alice = a_customer(1_000)
    budget = a_budget(alice, "block", "Asia/Seoul", 0, PLENTY)
    price = Price(50_000_000, Fraction(1, 4))
    with clock.using(ManualClock(at - timedelta(minutes=31))):
        for _run in range(5):
            run = uuid7()
            opening = billing.Opening(run, billing.Purpose(uuid7(), "one"), alice.scopes, price, 12_500_000)
            billing.open_meter(opening, at=clock.now())
            billing.meter_ready(run, ready_at=clock.now(), at=clock.now())
    billing.prove(dict.fromkeys(Meter.objects.values_list("pk", flat=True), at), at=at)
    with clock.using(ManualClock(at)), CaptureQueriesContext(connection) as asked:
        assert billing.top_up_due().filled == 5
    whole_rows = [query["sql"] for query in asked if '"billing_meter"."rate_micro_per_hour"' in (query["sql"] or "")]
    assert whole_rows == []
    assert Budget.objects.get(pk=budget.pk).held == 5 * 12_500_000
