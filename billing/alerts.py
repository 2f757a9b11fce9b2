"""That a budget's spend has reached a threshold: noted once per budget, period and threshold, and told once.

Guarantees: the row and the notices commit with the charge that reached it; whoever comes second finds the row and tells
nobody. A person hears of his own budget, the administrators of a place of the place's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connection
from django.utils.translation import gettext as _

from accounts import notices
from accounts.contacts import administrators_of_place
from accounts.services.common import in_language_of
from billing.models import Budget
from gshare_core.ids import uuid7
from gshare_core.money import display_credits

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class Reached:
    """A threshold (percent) that a period's spend has reached, perhaps before."""

    budget_id: UUID
    period_id: UUID
    threshold: int
    spent: int


def raise_alerts(reached: Sequence[Reached], at: datetime) -> None:
    """Note and tell those that were not reached before. The budgets are locked."""
    if not reached:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_budgetalert (id, budget_id, period_id, threshold, at)"
            " SELECT id, budget, period, threshold, %s FROM"
            " unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::smallint[]) AS new (id, budget, period, threshold)"
            " ON CONFLICT DO NOTHING RETURNING period_id, threshold",
            [
                at,
                [uuid7() for _one in reached],
                [one.budget_id for one in reached],
                [one.period_id for one in reached],
                [one.threshold for one in reached],
            ],
        )
        new = set(cursor.fetchall())
    fresh = [one for one in reached if (one.period_id, one.threshold) in new]
    rows = Budget.objects.select_related("user", "group", "organisation").in_bulk({one.budget_id for one in fresh})
    for one in fresh:
        _tell(rows[one.budget_id], one, at)


def _tell(budget: Budget, reached: Reached, at: datetime) -> None:
    """Each in his language."""
    for person in _whose(budget):
        with in_language_of(person):
            words = {
                "percent": reached.threshold,
                "place": (budget.organisation or budget.group or person).name,
                "spent": display_credits(reached.spent),
                "limit": display_credits(budget.limit),
            }
            title = _("%(place)s has spent %(percent)d %% of a budget") % words
            if budget.user_id is not None:
                title = _("You have spent %(percent)d %% of your budget") % words
            link = "/wallet/" if budget.user_id is not None else "/admin/budgets/"
            body = _("%(spent)s of %(limit)s cr are spent.") % words
            if budget.mode == "block":
                body += " " + _("At the limit nothing new starts, and what runs is paused when its hold ends.")
            notices.notify(user_id=person.pk, kind="budget_alert", title=title, body=body, at=at, link=link)


def _whose(budget: Budget) -> list[User]:
    if budget.user is not None:
        return [budget.user]
    organisation = budget.group.organisation_id if budget.group is not None else budget.organisation_id
    return administrators_of_place(organisation_id=organisation, group_id=budget.group_id)
