"""Same URL, page or fragment; and the pages that say what went wrong.

Guarantees: a fragment is a partial of the page's own template, chosen by the id of the element that asked, so it runs the
page's own view and permissions; caches keep page and fragment apart; every error page shows the request's id.
Refuses: fragments that the page does not name: such a request gets the whole page.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.csrf import requires_csrf_token
from django.views.decorators.http import require_POST

THEME_COOKIE = "theme"
THEME_COOKIE_SECONDS = 365 * 24 * 3600
THEMES: Mapping[str, str] = {"light": "gshare-light", "dark": "gshare-dark"}
# Parts of the frame around every console page; whichever page shows them answers for them.
SHELL_FRAGMENTS: Mapping[str, str] = {"wallet-chip": "layouts/user.html", "admin-navigation": "layouts/admin.html"}


def presentation(request: HttpRequest) -> dict[str, str]:
    """Context processor: the theme that was chosen (empty: the system decides). Reads a cookie, asks no database."""
    choice = request.COOKIES.get(THEME_COOKIE, "")
    return {"theme": THEMES.get(choice, ""), "theme_choice": choice if choice in THEMES else "system"}


def asked_fragment(request: HttpRequest, fragments: Collection[str]) -> str | None:
    """Name of the fragment that an htmx request asks for, None when it is a visit, a boost or a history restore."""
    htmx = getattr(request, "htmx", None)
    if not htmx or htmx.boosted or htmx.history_restore_request:
        return None
    target: str | None = htmx.target
    return target if target in fragments else None


def answer(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    fragments: Collection[str] = (),
    status: int = 200,
) -> HttpResponse:
    """The page, or the one partial of it whose name is the id of the element that asks."""
    fragment = asked_fragment(request, (*fragments, *SHELL_FRAGMENTS))
    owner = SHELL_FRAGMENTS.get(fragment, template) if fragment else template
    name = f"{owner}#{fragment}" if fragment else template
    response = render(request, name, dict(context), status=status)
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response


def go_to(request: HttpRequest, url: str) -> HttpResponse:
    """A redirect that htmx follows as a visit, so that it does not swap a whole page into a fragment."""
    if getattr(request, "htmx", None):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Keep the chosen theme in a cookie and go back; anything but light and dark means: as the system."""
    target = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):
        target = "/"
    response = HttpResponseRedirect(target)
    choice = request.POST.get("theme", "")
    if choice in THEMES:
        response.set_cookie(
            THEME_COOKIE,
            choice,
            max_age=THEME_COOKIE_SECONDS,
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )
    else:
        response.delete_cookie(THEME_COOKIE, samesite="Lax")
    return response


def request_id() -> str:
    """The id under which this request is found in the logs; empty outside of a request."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400."""
    return _error(request, 400)


@requires_csrf_token
def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403."""
    return _error(request, 403)


@requires_csrf_token
def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404: what does not exist and what is not yours look the same."""
    return _error(request, 404)


@requires_csrf_token
def server_error(request: HttpRequest) -> HttpResponse:
    """handler500: rendered without the request, since whatever failed may fail again in a context processor."""
    return HttpResponse(render_to_string("500.html", {"request_id": request_id()}), status=500)


def unavailable(retry_after_seconds: int = 30) -> HttpResponse:
    """503: the database or a cluster does not answer now."""
    html = render_to_string("503.html", {"request_id": request_id(), "retry_after_seconds": retry_after_seconds})
    return HttpResponse(html, status=503, headers={"Retry-After": str(retry_after_seconds)})


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """CSRF_FAILURE_VIEW: the form was too old, or came from elsewhere. The reason is for the logs only."""
    structlog.get_logger(__name__).info("csrf_failed", reason=reason)
    return render(request, "csrf_failure.html", {"request_id": request_id()}, status=403)


def _error(request: HttpRequest, status: int) -> HttpResponse:
    return render(request, f"{status}.html", {"request_id": request_id()}, status=status)
