"""What is asked of an administrator's wallets, and his decisions; the wallets of his scope.

Guarantees: the inbox holds what he can decide and never his own requests; approving moves the credits in the same
transaction, once; rejecting takes a reason; a decision that came second is told so.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from accounts.administrators import Administrator, administrators_only
from accounts.permissions import Act, administered_groups, administered_organisations, may, visible_users
from billing import grants, services
from billing.api.requests import inbox_of, visible_requests
from billing.api.wallets import visible_wallets
from billing.books_words import books
from billing.domain import budgets
from billing.models import Account, CreditRequest
from billing.next_refill import RefillAhead, next_refill
from billing.views import wallet_rows
from billing.views.admin_wallet import panel, parents_of
from billing.views.fields import owner_words
from billing.views.wallet_rows import Look
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer, go_to
from gshare_core.money import display_credits

INBOX = 20
VERBS = ("approve", "reject", "forward")


@administrators_only
@require_GET
def credits(request: HttpRequest, administrator: Administrator) -> HttpResponse:  # noqa: A001 -- the page's name
    """The inbox, the wallets of the scope, and what the next refill takes; `?wallet=` opens one to fill, `?of=` makes it."""
    look = wallet_rows.look_of(request)
    if "of" in request.GET:
        wallet = str(_wallet_of(administrator, request.GET["of"]))
        return HttpResponseRedirect(f"{reverse('admin_credits')}{look.address(wallet=wallet)}")
    now, chosen = clock.now(), _chosen(administrator, look)
    asked = list(inbox_of(administrator.user).order_by("pk")[: INBOX + 1])
    refill_at = grants.next_month(grants.month_of(now))
    context = {
        "now": now,
        "requests": [_request(row) for row in asked[:INBOX]],
        "requests_text": ngettext("%(n)d to decide", "%(n)d to decide", len(asked[:INBOX])) % {"n": len(asked[:INBOX])},
        "more": len(asked) > INBOX,
        "wallets": wallet_rows.rows(administrator, look, chosen, budgets.midnight(*_this_month(now))),
        "month": wording.month(timezone.localtime(now).date()),
        "keys": wallet_rows.keys(),
        "refill": [_refill(row) for row in next_refill(administrator, refill_at)],
        "refill_at": wording.month_day(refill_at),
        "may_issue": may(administrator.standing, Act.ISSUE_CREDITS).allowed,
        "search": look.words,
        "books": books(now) if administrator.is_super else None,
        "chosen": chosen is not None,
        "close_url": look.address(wallet=""),
    }
    if chosen is not None:
        parents = parents_of(chosen, administrator)
        context |= panel(request, administrator, chosen, parents, at=f"{look.address()}&")
    return answer(request, "billing/admin/credits.html", context, fragments=("inbox", "wallets"))


def _this_month(now: datetime) -> tuple[date, ZoneInfo]:
    zone = timezone.get_current_timezone()
    assert isinstance(zone, ZoneInfo)
    return timezone.localtime(now).date().replace(day=1), zone


def _chosen(administrator: Administrator, look: Look) -> Account | None:
    """The wallet that the address names. Raises Http404 for one that is not in his scope, or his own."""
    if not look.wallet:
        return None
    try:
        key = UUID(look.wallet)
    except ValueError:
        raise Http404 from None
    return get_object_or_404(visible_wallets(administrator.user).exclude(user=administrator.user), pk=key)


def _wallet_of(administrator: Administrator, text: str) -> UUID:
    """The wallet of somebody or some place of his scope, made where there is none yet. Raises Http404."""
    kind, _colon, key = text.partition(":")
    by = administrator.user
    owners: dict[str, QuerySet[Any]] = {
        "user": visible_users(by).exclude(pk=by.pk),
        "group": administered_groups(by),
        "organisation": administered_organisations(by),
    }
    try:
        found = get_object_or_404(owners[kind], pk=UUID(key))
    except (KeyError, ValueError):
        raise Http404 from None
    return services.ensure_wallet(kind, found.pk)  # type: ignore[arg-type]  # one of the three


def _refill(row: RefillAhead) -> dict[str, Any]:
    if row.parent.group_id is not None:
        to = ngettext("%(n)d person", "%(n)d people", row.children)
    elif row.parent.organisation_id is not None:
        to = ngettext("%(n)d group", "%(n)d groups", row.children)
    else:
        to = ngettext("%(n)d organisation", "%(n)d organisations", row.children)
    return {
        "of": owner_words(row.parent),
        "to": to % {"n": row.children},
        "needs_micro": row.needs,
        "has_micro": row.has,
        "short_micro": row.short,
    }


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
