"""Making and changing budgets, and deriving their counters again from the postings.

Guarantees: a new budget knows at once what its present period has spent, and no charge that is being written overlooks
it; zone and dates of a budget never change (close it and make another), so its past stays what it was; derived counters
are taken under the same locks as charges, so they are exact.
Refuses: who does not stand one level above the scope, unknown zones, dates in the wrong order, limits below 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID
from zoneinfo import available_timezones

from django.db import connection
from django.db.models import Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.rights import Target
from accounts.permissions import Act
from accounts.services.common import authorise
from accounts.standings import People, locked, target_of_group, target_of_organisation
from billing.domain import budgets as periods_of_time
from billing.domain.budgets import Mode, Rule
from billing.domain.facts import ScopeKind
from billing.models import Budget, BudgetPeriod, Meter, Posting
from gshare_core.errors import invalid, not_found
from gshare_core.kit import clock, locks
from gshare_core.money import MAX_MICRO, format_credits

if TYPE_CHECKING:
    from accounts.models import User

_ACTS = {"user": Act.LIMIT_USER, "group": Act.LIMIT_GROUP, "organisation": Act.LIMIT_ORGANISATION}


@dataclass(frozen=True, slots=True)
class BudgetScope:
    """Whose spend a budget limits."""

    kind: ScopeKind
    id: UUID


def create_budget(*, scope: BudgetScope, limit: int, mode: Mode, rule: Rule, by: User | None) -> Budget:
    """Limit what a scope spends in each period. Raises DomainError `not_found`, `forbidden`, `invalid`."""
    _check(limit, rule)
    with locks.ordered():
        _authorise(scope, by)
        _lock_table()
        at = clock.now()
        budget = Budget.objects.create(
            **{f"{scope.kind}_id": scope.id},
            limit=limit,
            mode=mode,
            time_zone=rule.time_zone,
            first_day=rule.first_day,
            last_day=rule.last_day,
            created_at=at,
        )
        period = periods_of_time.period_at(rule, at)
        if period is not None:
            spent = spent_in(budget, period.starts_at, period.ends_at)
            BudgetPeriod.objects.create(budget=budget, starts_at=period.starts_at, ends_at=period.ends_at, spent=spent)
        _record(budget, by, "budget.create", at)
        return budget


def change_budget(*, budget_id: UUID, limit: int | None = None, mode: Mode | None = None, by: User | None) -> Budget:
    """Another limit or mode from now on; None leaves it. Raises DomainError `not_found`, `forbidden`, `invalid`."""
    with locks.ordered():
        budget = _locked(budget_id, by)
        budget.limit = budget.limit if limit is None else limit
        budget.mode = mode or budget.mode
        _check(budget.limit, budget.rule)
        budget.save(update_fields=["limit", "mode"])
        _record(budget, by, "budget.change", clock.now())
        return budget


def close_budget(*, budget_id: UUID, by: User | None) -> None:
    """The budget counts and blocks no more; what it counted stays. Raises DomainError `not_found`, `forbidden`."""
    with locks.ordered():
        budget = _locked(budget_id, by)
        budget.is_active = False
        budget.save(update_fields=["is_active"])
        _record(budget, by, "budget.close", clock.now())


def spent_in(budget: Budget, starts_at: datetime, ends_at: datetime) -> int:
    """What the scope's runs were charged for stretches that begin in [starts_at, ends_at)."""
    kind, key = budget.scope_pair
    total: int = Posting.objects.filter(
        **{f"meter__{kind}_id": key}, billed_from__gte=starts_at, billed_from__lt=ends_at
    ).aggregate(total=Coalesce(Sum("transfer__amount"), 0))["total"]
    return total


def held_by(budget: Budget) -> int:
    """What open meters hold on this budget."""
    meters = Meter.objects.open().filter(counted_by__contains=[budget.pk])
    total: int = meters.aggregate(total=Coalesce(Sum("held"), 0))["total"]
    return total


def rederive_budgets() -> int:
    """The nightly tick: put every active budget's counters to what postings and meters say; answers how many moved."""
    moved = 0
    for budget_id in Budget.objects.filter(is_active=True).order_by("pk").values_list("pk", flat=True):
        with locks.ordered():
            budget = locks.lock_row(locks.Rank.BUDGET, Budget.objects.filter(pk=budget_id, is_active=True))
            moved += _rederive(budget) if budget is not None else 0
    return moved


def _rederive(budget: Budget) -> int:
    """Whoever charges or holds for the scope waits for the budget's lock, so what is read here is complete."""
    moved = 0
    held = held_by(budget)
    if held != budget.held:
        Budget.objects.filter(pk=budget.pk).update(held=held)
        moved += 1
    for period in BudgetPeriod.objects.filter(budget=budget).order_by("starts_at"):
        spent = spent_in(budget, period.starts_at, period.ends_at)
        if spent != period.spent:
            locks.note(locks.Rank.PERIOD, f"{budget.pk} {period.starts_at.isoformat()}")
            BudgetPeriod.objects.filter(pk=period.pk).update(spent=spent)
            moved += 1
    return moved


def _lock_table() -> None:
    """Wait for every transaction that read the list of budgets under lock, and keep new ones waiting.

    The race it prevents: a charge that does not see the new budget, committed after the budget summed up its period.
    """
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE billing_budget IN EXCLUSIVE MODE")


def _locked(budget_id: UUID, by: User | None) -> Budget:
    seen = Budget.objects.filter(pk=budget_id, is_active=True).first()
    if seen is None:
        raise not_found("budget")
    _authorise(BudgetScope(*seen.scope_pair), by)
    budget = locks.lock_row(locks.Rank.BUDGET, Budget.objects.filter(pk=budget_id, is_active=True))
    if budget is None:
        raise not_found("budget")
    return budget


def _authorise(scope: BudgetScope, by: User | None) -> None:
    """One level above the scope, by the matrix, on rows that are held still."""
    person = scope.id if scope.kind == "user" else None
    people = locked(share=[by.pk if by else None, person])
    authorise(people, by, _ACTS[scope.kind], _target(scope, people))


def _target(scope: BudgetScope, people: People) -> Target:
    if scope.kind == "user":
        standing = people.standings.get(scope.id)
        if standing is None:
            raise not_found("user")
        return Target(organisation_id=standing.home_id, person=standing)
    if scope.kind == "group":
        return target_of_group(scope.id)
    return target_of_organisation(scope.id)


def _check(limit: int, rule: Rule) -> None:
    if not 0 <= limit <= MAX_MICRO:
        raise invalid("limit", _("Give a limit of 0 or more."))
    if rule.time_zone not in available_timezones():
        raise invalid("time_zone", _("Give an IANA time zone such as Europe/Berlin."))


def _whose(budget: Budget) -> str:
    """Whose it is by name, for who reads the trail."""
    place = budget.organisation or budget.group
    if place is not None:
        return place.name
    return budget.user.email if budget.user is not None else budget.scope


def _record(budget: Budget, by: User | None, act: str, at: datetime) -> None:
    audit.record(
        by=by,
        act=act,
        target_kind="budget",
        target_id=budget.pk,
        target_label=_whose(budget),
        organisation_id=budget.organisation_id or (budget.user.organisation_id if budget.user else None),
        group_id=budget.group_id or (audit.group_of(budget.user) if budget.user else None),
        after={"limit": format_credits(budget.limit), "mode": budget.mode, "time_zone": budget.time_zone},
        at=at,
    )
