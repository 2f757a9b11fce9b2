"""What another site's page may have from the console: a visit in a tab of its own, and nothing else.

A session's page is somebody's code in somebody's browser, and where the sessions' domain lies below the console's it is even
of the same site, so that SameSite cookies ride along. Guarantees: a request that changes something and says (by Origin or
Sec-Fetch-Site) that another origin made it is refused before any session is read; so is a fetch, an embedding or a frame of
what only reads; no answer can be embedded elsewhere and none allows a cross-origin reader. A client that sends neither
header (no browser) still needs the CSRF token for what changes something.
"""

from collections.abc import Awaitable, Callable, Mapping

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseForbidden

from gshare_core.errors import DomainError
from gshare_core.kit.problem import is_api, problem_response
from gshare_site.error_pages import permission_denied

logger = structlog.get_logger(__name__)

REASON = "Another site's page made this request."
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
OWN_SITES = frozenset({"same-origin", "none"})

Next = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


def is_foreign(method: str, headers: Mapping[str, str], own_origin: str) -> bool:
    """Whether the browser says that another origin's page makes this request (a person's own visit is nobody's request).

    `Origin: null` with `Sec-Fetch-Site: same-origin` is our own page under a strict referrer policy: a page cannot forge
    the second (W3C Fetch Metadata, section 3.3).
    """
    site = headers.get("Sec-Fetch-Site")
    origin = headers.get("Origin")
    safe = method in SAFE_METHODS
    visit = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    if safe and visit:
        return False
    if site is not None and site not in OWN_SITES:
        return True
    if origin is None or origin == own_origin:
        return False
    return not (origin == "null" and site == "same-origin")


class SameOriginWrites:
    """Middleware form of `is_foreign`; the own origin is GSHARE_PUBLIC_URL."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        refused = _refusal(request)
        if self.is_async:
            return self._later(request, refused)
        response = refused or self.get_response(request)
        assert isinstance(response, HttpResponseBase)
        return _kept_apart(response)

    async def _later(self, request: HttpRequest, refused: HttpResponseBase | None) -> HttpResponseBase:
        if refused is not None:
            return _kept_apart(refused)
        response = self.get_response(request)
        assert not isinstance(response, HttpResponseBase)
        return _kept_apart(await response)


def _refusal(request: HttpRequest) -> HttpResponseBase | None:
    """The answer to a foreign request: a problem at the API, the error page for a tab, a line for everything else."""
    if not is_foreign(request.method or "", request.headers, settings.GSHARE.public_url):
        return None
    origin = request.headers.get("Origin")
    logger.info("foreign_request_refused", method=request.method, path=request.path, origin=origin)
    if is_api(request):
        return problem_response(
            DomainError(
                "csrf_failed",
                REASON,
                remedy="Use the console, or send the request from outside a browser with its CSRF token.",
            )
        )
    if request.headers.get("Sec-Fetch-Dest") == "document":
        return permission_denied(request, PermissionDenied(REASON))
    return HttpResponseForbidden(f"{REASON}\n", content_type="text/plain; charset=utf-8")


def _kept_apart(response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    return response
