"""Refusals as `application/problem+json` (RFC 9457), one shape for everything the API answers with 4xx and 5xx.

Guarantees: every refusal carries `code`, `title`, `status`, `detail`, `errors` (per field), `facts`, `remedy`, `gate` and
the id of the request; what does not exist and what is not yours are the same answer; an unforeseen error tells nothing
but the id. Refuses nothing by itself: it only translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from rest_framework import exceptions
from rest_framework.views import set_rollback

from gshare_core.errors import DomainError, not_found

MEDIA_TYPE = "application/problem+json"
API_PREFIX = "/api/"
RETRY_SECONDS = 5

logger = structlog.get_logger(__name__)

TITLES: Mapping[str, Promise] = {
    "invalid": _("Not valid"),
    "idempotency_key_required": _("Idempotency key required"),
    "reason_required": _("Reason required"),
    "unauthenticated": _("Not signed in"),
    "insufficient_credit": _("Not enough credit"),
    "forbidden": _("Not permitted"),
    "password_change_required": _("Password must be changed"),
    "mount_forbidden": _("Volume not permitted"),
    "wallet_forbidden": _("Wallet not permitted"),
    "csrf_failed": _("Request could not be verified"),
    "not_found": _("Not found"),
    "quota_exceeded": _("Quota exceeded"),
    "budget_exceeded": _("Budget exceeded"),
    "mount_conflict": _("Volume in use"),
    "no_capacity": _("No capacity"),
    "invalid_transition": _("Not possible in this state"),
    "conflict": _("Conflict"),
    "in_use": _("In use"),
    "insufficient_pool": _("Not enough credit to hand out"),
    "grant_exceeds_parent": _("Grant exceeds its parent's"),
    "already_decided": _("Already decided"),
    "image_incompatible": _("Image does not fit"),
    "never_fits": _("Fits on no card"),
    "asymmetric_shape": _("Shares too unequal"),
    "mount_path_invalid": _("Mount path not valid"),
    "yield_impossible": _("Cannot pause in place"),
    "idempotency_mismatch": _("Idempotency key used for something else"),
    "throttled": _("Too many requests"),
    "not_implemented": _("Not implemented"),
    "unavailable": _("Temporarily unavailable"),
    # What HTTP itself refuses; no domain rule raises these.
    "method_not_allowed": _("Method not allowed"),
    "not_acceptable": _("No acceptable format"),
    "unsupported_media_type": _("Unsupported media type"),
    "internal": _("Something went wrong"),
}


def request_id() -> str:
    """The id under which the logs know the request that is being answered; empty outside one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


def is_api(request: HttpRequest) -> bool:
    """Does the request expect problem documents?"""
    return request.path.startswith(API_PREFIX)


def document(error: DomainError) -> dict[str, Any]:
    """The problem document of a refusal."""
    return _document(error.code, error.status, error)


def _document(code: str, status: int, error: DomainError) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": str(TITLES[code]),
        "status": status,
        "code": code,
        "gate": error.gate,
        "detail": str(error.detail),
        "errors": {field: [str(message) for message in messages] for field, messages in error.errors.items()},
        "remedy": str(error.remedy) if error.remedy else None,
        "request_id": request_id(),
        "facts": error.facts,
    }


def problem_response(error: DomainError, request: HttpRequest | None = None) -> JsonResponse:
    """The refusal as a response; for middleware and plain Django views too."""
    headers = {"Cache-Control": "no-store"}
    if error.code == "unauthenticated":
        headers["WWW-Authenticate"] = 'Session realm="gshare"'
    if error.code in ("throttled", "unavailable"):
        headers["Retry-After"] = retry_after(error)
    return JsonResponse(document(error), status=error.status, content_type=MEDIA_TYPE, headers=headers)


def retry_after(error: DomainError) -> str:
    """The `Retry-After` of a refusal that passes by itself."""
    return str(error.facts.get("retry_after_seconds", RETRY_SECONDS))


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """Django REST framework's `EXCEPTION_HANDLER`: every refusal as a problem, None for what nobody foresaw."""
    response = _translated(exc)
    if response is not None:
        set_rollback()
    return response


