"""The one way into `/api/v1`: a console sign-in, proved by its cookie, with CSRF on everything that changes something.

Guarantees: no other credential is looked at: a bearer token or basic credentials alone are nobody, and nobody is 401.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from redis.exceptions import RedisError
from rest_framework.authentication import CSRFCheck, SessionAuthentication
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from gshare_core.errors import DomainError
from gshare_core.kit.shared_cache import count

SCHEME = 'Session realm="gshare"'


class ConsoleSession(SessionAuthentication):
    """Session cookie and CSRF token, with refusals of our own."""

    def authenticate_header(self, request: Request) -> str:
        """What makes "not signed in" a 401 and not a 403."""
        return SCHEME

    def enforce_csrf(self, request: HttpRequest | Request) -> None:
        """Raises DomainError `csrf_failed`."""
        check = CSRFCheck(lambda _request: None)  # type: ignore[arg-type]  # never called: only its check is wanted
        check.process_request(request)
        if check.process_view(request, None, (), {}):  # type: ignore[arg-type]  # as the framework itself calls it
            raise DomainError(
                "csrf_failed",
                _("This request did not come from a page of the console."),
                remedy=_("Send the CSRF cookie's value as X-CSRFToken, from the console's own origin."),
            )


class ConsoleSessionScheme(OpenApiAuthenticationExtension):
    """How the OpenAPI document names it."""

    target_class = "accounts.api.authentication.ConsoleSession"
    name = "consoleSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        from_cookie = {"type": "apiKey", "in": "cookie", "name": "__Host-sessionid"}
        return {
            **from_cookie,
            "description": "The console's sign-in: POST /login/. Unsafe methods also send X-CSRFToken.",
        }


class PersonalThrottle(UserRateThrottle):
    """So many requests per person and period; when the counters' store does not answer, everybody may pass.

    One count in the store a request, exact between processes (the framework's own reads a list and writes it back, so that two
    at once are one). Periods begin on the clock, so who is refused waits for the next.
    """

    num_requests: int
    duration: int

    def allow_request(self, request: Request, view: Any) -> bool:
        key = self.get_cache_key(request, view) if self.rate is not None else None
        if key is None:
            return True
        self._now = self.timer()
        try:
            asked = count(f"{key}:{int(self._now // self.duration)}", timeout=self.duration)
        except (RedisError, OSError):
            return True
        return asked <= self.num_requests

    def wait(self) -> float:
        """Seconds until the next period."""
        return float(self.duration - self._now % self.duration)
