"""Asking one's group for credits: the form, one's own requests with what became of them, and taking one back.

Guarantees: offered are the active groups in which one is more than a guest, and the service judges it again; a second press
asks nothing twice; what was refused stays on the form with what was typed.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.contacts import administrators_of
from accounts.domain.roles import Role
from accounts.permissions import person_of
from accounts.queries import frame_of
from billing import services
from billing.api.documents import REQUESTS
from billing.models import CreditRequest, RequestState
from billing.models.ledger import NOTE_LENGTH
from billing.views.fields import AmountField
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.forms import put_refusal, refusal_text
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.lists import next_address, page_of
from gshare_core.money import display_credits

LOOKS = {
    RequestState.OPEN: ("waiting", "accent"),
    RequestState.APPROVED: ("check", ""),
    RequestState.REJECTED: ("refused", ""),
    RequestState.WITHDRAWN: ("close", ""),
}


class CreditRequestForm(forms.Form):
    """How much, from which group, and what for."""

    group = forms.ChoiceField(label=gettext_lazy("Group"))
    amount = AmountField()
    reason = forms.CharField(
        label=gettext_lazy("What for"),
        max_length=NOTE_LENGTH,
        help_text=gettext_lazy("Whoever decides reads it."),
    )

    def __init__(self, *args: Any, groups: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["group"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = groups


@login_required
@require_http_methods(["GET", "POST"])
def request_credits(request: HttpRequest) -> HttpResponse:
    """The form and one's requests; POST asks. `?amount=` and `?group=` fill the form in."""
    user = person_of(request.user)
    assert user is not None
    groups = [
        (str(seat.group_id), seat.group_name)
        for seat in frame_of(user, request).seats
        if seat.active and seat.group_id is not None and seat.role is not Role.GUEST
    ]
    first = {name: request.GET.get(name, "") for name in ("amount", "group")}
    form = CreditRequestForm(request.POST or None, groups=groups, initial=first)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            services.ask_for_credits(
                wallet=services.ensure_wallet("user", user.pk),
                parent=services.ensure_wallet("group", UUID(data["group"])),
                amount=data["amount"],
                reason=data["reason"],
                by=user,
            )
        except DomainError as refusal:
            put_refusal(form, refusal)
        else:
            facts = {"group": dict(groups)[data["group"]], "amount": display_credits(data["amount"])}
            messages.success(request, _("%(group)s is asked for %(amount)s cr.") % facts)
            return go_to(request, reverse("wallet_request"))
    rows = CreditRequest.objects.filter(wallet__user=user, asked_by=user).select_related("parent__group")
    try:
        page = page_of(rows, REQUESTS, request)
    except DomainError:
        return HttpResponseRedirect(reverse("wallet_request"))
    context = {
        "now": clock.now(),
        "form": form if groups else None,
        "people": administrators_of(user),
        "requests": [_row(row) for row in page.rows],
        "requests_text": ngettext("%(n)d request", "%(n)d requests", page.count) % {"n": page.count},
        "first": reverse("wallet_request") if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    status = 422 if request.method == "POST" else 200
    return answer(request, "billing/request.html", context, fragments=("dialog",), status=status)


def _row(row: CreditRequest) -> dict[str, Any]:
    icon, tone = LOOKS[RequestState(row.state)]
    return {
        "of": row.parent.owner_name,
        "amount_micro": row.amount,
        "reason": row.reason,
        "decision": row.decision,
        "state": row.get_state_display(),
        "icon": icon,
        "tone": tone,
        "at": row.asked_at,
        "decided_at": row.decided_at,
        "withdraw_url": reverse("wallet_request_withdraw", args=[row.pk]) if row.state == RequestState.OPEN else "",
    }


@login_required
@require_POST
def withdraw(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Take one's own request back; one that is decided already says so."""
    user = person_of(request.user)
    assert user is not None
    found = get_object_or_404(CreditRequest.objects.filter(wallet__user=user, asked_by=user), pk=request_id)
    try:
        services.withdraw_request(request_id=found.pk, by=user)
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
    else:
        messages.success(request, _("The request is withdrawn."))
    return go_to(request, reverse("wallet_request"))
