"""How budgets stand: what their present period has spent, what it was alerted to, and where it is heading.

Guarantees: answers are frozen values; the number of statements does not depend on the number of budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Min, Q, Sum

from billing.domain import budgets as periods_of_time
from billing.domain.budgets import Period
from billing.domain.outlook import WINDOW, Outlook, Spending, outlook
from billing.models import Budget, BudgetAlert, BudgetPeriod, Meter, Posting
from billing.queries import accrued_by


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget now. `period` is None outside of its fixed dates; then nothing counts."""

    row: Budget
    period: Period | None
    spent: int
    alerts: tuple[int, ...]

    @property
    def remaining(self) -> int:
        """What may still be held or spent before the limit; never negative."""
        return max(0, self.row.limit - self.spent - self.row.held)


def states(rows: Sequence[Budget], at: datetime) -> list[BudgetState]:
    """How these budgets stand at a moment. Two statements."""
    periods = {row.pk: periods_of_time.period_at(row.rule, at) for row in rows}
    kept = BudgetPeriod.objects.filter(budget__in=list(periods), starts_at__lte=at, ends_at__gt=at)
    known = {(row.budget_id, row.starts_at): row for row in kept}
    alerts: dict[UUID, list[int]] = {}
    told = BudgetAlert.objects.filter(period__in=[row.pk for row in known.values()]).order_by("threshold")
    for period_id, threshold in told.values_list("period_id", "threshold"):
        alerts.setdefault(period_id, []).append(threshold)
    found = []
    for row in rows:
        period = periods[row.pk]
        now = known.get((row.pk, period.starts_at)) if period else None
        found.append(
            BudgetState(row, period, now.spent if now else 0, tuple(alerts.get(now.pk, ())) if now is not None else ())
        )
    return found


def forecast(row: Budget, at: datetime) -> tuple[BudgetState, Outlook | None]:
    """How a budget stands and where it is heading; None when it does not count now."""
    (state,) = states([row], at)
    if state.period is None:
        return state, None
    return state, outlook(row.limit, _spending(row, state.spent, at), state.period, at)


def _spending(row: Budget, spent: int, at: datetime) -> Spending:
    kind, key = row.scope_pair
    since = at - WINDOW
    mine = Posting.objects.filter(**{f"meter__{kind}_id": key}, billed_from__gte=since, billed_from__lte=at)
    recent = mine.aggregate(amount=Sum("transfer__amount"), first=Min("billed_from"))
    running = Meter.objects.open().filter(**{f"{kind}_id": key}, started_at__isnull=False)
    accrued, first = accrued_by(running, at)
    begins = [moment for moment in (recent["first"], first) if moment is not None]
    return Spending(spent, accrued, (recent["amount"] or 0) + accrued, max(since, min(begins, default=since)))


def of_places(users: object, groups: object, organisations: object) -> Q:
    """Budgets of any of these people, groups or organisations (subqueries of their ids)."""
    return Q(user_id__in=users) | Q(group_id__in=groups) | Q(organisation_id__in=organisations)
