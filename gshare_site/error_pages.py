"""What answers when something went wrong: a page for people, a problem document below /api/, each with the request's id.

A database that is away is "unavailable, try again" (503) and not a fault of the program (500).
"""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from psycopg_pool import PoolTimeout

from gshare_core.errors import DomainError
from gshare_core.kit import htmx, problem

AWAY = (OperationalError, InterfaceError, PoolTimeout)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400."""
    if problem.is_api(request):
        return problem.problem_response(DomainError("invalid", _("The request is not valid.")), request)
    return htmx.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403."""
    if problem.is_api(request):
        detail = str(exception) or _("You may not do this.")
        return problem.problem_response(DomainError("forbidden", detail), request)
    return htmx.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404."""
    return problem.no_such_path(request) if problem.is_api(request) else htmx.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500; 503 when the reason is that the database does not answer."""
    if isinstance(sys.exc_info()[1], AWAY):
        if problem.is_api(request):
            detail = _("The service does not answer at the moment.")
            return problem.problem_response(
                DomainError("unavailable", detail, remedy=_("Try again in a moment.")), request
            )
        return htmx.unavailable()
    return problem.server_error(request) if problem.is_api(request) else htmx.server_error(request)
