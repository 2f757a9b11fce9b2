"""Nouns about money, for this application and those above. Nothing here locks or changes anything.

Guarantees: answers are frozen values; "cost so far" comes from the meter, not from postings; sums over charges equal the
ledger, since they are sums of its transfers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Max, Min, OuterRef, Subquery

from billing.domain import budgets as periods_of_time
from billing.domain import metering
from billing.domain.facts import BudgetFact, Cost, MoneyFacts, Scopes, Shortage
from billing.domain.pricing import hourly_micro
from billing.models import Account, Budget, BudgetPeriod, Meter, MonthlyGrant
from billing.reports import ReportAsked as ReportAsked
from billing.reports import UsageRow as UsageRow
from billing.reports import usage as usage
from billing.reports import usage_total as usage_total
from billing.sight import between_wallets
from billing.statements import EntryRow as EntryRow
from billing.statements import HoldRow as HoldRow
from billing.statements import SpendOfDay as SpendOfDay
from billing.statements import SpendOfReference as SpendOfReference
from billing.statements import balance_series as balance_series
from billing.statements import entries as entries
from billing.statements import entry_row as entry_row
from billing.statements import hold_row as hold_row
from billing.statements import holds_of as holds_of
from billing.statements import spend_per_day as spend_per_day
from billing.statements import spend_per_reference as spend_per_reference
from gshare_core.kit import clock
from gshare_core.money import format_credits
from gshare_core.quantities import microseconds_between

if TYPE_CHECKING:
    from accounts.models import User

# Wallets -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WalletRow:
    """A wallet; `id` is None (and all is 0) before its first use."""

    id: UUID | None
    kind: str
    owner_id: UUID | None
    balance: int = 0
    held: int = 0

    @property
    def available(self) -> int:
        """What is neither spent nor held."""
        return self.balance - self.held


def wallet_of(user_id: UUID) -> WalletRow:
    """A user's own wallet. One statement."""
    row = Account.objects.filter(user_id=user_id).first()
    return wallet_row(row) if row else WalletRow(None, "user", user_id)


@dataclass(frozen=True, slots=True)
class Purse:
    """A person's wallet, what its open runs cost as things stand, and what it holds for which of them."""

    wallet: WalletRow
    costs: Mapping[UUID, Cost]
    holds: tuple[HoldRow, ...]
    accrued: int = 0


_PURSE = f"""
    SELECT meter.*, wallet.id AS purse_id, wallet.balance AS purse_balance, wallet.held AS purse_held
    FROM {Account._meta.db_table} wallet
    LEFT JOIN LATERAL (
        SELECT * FROM {Meter._meta.db_table} WHERE wallet_id = wallet.id AND settled_at IS NULL
        UNION
        SELECT * FROM {Meter._meta.db_table} WHERE wallet_id = wallet.id AND run_id = ANY(%s)
    ) meter ON true
    WHERE wallet.user_id = %s
    ORDER BY meter.reference
"""  # noqa: S608 -- the names are the models' own


def purse_of(user_id: UUID, at: datetime, runs: Iterable[UUID] = ()) -> Purse:
    """A user's own wallet with what its open runs cost, and `runs` of his, settled or not. One statement."""
    rows = list(Meter.objects.raw(_PURSE, [list(runs), user_id]))
    if not rows:
        return Purse(WalletRow(None, "user", user_id), {}, ())
    first: Any = rows[0]
    wallet = WalletRow(first.purse_id, "user", user_id, first.purse_balance or 0, first.purse_held)
    meters = [row for row in rows if row.run_id is not None]
    opened = [meter for meter in meters if meter.settled_at is None]
    return Purse(
        wallet=wallet,
        costs={meter.run_id: cost_of(meter, at) for meter in meters},
        holds=tuple(hold_row(meter) for meter in opened if meter.held > 0),
        accrued=sum(_accrued(meter, at) for meter in opened if meter.started_at is not None),
    )


def wallet_row(row: Account) -> WalletRow:
    """The frozen form of a row."""
    return WalletRow(row.pk, row.kind, row.owner_id, row.balance or 0, row.held)


def wallet_document(user_id: UUID) -> dict[str, Any]:
    """A user's own wallet as the API shows it. Three statements."""
    row = wallet_of(user_id)
    if row.id is None:
        return document_of(row, 0)
    return document_of(row, accrued_of([row.id], clock.now())[row.id], grants_of([row.id])[row.id])


@dataclass(frozen=True, slots=True)
class GrantRow:
    """What a parent gives a wallet each month, from the month `since` on."""

    parent: UUID
    amount: int
    since: date


def grants_of(wallet_ids: Iterable[UUID], *, viewer: User | None = None) -> dict[UUID, list[GrantRow]]:
    """The monthly grants of wallets that `viewer` may know of; all without one. One statement."""
    found: dict[UUID, list[GrantRow]] = {key: [] for key in wallet_ids}
    rows = MonthlyGrant.objects.filter(wallet_id__in=list(found)).order_by("pk")
    if viewer is not None:
        rows = rows.filter(between_wallets(viewer))
    for row in rows:
        found[row.wallet_id].append(GrantRow(row.parent_id, row.amount, row.since))
    return found


