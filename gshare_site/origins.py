"""Unsafe requests come from the console's own pages, or not at all.

A session's page is somebody's code in somebody's browser. Django's CSRF token is one lock; this middleware is the second:
a request that changes something and says (by Origin or Sec-Fetch-Site) that another origin made it is refused before any
session is read. A client that sends neither header (no browser) still needs the CSRF token.
"""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def is_foreign(method: str, origin: str | None, fetch_site: str | None, own: str) -> bool:
    """Whether the browser says that this unsafe request was made by another origin than `own`."""
    if method in SAFE_METHODS:
        return False
    if origin is not None and origin != own:
        return True
    return fetch_site is not None and fetch_site not in ("same-origin", "none")


class SameOriginWrites:
    """Middleware form of `is_foreign`; the own origin is GSHARE_PUBLIC_URL."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        origin, fetch_site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        if is_foreign(request.method or "", origin, fetch_site, settings.GSHARE.public_url):
            raise PermissionDenied("This request was made by another site.")
        return self.get_response(request)
