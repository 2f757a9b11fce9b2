"""One wallet of an administrator's scope: credits handed down to it, taken back or promised monthly, one level at a time.

Guarantees: offered are the parents over which he has the right, and the service judges it again; the form carries a key, so
that a second press moves nothing twice; what was refused stays on the form with what was typed.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from accounts.administrators import Administrator, administrators_only
from accounts.permissions import administered_groups, administered_organisations
from billing import services
from billing.api import documents
from billing.api.wallets import visible_wallets
from billing.models import SYSTEM_ID, Account
from billing.models.ledger import NOTE_LENGTH
from billing.views import moves
from billing.views.admin_grants import GrantForm, granted
from billing.views.fields import AmountField, owner_words
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.forms import offer, put_refusal
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.idempotency import Once
from gshare_core.money import display_credits


class MoveForm(forms.Form):
    """How much goes down to a wallet or comes back from it, between it and which parent."""

    act = forms.ChoiceField(
        choices=[("allocate", gettext_lazy("Allocate")), ("reclaim", gettext_lazy("Reclaim"))],
        widget=forms.HiddenInput,
    )
    parent = forms.ChoiceField(label=gettext_lazy("Parent"))
    amount = AmountField(label=gettext_lazy("Amount"))
    note = forms.CharField(label=gettext_lazy("Note"), max_length=NOTE_LENGTH, required=False)
    key = forms.CharField(max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, parents: list[Account], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "parent", [(str(row.pk), _free(row)) for row in parents])
        if len(parents) == 1:
            self.fields["parent"].widget = forms.HiddenInput()
            self.fields["parent"].initial = str(parents[0].pk)
            self.fields["amount"].help_text = _free(parents[0])


def _free(row: Account) -> str:
    facts = {"name": owner_words(row), "free": display_credits(row.available)}
    return _("%(name)s has %(free)s cr free") % facts


def parents_of(wallet: Account, administrator: Administrator) -> list[Account]:
    """The wallets from which he may hand credits down to this one. One statement."""
    rows: QuerySet[Account] = Account.objects.wallets().select_related("organisation", "group", "user")
    if wallet.organisation_id is not None:
        return list(rows.filter(pk=SYSTEM_ID)) if administrator.is_super else []
    if wallet.group is not None:
        theirs = administered_organisations(administrator.user).filter(pk=wallet.group.organisation_id)
        return list(rows.filter(organisation__in=theirs.values("pk")))
    if wallet.user_id is not None:
        groups = administered_groups(administrator.user).filter(memberships__user=wallet.user_id)
        return list(rows.filter(group__in=groups.values("pk")).order_by("group__name", "pk"))
    return []


@administrators_only
@require_http_methods(["GET", "POST"])
def wallet(request: HttpRequest, administrator: Administrator, wallet_id: UUID) -> HttpResponse:
    """The wallet and its forms; POST moves credits, or with act=grant sets what comes each month."""
    found = get_object_or_404(visible_wallets(administrator.user).exclude(user=administrator.user), pk=wallet_id)
    parents = parents_of(found, administrator)
    back = f"{reverse('admin_credits')}?{urlencode({'wallet': found.pk})}"
    promise = GrantForm(request.POST if request.POST.get("act") == "grant" else None, parents=parents)
    if promise.is_valid() and _grant(request, administrator, found, promise):
        return go_to(request, back)
    form = MoveForm(None if promise.is_bound else request.POST or None, parents=parents, initial=_first(request))
    if form.is_valid():
        try:
            _move(request, administrator, found, form.cleaned_data)
        except DomainError as refusal:
            put_refusal(form, refusal)
        else:
            facts = {"amount": display_credits(form.cleaned_data["amount"]), "who": owner_words(found)}
            given = form.cleaned_data["act"] == "allocate"
            said = _("%(who)s got %(amount)s cr.") if given else _("%(amount)s cr were taken back from %(who)s.")
            messages.success(request, said % facts)
            return go_to(request, back)
    context = {
        "name": owner_words(found),
        "kind": found.get_kind_display(),
        "balance_micro": found.balance or 0,
        "held_micro": found.held,
        "free_micro": found.available,
        **panel(request, administrator, found, parents, at="?"),
        "form": form if parents else None,
        "promise": promise,
        "id": str(found.pk),
    }
    refused = bool(form.errors or promise.errors)
    return answer(request, "billing/admin/wallet.html", context, fragments=("effect",), status=422 if refused else 200)


def panel(
    request: HttpRequest, administrator: Administrator, found: Account, parents: list[Account], *, at: str
) -> dict[str, Any]:
    """What the panel that moves credits shows; `at` is the address that another act is put behind. Four statements at most."""
    asked = request.POST if request.method == "POST" else request.GET
    act = asked.get("act", "")
    act = act if act in moves.ACTS else "allocate"
    return {
        "who": owner_words(found),
        "here": reverse("admin_wallet", args=[found.pk]),
        "act": act,
        "acts": [{"word": word, "url": f"{at}act={key}#move", "current": key == act} for key, word in _acts()],
        "form": MoveForm(parents=parents, initial=_first(request)) if parents else None,
        "promise": GrantForm(parents=parents),
        "parent": _free(parents[0]) if len(parents) == 1 else "",
        "effect": moves.effect(act, found, parents, asked.dict(), clock.now()) if parents else None,
        "grants": granted(found, administrator),
    }


def _first(request: HttpRequest) -> dict[str, str]:
    """What the form begins with: an amount may stand in the address."""
    return {"act": request.GET.get("act", "allocate"), "key": str(uuid7()), "amount": request.GET.get("amount", "")}


def _acts() -> tuple[tuple[str, str], ...]:
    return (("allocate", _("Allocate")), ("reclaim", _("Reclaim")), ("grant", _("Monthly grant")))


def _grant(request: HttpRequest, administrator: Administrator, found: Account, form: GrantForm) -> bool:
    """Set what a parent gives each month; whether it was, else the refusal is on the form."""
    parent, amount = UUID(form.cleaned_data["parent"]), form.cleaned_data["amount"]
    try:
        services.set_monthly_grant(wallet=found.pk, parent=parent, amount=amount, by=administrator.user)
    except DomainError as refusal:
        put_refusal(form, refusal)
        return False
    facts = {"amount": display_credits(amount), "who": owner_words(found)}
    said = _("%(who)s gets %(amount)s cr a month.") if amount else _("The monthly grant of %(who)s has ended.")
    messages.success(request, said % facts)
    return True


def _move(request: HttpRequest, administrator: Administrator, found: Account, data: dict[str, Any]) -> None:
    body = json.dumps({name: str(value) for name, value in data.items()}, sort_keys=True).encode()
    by, parent = administrator.user, UUID(data["parent"])
    once = Once(by.pk, "POST", request.path, data["key"], body, documents.transfer)
    given: dict[str, Any] = {"amount": data["amount"], "note": data["note"], "by": by, "once": once}
    if data["act"] == "allocate":
        services.allocate(source=parent, to=found.pk, **given)
    else:
        services.reclaim(source=found.pk, to=parent, **given)