def document_of(row: WalletRow, accrued: int, grants: Sequence[GrantRow] = ()) -> dict[str, Any]:
    """A wallet as the API shows it: credits as strings with six decimals."""
    return {
        "id": str(row.id) if row.id else None,
        "kind": row.kind,
        "owner": str(row.owner_id) if row.owner_id else None,
        "balance": format_credits(row.balance),
        "held": format_credits(row.held),
        "accrued": format_credits(accrued),
        "available": format_credits(row.available),
        "monthly_grants": [
            {"parent": str(grant.parent), "amount": format_credits(grant.amount), "since": grant.since.isoformat()}
            for grant in grants
        ],
    }


def personal_wallet_id(user_id: UUID) -> UUID | None:
    """A user's wallet; None before its first use."""
    return Account.objects.filter(user_id=user_id).values_list("pk", flat=True).first()


def money_facts(scopes: Scopes, *, at: datetime, wallet: WalletRow | None = None) -> MoneyFacts:
    """What gates 5 and 6 look at, unlocked: for previews. Two statements, one for who has read the wallet."""
    if wallet is not None:
        return MoneyFacts(wallet.id, wallet.balance, wallet.held, tuple(_budget_facts(scopes, at)))
    row = Account.objects.filter(user_id=scopes.user_id).values_list("pk", "balance", "held").first()
    key, balance, held = row or (None, 0, 0)
    return MoneyFacts(key, balance or 0, held, tuple(_budget_facts(scopes, at)))


def _budget_facts(scopes: Scopes, at: datetime) -> Iterable[BudgetFact]:
    now = BudgetPeriod.objects.filter(budget=OuterRef("pk"), starts_at__lte=at, ends_at__gt=at).order_by("-starts_at")
    periods_now = {name: Subquery(now.values(name)[:1]) for name in ("starts_at", "spent")}
    rows: list[Any] = list(
        Budget.objects.of([scopes]).annotate(**{f"now_{name}": row for name, row in periods_now.items()})
    )
    periods = {row.pk: periods_of_time.period_at(row.rule, at) for row in rows}
    spent = {(row.pk, row.now_starts_at): row.now_spent for row in rows if row.now_starts_at is not None}
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
    return {meter.run_id: cost_of(meter, at) for meter in Meter.objects.filter(pk__in=list(run_ids))}


def cost_of(meter: Meter, at: datetime) -> Cost:
    """The same of one meter, for who has its row."""
    return Cost(
        hourly=hourly_micro(meter.price),
        accrued=_accrued(meter, at),
        charged=meter.charged,
        held=meter.held,
        hold_ends_at=meter.hold_ends_at,
        short=exhaustion_reason_of(meter),
    )


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run came to: per hour, charged, not billed, and the stretch from its first to its last billed moment."""

    hourly: int
    charged: int
    not_billed: int
    running_us: int
    billed_from: datetime | None
    billed_to: datetime | None


def bills_of(run_ids: Iterable[UUID]) -> dict[UUID, Bill]:
    """What runs came to; runs without a meter are not in the answer. One statement."""
    meters = Meter.objects.filter(pk__in=list(run_ids))
    rows: list[Any] = list(meters.annotate(first=Min("intervals__starts_at"), last=Max("intervals__ends_at")))
    return {
        row.run_id: Bill(
            hourly_micro(row.price),
            row.charged,
            row.not_billed,
            row.closed_us,
            row.first,
            row.last if row.first else None,
        )
        for row in rows
    }


def running_us(run_ids: Iterable[UUID], at: datetime) -> dict[UUID, int]:
    """Microseconds that runs have run so far, silences apart; runs without a meter are not in the answer. One statement."""
    rows = Meter.objects.filter(pk__in=list(run_ids)).values_list("run_id", "closed_us", "started_at", "end_at")
    return {
        run_id: closed_us
        + (microseconds_between(started_at, max(started_at, min(at, end_at or at))) if started_at else 0)
        for run_id, closed_us, started_at, end_at in rows
    }


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


def accrued_by(meters: Iterable[Meter], at: datetime) -> tuple[int, datetime | None]:
    """What running meters have cost beyond what is posted, and since when."""
    total, first = 0, None
    for meter in meters:
        since = meter.charged_until
        if since is not None:
            total += _accrued(meter, at)
            first = min(first or since, since)
    return total, first


def accrued_of(wallet_ids: Iterable[UUID], at: datetime) -> dict[UUID, int]:
    """What each wallet's runs have cost beyond what is posted. One statement; wallets without runs are 0."""
    result = dict.fromkeys(wallet_ids, 0)
    for meter in Meter.objects.filter(wallet_id__in=list(result), settled_at=None, started_at__isnull=False):
        result[meter.wallet_id] += _accrued(meter, at)
    return result
