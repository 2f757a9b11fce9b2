"""Credits that come into being, and those that are promised: issuing, monthly grants, and what the starts of months moved.

Guarantees: only who may issue finds the page that does; a form that is sent twice issues once; the report shows the refills to
and from wallets of the scope, and its sums are of all of them, not of the page.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_http_methods

from accounts.administrators import Administrator, administrators_only
from accounts.permissions import Act, may
from billing import grants, services
from billing.api import documents
from billing.models import Account, GrantRefill, MonthlyGrant
from billing.models.ledger import NOTE_LENGTH, owners_of
from billing.sight import between_wallets
from billing.views.fields import AmountField, owner_words
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock, wording
from gshare_core.kit.forms import offer, put_refusal
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.idempotency import Once
from gshare_core.kit.lists import narrowed, next_address, page_of
from gshare_core.money import display_credits

MONTHS = 12


class IssueForm(forms.Form):
    """How much comes into being, and why."""

    amount = AmountField()
    note = forms.CharField(label=gettext_lazy("Note"), max_length=NOTE_LENGTH, required=False)
    key = forms.CharField(max_length=64, widget=forms.HiddenInput)


class GrantForm(forms.Form):
    """What a parent promises a wallet each month."""

    parent = forms.ChoiceField(label=gettext_lazy("Parent"))
    amount = AmountField(
        label=gettext_lazy("Each month"),
        help_text=gettext_lazy("From the next month on; 0 ends the grant. It raises the wallet to this, no further."),
    )

    def __init__(self, *args: Any, parents: list[Account], **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"auto_id": "grant_%s"}))
        offer(self, "parent", [(str(row.pk), owner_words(row)) for row in parents])
        if len(parents) == 1:
            self.fields["parent"].widget = forms.HiddenInput()
            self.fields["parent"].initial = str(parents[0].pk)


def granted(wallet: Account, administrator: Administrator) -> list[dict[str, Any]]:
    """The monthly grants of a wallet that he may know of, as its page shows them. One statement."""
    rows = MonthlyGrant.objects.filter(between_wallets(administrator.user), wallet=wallet).order_by("pk")
    return [
        {"of": owner_words(row.parent), "amount_micro": row.amount, "since": wording.month(row.since)}
        for row in rows.select_related(*owners_of("parent"))
    ]


@administrators_only
@require_http_methods(["GET", "POST"])
def issue(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The form; POST puts new credits into the system's wallet."""
    if not may(administrator.standing, Act.ISSUE_CREDITS).allowed:
        raise Http404
    form = IssueForm(request.POST or None, initial={"key": str(uuid7())})
    if request.method == "POST" and form.is_valid():
        data, by = form.cleaned_data, administrator.user
        body = json.dumps({name: str(value) for name, value in data.items()}, sort_keys=True).encode()
        once = Once(by.pk, "POST", request.path, data["key"], body, documents.transfer)
        try:
            services.issue(amount=data["amount"], note=data["note"], by=by, once=once)
        except DomainError as refusal:
            put_refusal(form, refusal)
        else:
            messages.success(request, _("%(amount)s cr are issued.") % {"amount": display_credits(data["amount"])})
            return go_to(request, reverse("admin_credits"))
    return answer(request, "billing/admin/issue.html", {"form": form}, status=422 if form.errors else 200)


@administrators_only
@require_GET
def refills(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """What the start of a month moved and fell short of; `?month=` (its first day), `?short=true`."""
    here = reverse("admin_refills")
    rows = GrantRefill.objects.filter(between_wallets(administrator.user))
    try:
        page = page_of(rows.select_related(*owners_of("wallet", "parent")), documents.REFILLS, request)
    except DomainError:
        return HttpResponseRedirect(here)
    short = request.GET.get("short", "")
    context = {
        "rows": [_row(row) for row in page.rows],
        "totals": _totals(narrowed(rows, documents.REFILLS, request.GET)),
        "months": _months(request.GET.get("month", "")),
        "shorts": [
            (value, words, value == short) for value, words in (("", _("All")), ("true", _("Those that fell short")))
        ],
        "narrowed": bool(request.GET.get("month") or short),
        "count_text": ngettext("%(n)d refill", "%(n)d refills", page.count) % {"n": page.count},
        "first": here if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    return answer(request, "billing/admin/refills.html", context, fragments=("refills",))


def _row(row: GrantRefill) -> dict[str, Any]:
    return {
        "month": wording.month(row.month),
        "of": owner_words(row.parent),
        "to": owner_words(row.wallet),
        "amount_micro": row.amount,
        "moved_micro": row.moved,
        "short_micro": row.shortfall,
    }


def _totals(rows: QuerySet[GrantRefill]) -> dict[str, int]:
    found = rows.aggregate(moved=Sum("moved"), short=Sum("shortfall"))
    return {name: int(value or 0) for name, value in found.items()}


def _months(chosen: str) -> list[tuple[str, str, bool]]:
    found: list[tuple[str, str, bool]] = [("", _("Any month"), not chosen)]
    month: date = grants.month_of(clock.now())
    for _number in range(MONTHS):
        found.append((month.isoformat(), wording.month(month), month.isoformat() == chosen))
        month = (month - timedelta(days=1)).replace(day=1)
    return found
