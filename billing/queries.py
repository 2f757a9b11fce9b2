"""Nouns about money, for this application and those above. Nothing here locks or changes anything.

Guarantees: answers are frozen values; "cost so far" comes from the meter, not from postings; sums over charges equal the
ledger, since they are sums of its transfers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Count, Max, Min, QuerySet, Sum
from django.db.models.functions import TruncDate

from billing.domain import budgets as periods_of_time
from billing.domain import metering
from billing.domain.facts import BudgetFact, Cost, MoneyFacts, Scopes, Shortage
from billing.domain.pricing import hourly_micro
from billing.models import Account, Budget, BudgetPeriod, Meter, Posting

__all__ = [
    "HoldRow",
    "SpendOfDay",
    "SpendOfReference",
    "accrued_of",
    "cost",
    "exhausted",
    "exhaustion_reason",
    "holds_of",
    "money_facts",
    "personal_wallet_id",
    "spend_per_day",
    "spend_per_reference",
]


def personal_wallet_id(user_id: UUID) -> UUID | None:
    """A user's wallet; None before its first use."""
    return Account.objects.filter(user_id=user_id).values_list("pk", flat=True).first()


def money_facts(scopes: Scopes, *, at: datetime) -> MoneyFacts:
    """What gates 5 and 6 look at, unlocked: for previews. Three statements."""
    wallet = Account.objects.filter(user_id=scopes.user_id).values_list("pk", "balance", "held").first()
    key, balance, held = wallet or (None, 0, 0)
    return MoneyFacts(key, balance or 0, held, tuple(_budget_facts(scopes, at)))


def _budget_facts(scopes: Scopes, at: datetime) -> Iterable[BudgetFact]:
    rows = list(Budget.objects.of([scopes]))
    periods = {row.pk: periods_of_time.period_at(row.rule, at) for row in rows}
    spent: dict[tuple[UUID, datetime], int] = {}
    if rows:
        known = BudgetPeriod.objects.filter(budget__in=rows, starts_at__lte=at, ends_at__gt=at)
        spent = {(row.budget_id, row.starts_at): row.spent for row in known}
    order = [f"{kind}:{key}" for kind, key in scopes.as_pairs()]
    for row in sorted(rows, key=lambda row: (order.index(row.scope), row.pk)):
        period = periods[row.pk]
        if period is not None:
            mode: periods_of_time.Mode = "block" if row.mode == "block" else "warn"
            yield BudgetFact(row.pk, row.scope, row.limit, spent.get((row.pk, period.starts_at), 0), row.held, mode)


# Runs ----------------------------------------------------------------------------------------------------------------


def exhausted(at: datetime, limit: int, runs: Sequence[UUID] | None = None) -> list[UUID]:
    """Runs that go on although their hold ended and a tick could not fill it: to be paused. Longest ended first.

    `services.top_up_ended` tries the filling; ask it first.
    """
    rows = Meter.objects.running().filter(hold_ends_at__lte=at, exhausted_at__isnull=False)
    if runs is not None:
        rows = rows.filter(pk__in=runs)
    return list(rows.order_by("hold_ends_at", "run_id").values_list("run_id", flat=True)[:limit])


def exhaustion_reason(run_id: UUID) -> Shortage:
    """Why a run's hold could not be filled."""
    short = Meter.objects.filter(pk=run_id).values_list("short", flat=True).first()
    return "budget_exhausted" if short == "budget_exhausted" else "credit_exhausted"


def cost(run_ids: Iterable[UUID], at: datetime) -> dict[UUID, Cost]:
    """What runs cost as things stand; runs without a meter are not in the answer. One statement."""
    return {meter.run_id: _cost(meter, at) for meter in Meter.objects.filter(pk__in=list(run_ids))}


def _cost(meter: Meter, at: datetime) -> Cost:
    return Cost(
        hourly=hourly_micro(meter.price),
        accrued=_accrued(meter, at),
        charged=meter.charged,
        held=meter.held,
        hold_ends_at=meter.hold_ends_at,
        short=exhaustion_reason_of(meter),
    )


def exhaustion_reason_of(meter: Meter) -> Shortage | None:
    """Why its hold could not be filled the last time; None when it could."""
    if meter.short == "budget_exhausted":
        return "budget_exhausted"
    return "credit_exhausted" if meter.short else None


def _accrued(meter: Meter, at: datetime) -> int:
    """What has run and is not posted yet; no further than the hold reaches and never below 0."""
    reading = meter.reading
    if reading.started_at is None:
        return 0
    until = min(at, reading.end_at or at, meter.hold_ends_at or at)
    return max(0, metering.cost_until(reading, until) - reading.charged)


def accrued_of(wallet_ids: Iterable[UUID], at: datetime) -> dict[UUID, int]:
    """What each wallet's runs have cost beyond what is posted. One statement; wallets without runs are 0."""
    result = dict.fromkeys(wallet_ids, 0)
    for meter in Meter.objects.filter(wallet_id__in=list(result), settled_at=None, started_at__isnull=False):
        result[meter.wallet_id] += _accrued(meter, at)
    return result


# A wallet's page -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A hold: for which run of which session, how much is left of it, until when it reaches (None: not running yet)."""

    run_id: UUID
    reference: UUID
    label: str
    number: int
    amount: int
    hold_ends_at: datetime | None
    running: bool


def holds_of(wallet_id: UUID) -> list[HoldRow]:
    """What a wallet holds, oldest session first. One statement."""
    rows = Meter.objects.open().filter(wallet_id=wallet_id, held__gt=0).order_by("reference")
    return [
        HoldRow(
            row.run_id, row.reference, row.label, row.number, row.held, row.hold_ends_at, row.started_at is not None
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class SpendOfDay:
    """What was charged for a day's running."""

    day: date
    amount: int


def spend_per_day(wallet_id: UUID, *, start: datetime, end: datetime, zone: ZoneInfo) -> list[SpendOfDay]:
    """Charges by the local day of their posting, in [start, end); days without spend are left out. One statement."""
    rows = (
        _charges(wallet_id, start, end)
        .annotate(day=TruncDate("transfer__at", tzinfo=zone))
        .values("day")
        .annotate(amount=Sum("transfer__amount"))
        .order_by("day")
    )
    return [SpendOfDay(row["day"], row["amount"]) for row in rows]


@dataclass(frozen=True, slots=True)
class SpendOfReference:
    """What one session was charged in a stretch of time, and by how many of its runs."""

    reference: UUID
    label: str
    amount: int
    runs: int
    billed_from: datetime
    billed_to: datetime


def spend_per_reference(wallet_id: UUID, *, start: datetime, end: datetime, limit: int = 100) -> list[SpendOfReference]:
    """Charges by session in [start, end), the dearest first. One statement."""
    rows = (
        _charges(wallet_id, start, end)
        .values("meter__reference")
        .annotate(
            label=Max("meter__label"),
            amount=Sum("transfer__amount"),
            runs=Count("meter", distinct=True),
            billed_from=Min("billed_from"),
            billed_to=Max("billed_to"),
        )
        .order_by("-amount", "meter__reference")[:limit]
    )
    return [
        SpendOfReference(
            row["meter__reference"], row["label"], row["amount"], row["runs"], row["billed_from"], row["billed_to"]
        )
        for row in rows
    ]


def _charges(wallet_id: UUID, start: datetime, end: datetime) -> QuerySet[Posting]:
    return Posting.objects.filter(transfer__debit_id=wallet_id, transfer__at__gte=start, transfer__at__lt=end)
