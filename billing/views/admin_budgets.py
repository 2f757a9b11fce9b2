"""Budgets of an administrator's scope: what is spent, held and to be expected of each; making, changing and closing one.

Guarantees: budgets outside of his scope do not exist; a budget is set one level above it, and the service judges it again;
what was refused stays on the form with what was typed. Scope, dates and zone of a budget never change.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from accounts.administrators import Administrator, administrators_only
from accounts.domain.policies import Scope, ScopeKind
from accounts.scopes import SeenScope, seen_scope
from billing import budget_state, services
from billing.api.budgets import visible_budgets
from billing.api.documents import BUDGETS
from billing.budget_state import BudgetState
from billing.domain.outlook import Outlook
from billing.models import Budget
from billing.models.documents import BudgetMode
from billing.views.budget_forms import BudgetForm, NewBudgetForm, places_to_limit
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.forms import put_refusal, refusal_text
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.lists import next_address, page_of
from gshare_core.money import format_credits

FILTERS = ("mode", "user", "group", "organisation")


@administrators_only
@require_GET
def budgets(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The list, narrowed by `?mode=` or to one scope by `?organisation=`, `?group=`, `?user=`."""
    now, here = clock.now(), reverse("admin_budgets")
    rows = visible_budgets(administrator.user).select_related("organisation", "group__organisation", "user")
    try:
        page = page_of(rows, BUDGETS, request)
    except DomainError:
        return HttpResponseRedirect(here)
    mode = request.GET.get("mode", "")
    context = {
        "rows": [_row(state, ahead, now) for state, ahead in budget_state.forecasts(page.rows, now)],
        "modes": [(value, words, mode == value) for value, words in (("", _("Warn and block")), *BudgetMode.choices)],
        "narrowed": any(request.GET.get(name) for name in FILTERS),
        "count_text": ngettext("%(n)d budget", "%(n)d budgets", page.count) % {"n": page.count},
        "first": here if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    return answer(request, "billing/admin/budgets.html", context, fragments=("budgets",))


def _row(state: BudgetState, ahead: Outlook | None, now: datetime) -> dict[str, Any]:
    row = state.row
    used = state.spent + row.held
    return _named(row) | {
        "url": reverse("admin_budget", args=[row.pk]),
        "blocks": row.mode == BudgetMode.BLOCK,
        "mode": row.get_mode_display(),
        "period": _period(row),
        "spent_micro": state.spent,
        "held_micro": row.held,
        "used_micro": used,
        "limit_micro": row.limit,
        "percent": used * 100 // row.limit if row.limit else 0,
        "projected_micro": ahead.projected if ahead else None,
        "outlook": _outlook(state, ahead, now),
        "over": ahead is not None and ahead.projected > row.limit,
    }


def _named(row: Budget) -> dict[str, str]:
    if row.organisation is not None:
        return {"name": row.organisation.name, "of": _("Organisation")}
    if row.group is not None:
        return {"name": row.group.name, "of": row.group.organisation.name}
    return {"name": row.user.email if row.user else "", "of": _("Person")}


def _period(row: Budget) -> str:
    if row.first_day is None or row.last_day is None:
        return _("each month")
    facts = {"first": wording.month_day(row.first_day), "last": wording.month_day(row.last_day)}
    return _("%(first)s to %(last)s") % facts


def _outlook(state: BudgetState, ahead: Outlook | None, now: datetime) -> str:
    """Where it stands and is heading, in words."""
    if ahead is None:
        return _("does not count now")
    if state.spent + state.row.held >= state.row.limit:
        return _("limit reached")
    if ahead.reaches_limit_at is not None:
        return _("reaches the limit %(when)s") % {"when": wording.clock(ahead.reaches_limit_at, now)}
    return _("within the limit") if ahead.basis == "recent_spend" else _("nothing spent lately")


@administrators_only
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The form; POST makes the budget."""
    form = NewBudgetForm(request.POST or None, administrator=administrator, places=places_to_limit(administrator))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = services.create_budget(
                scope=data["scope"], limit=data["limit"], mode=data["mode"], rule=data["rule"], by=administrator.user
            )
        except DomainError as refusal:
            put_refusal(form, refusal)
        else:
            messages.success(request, _("The budget is made."))
            return go_to(request, reverse("admin_budget", args=[made.pk]))
    status = 422 if form.errors else 200
    return answer(request, "billing/admin/budget_new.html", {"form": form}, status=status)


@administrators_only
@require_http_methods(["GET", "POST"])
def budget(request: HttpRequest, administrator: Administrator, budget_id: UUID) -> HttpResponse:
    """One budget; POST sets limit and mode."""
    found, seen = _seen(administrator, budget_id)
    now = clock.now()
    first = {"limit": format_credits(found.limit).rstrip("0").rstrip("."), "mode": found.mode}
    form = BudgetForm(request.POST or None, initial=first)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            services.change_budget(budget_id=found.pk, limit=data["limit"], mode=data["mode"], by=administrator.user)
        except DomainError as refusal:
            put_refusal(form, refusal)
        else:
            messages.success(request, _("The budget of %(name)s is set.") % {"name": seen.name})
            return go_to(request, request.path)
    context = {
        "row": _row(*budget_state.forecast(found, now), now),
        "zone": found.time_zone,
        "form": form if seen.may_set else None,
        "close_url": reverse("admin_budget_close", args=[found.pk]),
    }
    return answer(request, "billing/admin/budget.html", context, status=422 if form.errors else 200)


@administrators_only
@require_http_methods(["GET", "POST"])
def close(request: HttpRequest, administrator: Administrator, budget_id: UUID) -> HttpResponse:
    """GET asks; POST ends the budget."""
    found, seen = _seen(administrator, budget_id)
    here = reverse("admin_budget", args=[found.pk])
    if request.method == "GET":
        question = {
            "title": _("Close the budget of %(name)s?") % {"name": seen.name},
            "effects": [_("It counts, warns and blocks no more"), _("What it counted is kept")],
            "url": request.path,
            "submit": _("Close the budget"),
            "danger": True,
            "cancel_url": here,
            "cancel": _("Leave it"),
            "fields": {},
        }
        back = [{"name": _("Budgets"), "url": reverse("admin_budgets")}, {"name": seen.name, "url": here}]
        context = {"question": question, "layout": "layouts/admin.html", "back": back}
        return answer(request, "layouts/ask.html", context, fragments=("dialog",))
    try:
        services.close_budget(budget_id=found.pk, by=administrator.user)
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
        return go_to(request, here)
    messages.success(request, _("The budget of %(name)s is closed.") % {"name": seen.name})
    return go_to(request, reverse("admin_budgets"))


def _seen(administrator: Administrator, budget_id: UUID) -> tuple[Budget, SeenScope]:
    """A budget of his scope with what it belongs to; 404 for any other."""
    rows = visible_budgets(administrator.user).select_related("organisation", "group__organisation", "user")
    found = get_object_or_404(rows, pk=budget_id)
    kind, key = found.scope_pair
    seen = seen_scope(administrator, Scope(ScopeKind(kind), key))
    assert seen is not None, "who sees the budget sees whose it is"
    return found, seen
