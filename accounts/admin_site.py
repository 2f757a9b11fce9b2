"""Django's own admin behind the console's door: its sign-in, its sign-out, its way to change a password.

Guarantees: only active super administrators who have chosen their own password get in; nobody else learns that a page is
there. It has no sign-in and no password form of its own, so throttling, expiry and the audit trail cannot be gone around.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from accounts.sign_in import sign_out


class ConsoleAdminSite(admin.AdminSite):
    """The site that every app's `admin.py` registers with."""

    site_title = _("GShare")
    site_header = _("GShare: every row")
    index_title = _("Every row")

    def has_permission(self, request: HttpRequest) -> bool:
        user = request.user
        return isinstance(user, User) and user.is_active and user.is_super_admin and not user.must_change_password

    def admin_view(  # type: ignore[override]  # the stubs name a private type for the same
        self, view: Callable[..., Any], cacheable: bool = False
    ) -> Callable[..., Any]:
        inside = super().admin_view(view, cacheable)

        def door(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
            if request.user.is_authenticated and not self.has_permission(request):
                raise Http404
            answer: HttpResponse = inside(request, *arguments, **named)
            return answer

        return update_wrapper(door, view)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.user.is_authenticated:
            raise Http404
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))

    def logout(  # type: ignore[override]  # any response will do for Django
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        sign_out(request)
        return redirect("login")

    def password_change(  # type: ignore[override]  # as above
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("password_change")
