"""How wallets and their entries look in the API, and what may be asked of their lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import django_filters

from accounts.api.documents import text, time
from billing import queries
from billing.budget_state import BudgetState
from billing.bulk import BulkResult
from billing.domain.outlook import Outlook
from billing.models import (
    MINT_ID,
    REVENUE_ID,
    Account,
    Budget,
    BudgetMode,
    CreditRequest,
    Entry,
    GrantRefill,
    RequestState,
    Transfer,
    TransferKind,
)
from billing.statements import posting_of
from gshare_core.kit.lists import Listing
from gshare_core.money import format_credits

_NAMED = {MINT_ID: "mint", REVENUE_ID: "revenue"}


class WalletFilter(django_filters.FilterSet):
    """`?kind=`, `?organisation=` (of a group's wallet too), `?group=`."""

    kind = django_filters.ChoiceFilter(choices=[(kind, kind) for kind in ("system", "organisation", "group", "user")])
    organisation = django_filters.UUIDFilter(method="of_organisation")
    group = django_filters.UUIDFilter(field_name="group_id")

    class Meta:
        model = Account
        fields: tuple[str, ...] = ()

    def of_organisation(self, rows: Any, _name: str, value: UUID) -> Any:
        return rows.filter(organisation_id=value) | rows.filter(group__organisation_id=value)


class EntryFilter(django_filters.FilterSet):
    """`?kind=`, `?reference=`, `?from=` and `?to=` (times, the second excluded)."""

    kind = django_filters.ChoiceFilter(choices=TransferKind.choices)
    reference = django_filters.UUIDFilter()

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()


class RefillFilter(django_filters.FilterSet):
    """`?month=` (its first day), `?short=true` for those that fell short."""

    month = django_filters.DateFilter()
    short = django_filters.BooleanFilter(method="that_fell_short")

    class Meta:
        model = GrantRefill
        fields: tuple[str, ...] = ()

    def that_fell_short(self, rows: Any, _name: str, value: bool) -> Any:
        return rows.filter(shortfall__gt=0) if value else rows.filter(shortfall=0)


class BudgetFilter(django_filters.FilterSet):
    """`?mode=`, `?user=`, `?group=`, `?organisation=` (whose it is)."""

    mode = django_filters.ChoiceFilter(choices=BudgetMode.choices)
    user = django_filters.UUIDFilter(field_name="user_id")
    group = django_filters.UUIDFilter(field_name="group_id")
    organisation = django_filters.UUIDFilter(field_name="organisation_id")

    class Meta:
        model = Budget
        fields: tuple[str, ...] = ()


class RequestFilter(django_filters.FilterSet):
    """`?state=`, `?wallet=`, `?parent=`."""

    state = django_filters.ChoiceFilter(choices=RequestState.choices)
    wallet = django_filters.UUIDFilter(field_name="wallet_id")
    parent = django_filters.UUIDFilter(field_name="parent_id")

    class Meta:
        model = CreditRequest
        fields: tuple[str, ...] = ()


EntryFilter.base_filters["from"] = django_filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
EntryFilter.base_filters["to"] = django_filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")

WALLETS = Listing(
    orderings={"id": "id"},
    default="id",
    search=("organisation__name", "group__name", "user__name", "user__email"),
    filters=WalletFilter,
)
ENTRIES = Listing(
    orderings={"number": "entry_number"},
    default="-number",
    search=("label", "note"),
    filters=EntryFilter,
    unique=("number",),
)
REFILLS = Listing(orderings={"id": "id"}, default="-id", filters=RefillFilter)
BUDGETS = Listing(orderings={"id": "id"}, default="id", filters=BudgetFilter)
REQUESTS = Listing(orderings={"id": "id"}, default="-id", filters=RequestFilter)
ENTRY_COLUMNS = (
    "id",
    "at",
    "kind",
    "debit",
    "credit",
    "amount",
    "change",
    "balance",
    "reference",
    "label",
    "run",
    "billed_from",
    "billed_to",
    "note",
    "actor",
)


def wallet(row: Account, accrued: int, grants: Sequence[queries.GrantRow]) -> dict[str, Any]:
    """A wallet, with its owner's name."""
    return queries.document_of(queries.wallet_row(row), accrued, grants) | {"name": row.owner_name}


def refill(row: GrantRefill) -> dict[str, Any]:
    """What a parent gave a wallet for a month, and what it fell short of."""
    return {
        "id": str(row.pk),
        "month": row.month.isoformat(),
        "wallet": str(row.wallet_id),
        "name": row.wallet.owner_name,
        "parent": str(row.parent_id),
        "amount": format_credits(row.amount),
        "moved": format_credits(row.moved),
        "shortfall": format_credits(row.shortfall),
        "transfer": text(row.transfer_id),
        "at": time(row.at),
    }


def transfer(row: Transfer | Entry) -> dict[str, Any]:
    """A transfer as both sides see it."""
    return {
        "id": str(row.pk),
        "at": time(row.at),
        "kind": row.kind,
        "debit": _NAMED.get(row.debit_id) or str(row.debit_id),
        "credit": _NAMED.get(row.credit_id) or str(row.credit_id),
        "amount": format_credits(row.amount),
        "reference": text(row.reference),
        "actor": text(row.actor_id),
        "note": row.note,
    }


def entry(row: Entry) -> dict[str, Any]:
    """A transfer as an entry of one wallet: signed, with the balance after it, and the run that a charge pays for."""
    posting = posting_of(row)
    return transfer(row) | {
        "number": row.entry_number,
        "change": format_credits(row.change),
        "balance": format_credits(row.balance_after),
        "label": row.label,
        "run": posting.meter.number if posting else None,
        "billed_from": time(posting.billed_from) if posting else None,
        "billed_to": time(posting.billed_to) if posting else None,
    }


def credit_request(row: CreditRequest) -> dict[str, Any]:
    """A request for credits, and how it was decided."""
    return {
        "id": str(row.pk),
        "wallet": str(row.wallet_id),
        "wallet_name": row.wallet.owner_name,
        "parent": str(row.parent_id),
        "parent_name": row.parent.owner_name,
        "amount": format_credits(row.amount),
        "reason": row.reason,
        "state": row.state,
        "asked_by": {"id": str(row.asked_by_id), "email": row.asked_by.email},
        "asked_at": time(row.asked_at),
        "decided_by": {"id": str(row.decided_by_id), "email": row.decided_by.email} if row.decided_by else None,
        "decided_at": time(row.decided_at) if row.decided_at else None,
        "decision": row.decision,
        "transfer": text(row.transfer_id),
        "forwards": text(row.forwards_id),
    }


def budget(state: BudgetState) -> dict[str, Any]:
    """A budget and how its present period stands."""
    row, period = state.row, state.period
    dates: Any = "month"
    if row.first_day is not None and row.last_day is not None:
        dates = {"from": row.first_day.isoformat(), "to": row.last_day.isoformat()}
    return {
        "id": str(row.pk),
        "scope": row.scope,
        "limit": format_credits(row.limit),
        "mode": row.mode,
        "period": dates,
        "time_zone": row.time_zone,
        "created_at": time(row.created_at),
        "starts_at": time(period.starts_at) if period else None,
        "ends_at": time(period.ends_at) if period else None,
        "spent": format_credits(state.spent),
        "held": format_credits(row.held),
        "remaining": format_credits(state.remaining),
        "alerts": list(state.alerts),
    }


def forecast(state: BudgetState, ahead: Outlook | None) -> dict[str, Any]:
    """A budget with where it is heading; nothing of that while it does not count."""
    return budget(state) | {
        "accrued": format_credits(ahead.accrued) if ahead else None,
        "pace_per_day": format_credits(ahead.pace_per_day) if ahead else None,
        "projected": format_credits(ahead.projected) if ahead else None,
        "reaches_limit_at": time(ahead.reaches_limit_at) if ahead and ahead.reaches_limit_at else None,
        "basis": ahead.basis if ahead else None,
    }


def bulk(result: BulkResult) -> dict[str, Any]:
    """What was moved in bulk, or would be."""
    return {
        "act": result.kind.value,
        "dry_run": result.dry_run,
        "wallet": str(result.parent.pk),
        "total": format_credits(abs(result.after - result.before)),
        "before": format_credits(result.before),
        "after": format_credits(result.after),
        "refused": len(result.refused),
        "lines": [
            {
                "wallet": str(line.wallet.pk),
                "name": line.wallet.owner_name,
                "amount": format_credits(line.amount),
                "before": format_credits(line.before),
                "after": format_credits(line.after),
                "transfer": text(line.transfer_id),
                "refusal": {"code": line.refusal.code, "detail": line.refusal.detail} if line.refusal else None,
            }
            for line in result.lines
        ],
    }
