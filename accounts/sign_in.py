"""Signing in and out: e-mail address and password, throttled per (address, network address).

Guarantees: the answer to a wrong password, an unknown address and a deactivated account is the same, and as slow; after
`GSHARE_LOGIN_ATTEMPTS_MAX` failures the pair waits `GSHARE_LOGIN_LOCK`, whatever the case in which the address was typed;
a sign-in begins a fresh browser session; redirects stay on this host.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.addresses import normalise_email
from accounts.domain.devices import Device, device_of
from accounts.models import EMAIL_LENGTH, SignIn, User
from accounts.services.passwords import PASSWORD_MAX, is_expired
from gshare_core.errors import DomainError
from gshare_core.kit import clock

HERE = "sign_in"  # key of the browser session that names its row
BROWSERS_SHOWN = 50

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
    _remember(request, user)
    _record(user, "user.sign_in")
    return user


def sign_out(request: HttpRequest) -> None:
    """End this browser's sign-in; harmless when there is none."""
    user, here = request.user, _here(request)
    logout(request)
    if user.is_authenticated:
        here.filter(user=user, ended_at=None).update(ended_at=clock.now())
        _record(user, "user.sign_out")


def stay_signed_in(request: HttpRequest, user: User) -> None:
    """After one's own password change, which ended every sign-in: this browser goes on."""
    update_session_auth_hash(request, user)
    _here(request).filter(user=user).update(epoch=user.sign_in_epoch)


def _here(request: HttpRequest) -> QuerySet[SignIn]:
    """The row of this browser, if it has one."""
    key = request.session.get(HERE)
    return SignIn.objects.filter(pk=key) if key else SignIn.objects.none()


@dataclass(frozen=True, slots=True)
class Browser:
    """Where a person is signed in."""

    id: UUID
    browser: str
    system: str
    handheld: bool
    address: str | None
    at: datetime
    here: bool


def browsers_of(request: HttpRequest, user: User) -> list[Browser]:
    """Where the person is signed in, this browser first, then the newest. One statement."""
    here = str(request.session.get(HERE, ""))
    alive = SignIn.objects.filter(
        user=user, ended_at=None, epoch=user.sign_in_epoch, at__gte=clock.now() - settings.GSHARE.console_session_ttl
    )
    rows = [
        Browser(
            id=row.pk,
            browser=row.browser,
            system=row.system,
            handheld=Device(row.browser, row.system).is_handheld,
            address=row.address,
            at=row.at,
            here=str(row.pk) == here,
        )
        for row in alive.order_by("-at", "-pk")[:BROWSERS_SHOWN]
    ]
    return sorted(rows, key=lambda row: not row.here)


def destination(request: HttpRequest, wanted: str) -> str:
    """Where to go after signing in: `wanted` when it is a path of this host, else the dashboard."""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and safe else str(settings.LOGIN_REDIRECT_URL)


def _remember(request: HttpRequest, user: User) -> None:
    now = clock.now()
    device = device_of(request.headers.get("User-Agent", ""))
    row = SignIn.objects.create(
        user=user,
        epoch=user.sign_in_epoch,
        browser=device.browser,
        system=device.system,
        address=audit.acting_address(),
        at=now,
    )
    request.session[HERE] = str(row.pk)
    SignIn.objects.filter(user=user, at__lt=now - settings.GSHARE.console_session_ttl).delete()


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