def _translated(exc: Exception) -> HttpResponse | None:
    if isinstance(exc, DomainError):
        return problem_response(exc)
    if isinstance(exc, Http404):
        return problem_response(not_found("thing"))
    if isinstance(exc, PermissionDenied):
        return problem_response(DomainError("forbidden", str(exc) or _text(_("You may not do this."))))
    if isinstance(exc, (OperationalError, InterfaceError)):
        logger.warning("database_unavailable", error=str(exc))
        return problem_response(
            DomainError("unavailable", _text(_("The database did not answer.")), remedy=_text(_("Try again shortly.")))
        )
    if isinstance(exc, exceptions.APIException):
        return _framework(exc)
    return None


_SAME = {
    exceptions.NotAuthenticated: "unauthenticated",
    exceptions.AuthenticationFailed: "unauthenticated",
    exceptions.PermissionDenied: "forbidden",
    exceptions.NotFound: "not_found",
    exceptions.ParseError: "invalid",
}
_HTTP_ONLY = {
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.NotAcceptable: "not_acceptable",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
}


def _framework(exc: exceptions.APIException) -> HttpResponse:
    if isinstance(exc, exceptions.ValidationError):
        return problem_response(invalid_fields(exc.detail))
    if isinstance(exc, exceptions.Throttled):
        wait = max(1, round(getattr(exc, "wait", None) or RETRY_SECONDS))
        return problem_response(
            DomainError(
                "throttled",
                _text(_("Too many requests in a short time.")),
                remedy=_text(_("Wait a moment and try again.")),
                facts={"retry_after_seconds": wait},
            )
        )
    for kind, code in _SAME.items():
        if isinstance(exc, kind):
            return problem_response(DomainError(code, str(exc.detail)))
    code = next((code for kind, code in _HTTP_ONLY.items() if isinstance(exc, kind)), "internal")
    return JsonResponse(
        _document(code, exc.status_code, DomainError("invalid", str(exc.detail))),
        status=exc.status_code,
        content_type=MEDIA_TYPE,
    )


def invalid_fields(detail: Any) -> DomainError:
    """A serializer's or form's complaints as one refusal; nested fields are named `outer.inner`."""
    errors = dict(_flat("", detail))
    field, messages = next(iter(errors.items()), ("", [_text(_("The request is not valid."))]))
    said = f"{field}: {messages[0]}" if field else messages[0]
    return DomainError("invalid", said, errors=errors, remedy=_text(_("Correct the named fields and send it again.")))


def _flat(prefix: str, detail: Any) -> list[tuple[str, list[str]]]:
    if isinstance(detail, Mapping):
        found = []
        for name, inner in detail.items():
            own = "" if name in ("non_field_errors", "__all__") else str(name)
            found += _flat(".".join(part for part in (prefix, own) if part), inner)
        return found
    if isinstance(detail, Sequence) and not isinstance(detail, str):
        plain = [str(entry) for entry in detail if not isinstance(entry, Mapping)]
        found = [(prefix, plain)] if plain else []
        for place, entry in enumerate(detail):
            if isinstance(entry, Mapping) and entry:
                found += _flat(f"{prefix}.{place}" if prefix else str(place), entry)
        return found
    return [(prefix, [str(detail)])]


def no_such_path(request: HttpRequest) -> HttpResponse:
    """The last route of the API: an unknown path is a problem document too."""
    return problem_response(not_found("address"), request)


def server_error(request: HttpRequest) -> HttpResponse:
    """What the API answers to what nobody foresaw: the request's id and nothing else."""
    unforeseen = DomainError(
        "invalid",
        _text(_("An error occurred on our side; it was recorded.")),
        remedy=_text(_("Try again; if it stays, tell an administrator the request id.")),
    )
    return JsonResponse(_document("internal", 500, unforeseen), status=500, content_type=MEDIA_TYPE)


def _text(message: Promise) -> str:
    return str(message)
