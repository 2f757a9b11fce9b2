"""Signing in and out: e-mail address and password, throttled per (address, network address).

Guarantees: the answer to a wrong password, an unknown address and a deactivated account is the same, and as slow; after
`GSHARE_LOGIN_ATTEMPTS_MAX` failures the pair waits `GSHARE_LOGIN_LOCK`, whatever the case in which the address was typed;
a sign-in begins a fresh browser session; redirects stay on this host.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.addresses import normalise_email
from accounts.models import EMAIL_LENGTH, User
from accounts.services.passwords import PASSWORD_MAX, is_expired
from gshare_core.errors import DomainError
from gshare_core.kit import clock

logger = structlog.get_logger(__name__)


def sign_in(request: HttpRequest, *, email: str, password: str) -> User:
    """Sign the browser in. Raises DomainError `throttled`, `unauthenticated`, `forbidden` (initial password expired)."""
    credentials = {
        "email": normalise_email(email).replace("\0", "")[:EMAIL_LENGTH],
        "password": password[:PASSWORD_MAX],
    }
    if not AxesProxyHandler.is_allowed(request, credentials):
        raise _throttled()
    user = authenticate(request, **credentials)
    if user is None:
        logger.info("sign_in_refused")
        if not AxesProxyHandler.is_allowed(request, credentials):
            # Our page tells it; the library's middleware would put its own answer in its place.
            request.axes_locked_out = False  # type: ignore[attr-defined]  # django-axes keeps its state there
            _note_lock(credentials["email"])
            raise _throttled()
        raise DomainError(
            "unauthenticated",
            _("E-mail address or password are not right."),
            remedy=_("Try again, or ask an administrator to reset the password."),
        )
    if is_expired(user):
        raise DomainError(
            "forbidden",
            _("The initial password has expired."),
            remedy=_("Ask an administrator for a new one."),
        )
    login(request, user)
    _record(user, "user.sign_in")
    return user


def sign_out(request: HttpRequest) -> None:
    """End this browser's sign-in; harmless when there is none."""
    user = request.user
    logout(request)
    if user.is_authenticated:
        _record(user, "user.sign_out")


def destination(request: HttpRequest, wanted: str) -> str:
    """Where to go after signing in: `wanted` when it is a path of this host, else the dashboard."""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and safe else str(settings.LOGIN_REDIRECT_URL)


def _throttled() -> DomainError:
    span: timedelta = settings.GSHARE.login_lock
    return DomainError(
        "throttled",
        _("Too many failed attempts."),
        remedy=_("Wait %(minutes)s minutes and try again.") % {"minutes": max(1, round(span.total_seconds() / 60))},
        facts={"retry_after_seconds": int(span.total_seconds())},
    )


def _note_lock(address: str) -> None:
    """An account that is being guessed at leaves one entry per lock; unknown addresses leave none."""
    user = User.objects.filter(email=address).first()
    if user is not None:
        _record(user, "user.sign_in_locked", by_himself=False)


def _record(user: User, act: str, *, by_himself: bool = True) -> None:
    audit.record(
        by=user if by_himself else None,
        act=act,
        target_kind="user",
        target_id=user.pk,
        target_label=user.email,
        organisation_id=user.organisation_id,
        at=clock.now(),
    )
