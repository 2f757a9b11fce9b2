"""What is asked of an administrator's wallets, and his decisions; the wallets of his scope.

Guarantees: the inbox holds what he can decide and never his own requests; approving moves the credits in the same
transaction, once; rejecting takes a reason; a decision that came second is told so.
"""

from __future__ import annotations

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
from accounts.permissions import Act, may
from billing import services
from billing.api.documents import WALLETS
from billing.api.requests import inbox_of, visible_requests
from billing.api.wallets import visible_wallets
from billing.models import Account, CreditRequest
from billing.views.fields import owner_words
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.lists import next_address, page_of
from gshare_core.money import display_credits

INBOX = 20
VERBS = ("approve", "reject", "forward")


@administrators_only
@require_GET
def credits(request: HttpRequest, administrator: Administrator) -> HttpResponse:  # noqa: A001 -- the page's name
    """The inbox, and the wallets of the scope."""
    asked = list(inbox_of(administrator.user).order_by("pk")[: INBOX + 1])
    rows = visible_wallets(administrator.user).exclude(user=administrator.user)
    try:
        page = page_of(rows, WALLETS, request)
    except DomainError:
        return HttpResponseRedirect(reverse("admin_credits"))
    context = {
        "now": clock.now(),
        "requests": [_request(row) for row in asked[:INBOX]],
        "requests_text": ngettext("%(n)d to decide", "%(n)d to decide", len(asked[:INBOX])) % {"n": len(asked[:INBOX])},
        "more": len(asked) > INBOX,
        "wallets": [_wallet(row) for row in page.rows],
        "may_issue": may(administrator.standing, Act.ISSUE_CREDITS).allowed,
        "search": request.GET.get("q", "").strip(),
        "first": reverse("admin_credits") if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    return answer(request, "billing/admin/credits.html", context, fragments=("inbox", "wallets"))


def _request(row: CreditRequest) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "who": owner_words(row.wallet),
        "of": owner_words(row.parent),
        "at": row.asked_at,
        "reason": row.reason,
        "amount_micro": row.amount,
        "free_micro": row.parent.available,
        "may_forward": row.parent.user_id is None and row.parent.kind != "system",
    }


def _wallet(row: Account) -> dict[str, Any]:
    return {
        "name": owner_words(row),
        "url": reverse("admin_wallet", args=[row.pk]),
        "kind": row.get_kind_display(),
        "balance_micro": row.balance or 0,
        "held_micro": row.held,
        "free_micro": row.available,
    }


@administrators_only
@require_http_methods(["GET", "POST"])
def decide(request: HttpRequest, administrator: Administrator, request_id: UUID, verb: str) -> HttpResponse:
    """GET asks; POST approves, rejects with a reason, or asks the next level."""
    found = get_object_or_404(visible_requests(administrator.user).exclude(asked_by=administrator.user), pk=request_id)
    if verb not in VERBS:
        return HttpResponseRedirect(reverse("admin_credits"))
    if request.method == "GET":
        return _ask(request, found, verb)
    by, words = administrator.user, request.POST.get("reason", "").strip()
    try:
        if verb == "approve":
            services.approve_request(request_id=found.pk, by=by, note=words)
        elif verb == "reject":
            services.reject_request(request_id=found.pk, reason=words, by=by)
        else:
            services.forward_request(request_id=found.pk, by=by, note=words)
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
    else:
        messages.success(request, _done()[verb] % {"who": owner_words(found.wallet)})
    return go_to(request, reverse("admin_credits"))


def _done() -> dict[str, str]:
    return {
        "approve": _("%(who)s has the credits."),
        "reject": _("%(who)s is told why not."),
        "forward": _("The next level is asked; the request stays open."),
    }


def _ask(request: HttpRequest, found: CreditRequest, verb: str) -> HttpResponse:
    facts = {
        "who": owner_words(found.wallet),
        "of": owner_words(found.parent),
        "amount": display_credits(found.amount),
        "then": display_credits(found.parent.available - found.amount),
    }
    title, effects, submit = {
        "approve": (
            _("Give %(who)s %(amount)s cr?"),
            [_("%(of)s has %(then)s cr free afterwards"), _("The credits move at once")],
            _("Give %(amount)s cr"),
        ),
        "reject": (_("Reject the request of %(who)s?"), [_("%(who)s reads your reason")], _("Reject")),
        "forward": (
            _("Ask the next level for %(amount)s cr?"),
            [_("The request stays open until you decide it")],
            _("Forward"),
        ),
    }[verb]
    question = {
        "title": title % facts,
        "effects": [effect % facts for effect in effects],
        "note": "",
        "url": reverse("admin_credit_decide", args=[found.pk, verb]),
        "submit": submit % facts,
        "danger": verb == "reject",
        "cancel_url": reverse("admin_credits"),
        "cancel": _("Leave it"),
        "reason": verb == "reject",
        "fields": {},
    }
    back = [{"name": _("Credits"), "url": reverse("admin_credits")}]
    context = {"question": question, "layout": "layouts/admin.html", "back": back}
    return answer(request, "layouts/ask.html", context, fragments=("dialog",))
