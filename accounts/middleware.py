"""What every request of a person passes: where it comes from, whether the password must be changed first, his time zone.

Guarantees: audit entries carry the address that the edge believed (REMOTE_ADDR); who must change the initial password
can do that, sign out, switch the language, and nothing else: pages lead there, the API says `password_change_required`.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.audit import acting_from
from gshare_core.errors import DomainError
from gshare_core.kit.problem import is_api, problem_response

GetResponse = Callable[[HttpRequest], HttpResponse]
View = TypeVar("View", bound=Callable[..., Any])

_OPEN = "open_before_password_change"
_OPEN_NAMES = frozenset({"set_language"})


def open_before_password_change(view: View) -> View:
    """Mark a view that somebody may use who must change his password first."""
    setattr(view, _OPEN, True)
    return view


class Origin:
    """Audit entries of this request come from its address."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with acting_from(request.META.get("REMOTE_ADDR")):
            return self.get_response(request)


class PasswordChangeFirst:
    """Closes everything but the change to who must change his password."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., Any], *_arguments: Any) -> HttpResponse | None:
        user = request.user
        if not user.is_authenticated or not user.must_change_password or _is_open(request, view):
            return None
        if is_api(request):
            refusal = DomainError(
                "password_change_required",
                _("Change the initial password first."),
                remedy=_("POST the present and a new one to /api/v1/me/password."),
            )
            return problem_response(refusal, request)
        return redirect(reverse("password_change"))


class ReadersZone:
    """Times are shown in the zone that the person chose, else in the installation's."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        chosen = request.user.time_zone if request.user.is_authenticated else ""
        with timezone.override(_zone(chosen)):
            return self.get_response(request)


def _is_open(request: HttpRequest, view: Callable[..., Any]) -> bool:
    name = request.resolver_match.url_name if request.resolver_match else None
    return bool(getattr(view, _OPEN, False)) or name in _OPEN_NAMES


def _zone(chosen: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(chosen or settings.GSHARE.time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        # A name that a newer zone database dropped: the row stays, the page works.
        return zoneinfo.ZoneInfo("UTC")
