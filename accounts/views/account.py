"""The account page: who one is, limits, where one is signed in, language and time zone; and one's notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from accounts import notices, queries, services
from accounts.domain.roles import Role
from accounts.forms import PreferencesForm
from accounts.models import Notification, User
from accounts.sign_in import Browser, browsers_of, sign_out
from accounts.views.entrance import keep_language
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.lists import Listing, next_address, page_of

LimitRows = Callable[[UUID, UUID], list[dict[str, Any]]]
NOTICES = Listing({"at": "at"}, "-at")


@login_required
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest, limit_rows: LimitRows | None = None) -> HttpResponse:
    """One's own account; POST keeps language and time zone. `limit_rows(user, group)` comes from above, with the use."""
    user = _user(request)
    if request.method == "GET":
        form = PreferencesForm({"language": user.language, "time_zone": user.time_zone})
        return _account_page(request, user, form, limit_rows)
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _account_page(request, user, form, limit_rows, status=422)
    language, zone = form.cleaned_data["language"], form.cleaned_data["time_zone"]
    services.set_preferences(by=user, language=language, time_zone=zone, theme=user.theme)
    messages.success(request, _("Saved."))
    return keep_language(go_to(request, reverse("account")), language)


def _account_page(
    request: HttpRequest, user: User, form: PreferencesForm, limit_rows: LimitRows | None, *, status: int = 200
) -> HttpResponse:
    now = clock.now()
    seats = queries.frame_of(user, request).seats
    places = {str(seat.group_id): seat.group_name for seat in seats if seat.active and seat.group_id}
    shown = request.GET.get("group", "")
    chosen = shown if shown in places else next(iter(places), None)
    context = {
        "now": now,
        "form": form,
        "profile": {
            "name": user.name,
            "email": user.email,
            "organisation": user.organisation.name if user.organisation else "",
            "id": str(user.pk),
        },
        "memberships": [
            {"organisation": seat.organisation_name, "group": seat.group_name, "role_text": role_words(seat.role)}
            for seat in seats
        ],
        "devices": [_device(browser, now) for browser in browsers_of(request, user)],
        "limits": limit_rows(user.pk, UUID(chosen)) if limit_rows and chosen else [],
        "limit_groups": [
            {"name": name, "url": f"{request.path}?group={key}#limits", "current": key == chosen}
            for key, name in places.items()
            if len(places) > 1
        ],
    }
    return answer(request, "accounts/account.html", context, status=status)


def _device(browser: Browser, now: datetime) -> dict[str, Any]:
    named = [part for part in (browser.browser, browser.system) if part]
    name = _("%(browser)s on %(system)s") % {"browser": named[0], "system": named[1]} if len(named) == 2 else ""
    since = _("since %(when)s") % {"when": wording.clock(browser.at, now)}
    return {
        "id": str(browser.id),
        "icon": "phone" if browser.handheld else "device",
        "name": name or "".join(named) or _("Unknown browser"),
        "where": ", ".join(part for part in (browser.address, since) if part),
        "at": browser.at,
        "here": browser.here,
    }


def role_words(role: Role) -> str:
    """A role as a person reads it."""
    return {
        Role.GUEST: _("guest"),
        Role.MEMBER: _("member"),
        Role.GROUP_ADMIN: _("group administrator"),
        Role.ORG_ADMIN: _("organisation administrator"),
        Role.SUPER_ADMIN: _("super administrator"),
    }[role]


@login_required
@require_http_methods(["GET", "POST"])
def sign_out_everywhere(request: HttpRequest) -> HttpResponse:
    """Ask, then end every sign-in of one's own, this one too."""
    user = _user(request)
    if request.method == "GET":
        return answer(
            request, "layouts/ask.html", _ask_sign_out(len(browsers_of(request, user))), fragments=("dialog",)
        )
    services.sign_out_everywhere(user_id=user.pk, by=user)
    sign_out(request)
    return go_to(request, reverse("login"))


def _ask_sign_out(browsers: int) -> dict[str, Any]:
    ended = ngettext(
        "%(n)d browser is signed out, this one too", "%(n)d browsers are signed out, this one too", browsers
    )
    return {
        "question": {
            "title": _("Sign out everywhere?"),
            "effects": [
                ended % {"n": browsers},
                _("Open JupyterLab and terminals close; the sessions themselves go on"),
            ],
            "note": _("You sign in again with your password."),
            "url": reverse("sign_out_everywhere"),
            "submit": _("Sign out everywhere"),
            "danger": True,
            "cancel_url": reverse("account"),
            "cancel": _("Stay signed in"),
            "fields": {},
        },
        "back": [{"name": _("Account"), "url": reverse("account")}],
    }


# Notices -------------------------------------------------------------------------------------------------------------

_ICONS = {"membership": "group", "session_opened": "open"}


@login_required
@require_http_methods(["GET", "POST"])
def notifications(request: HttpRequest) -> HttpResponse:
    """One's own notices by day; POST act=read marks all of them read."""
    user = _user(request)
    if request.method == "POST":
        if request.POST.get("act") == "read":
            notices.mark_all_read(by=user)
        return go_to(request, reverse("notifications"))
    try:
        page = page_of(notices.notices_of(user), NOTICES, request)
    except DomainError:
        # An address from before the list changed; its first page is the way back.
        return redirect("notifications")
    now = clock.now()
    context = {
        "now": now,
        "unread": notices.unread_count(user),
        "days": _by_day(page.rows, now),
        "previous": reverse("notifications") if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
        "kinds": [],
    }
    return answer(request, "accounts/notifications.html", context, fragments=("notification-list",))


def _by_day(rows: Iterable[Notification], now: datetime) -> list[dict[str, Any]]:
    days = groupby(rows, key=lambda row: wording.day(row.at, now))
    return [{"day": day, "notices": [_notice(row) for row in told]} for day, told in days]


def _notice(row: Notification) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "icon": _ICONS.get(row.kind, "info"),
        "tone": "",
        "title": row.title,
        "text": row.body,
        "url": row.link,
        "at": row.at,
        "unread": row.read_at is None,
    }


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
