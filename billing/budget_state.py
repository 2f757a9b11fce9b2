"""How budgets stand: what their present period has spent, what it was alerted to, and where it is heading.

Guarantees: answers are frozen values; the number of statements does not depend on the number of budgets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Min, Q, Sum

from billing.domain import budgets as periods_of_time
from billing.domain.budgets import Period
from billing.domain.facts import ScopeKind
from billing.domain.outlook import WINDOW, Outlook, Spending, outlook
from billing.models import Budget, BudgetAlert, BudgetPeriod, Meter, Posting
from billing.queries import accrued_by

ScopePair = tuple[ScopeKind, UUID]


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
    (found,) = forecasts([row], at)
    return found


def forecasts(rows: Sequence[Budget], at: datetime) -> list[tuple[BudgetState, Outlook | None]]:
    """The same of several. Beyond their states one statement for what runs, and one for each level that they are of."""
    found = states(rows, at)
    scopes = {state.row.scope_pair for state in found if state.period is not None}
    recent, running = _recent(scopes, at), _running(scopes)
    ahead = []
    for state in found:
        row, period = state.row, state.period
        spending = _spending(state.spent, recent.get(row.scope_pair), running[row.scope_pair], at)
        ahead.append((state, None if period is None else outlook(row.limit, spending, period, at)))
    return ahead


def _spending(spent: int, recent: tuple[int, datetime] | None, running: Sequence[Meter], at: datetime) -> Spending:
    since = at - WINDOW
    accrued, first = accrued_by(running, at)
    amount, earliest = recent or (0, None)
    begins = [moment for moment in (earliest, first) if moment is not None]
    return Spending(spent, accrued, amount + accrued, max(since, min(begins, default=since)))


def _recent(scopes: Collection[ScopePair], at: datetime) -> dict[ScopePair, tuple[int, datetime]]:
    """What was charged to each scope in the window before a moment, and since when."""
    found: dict[ScopePair, tuple[int, datetime]] = {}
    for kind in sorted({kind for kind, _key in scopes}):
        column = f"meter__{kind}_id"
        mine = Posting.objects.filter(
            **{f"{column}__in": [key for of, key in scopes if of == kind]},
            billed_from__gte=at - WINDOW,
            billed_from__lte=at,
        )
        sums = mine.order_by().values_list(column).annotate(Sum("transfer__amount"), Min("billed_from"))
        found |= {(kind, key): (amount, first) for key, amount, first in sums}
    return found


def _running(scopes: Collection[ScopePair]) -> defaultdict[ScopePair, list[Meter]]:
    """The open meters that bill, by each scope that they count on."""
    found: defaultdict[ScopePair, list[Meter]] = defaultdict(list)
    ids = {kind: [key for of, key in scopes if of == kind] for kind in ("user", "group", "organisation")}
    rows = Meter.objects.open().filter(of_places(ids["user"], ids["group"], ids["organisation"]))
    for meter in rows.filter(started_at__isnull=False):
        for pair in (("user", meter.user_id), ("group", meter.group_id), ("organisation", meter.organisation_id)):
            if pair in scopes:
                found[pair].append(meter)
    return found


def of_places(users: object, groups: object, organisations: object) -> Q:
    """Budgets, or meters, of any of these people, groups or organisations (their ids, or subqueries of them)."""
    return Q(user_id__in=users) | Q(group_id__in=groups) | Q(organisation_id__in=organisations)
