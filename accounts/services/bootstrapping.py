"""What an empty installation needs before anybody can sign in. Repeating it changes nothing."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from accounts import audit, queries
from accounts.domain.policies import GLOBAL, GLOBAL_DEFAULTS, Kind
from accounts.models import User
from accounts.services.limits import set_policy
from accounts.services.people import checked_email
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, lock_name, ordered


def ensure_global_policy() -> bool:
    """Set what the global policy does not set yet; answers whether anything was missing. Never changes a number."""
    known = {value.field for value in queries.values_of([GLOBAL]) if value.kind is Kind.PER_USER}
    missing = {field: value for field, value in GLOBAL_DEFAULTS.items() if field not in known}
    if missing:
        set_policy(scope=GLOBAL, per_user=missing, totals={}, by=None)
    return bool(missing)


def ensure_super_admin(*, email: str, password: str, name: str = "Administrator") -> tuple[User, bool]:
    """The first super administrator, made unless this address has an account; answers the row and whether it is new.

    An account that is there is left as it is, password and all. Raises `invalid` (address, weak password), `conflict`
    (the address belongs to somebody who is no super administrator).
    """
    address = checked_email(email)
    found = User.objects.filter(email=address).first()
    if found is not None:
        return _existing(found), False
    try:
        validate_password(password, User(email=address, name=name))
    except ValidationError as error:
        raise DomainError(
            "invalid",
            _("This password is not strong enough."),
            errors={"password": [str(message) for message in error.messages]},
            remedy=_("Choose another one, 12 characters or more."),
        ) from error
    hashed = make_password(password)
    with ordered():
        lock_name(Rank.LANE, "bootstrap")
        found = User.objects.filter(email=address).first()
        if found is not None:
            return _existing(found), False
        now = clock.now()
        user = User(email=address, name=name, password=hashed, is_super_admin=True, created_at=now)
        user.save(force_insert=True)
        audit.record(
            by=None,
            act="user.bootstrap",
            target_kind="user",
            target_id=user.pk,
            target_label=user.email,
            after={"email": user.email, "super_admin": True},
            at=now,
        )
    return user, True


def _existing(user: User) -> User:
    if not user.is_super_admin:
        raise DomainError(
            "conflict",
            _("This address belongs to somebody who is no super administrator."),
            remedy=_("Use another address for the first super administrator."),
        )
    return user
