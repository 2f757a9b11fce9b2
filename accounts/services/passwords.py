"""Passwords and sign-ins: changing one's own, resetting somebody's, signing out everywhere.

Guarantees: hashing (slow on purpose) happens outside the transaction, and the change compares-and-sets against the hash
it was checked with; every change ends all other sign-ins of the person. Refuses: weak passwords, the present one again,
an initial password past its time, resets by who does not outrank the person everywhere.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.passwords import initial_password
from accounts.domain.rights import Target
from accounts.models import User
from accounts.permissions import Act
from accounts.services.common import authorise, expires, held_people, person_seen_by, rights_changed
from gshare_core.errors import DomainError, invalid
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered

PASSWORD_MAX = 1024


def change_password(*, by: User, current: str, new: str) -> User:
    """Change one's own password; the row comes back, so that the caller can keep this browser signed in.

    Raises `invalid` (per field `current`, `new`), `forbidden` (the initial password has expired).
    """
    seen = User.objects.get(pk=by.pk)
    if not current or len(current) > PASSWORD_MAX or not seen.check_password(current):
        raise invalid("current", _("This is not the present password."))
    if is_expired(seen):
        raise DomainError(
            "forbidden",
            _("The initial password has expired."),
            remedy=_("Ask an administrator for a new one."),
        )
    _check_new(new, seen)
    hashed = make_password(new)
    with ordered():
        user = held_people(None, change=[by.pk]).users[by.pk]
        if user.password != seen.password or not user.is_active:
            raise DomainError("conflict", _("The password was changed meanwhile."), remedy=_("Sign in again."))
        user.password = hashed
        user.must_change_password = False
        user.initial_password_expires_at = None
        user.sign_in_epoch += 1
        user.save(update_fields=["password", "must_change_password", "initial_password_expires_at", "sign_in_epoch"])
        _record(user, by, "user.change_password", reason="")
        rights_changed(user.pk)
    return user


def reset_password(*, user_id: UUID, by: User | None, reason: str = "") -> str:
    """A new initial password for somebody who forgot his; answered once, never stored readable.

    Raises `not_found`, `forbidden`, `conflict` (the account is deactivated).
    """
    person_seen_by(by, user_id)
    password = initial_password()
    hashed = make_password(password)
    with ordered():
        people = held_people(by, change=[user_id])
        user, person = people.users[user_id], people.standings[user_id]
        authorise(people, by, Act.MANAGE_SIGN_IN, Target(organisation_id=person.home_id, person=person))
        if not user.is_active:
            raise DomainError("conflict", _("This account is deactivated."), remedy=_("Activate it first."))
        user.password = hashed
        user.must_change_password = True
        user.initial_password_expires_at = expires(clock.now())
        user.sign_in_epoch += 1
        user.save(update_fields=["password", "must_change_password", "initial_password_expires_at", "sign_in_epoch"])
        _record(user, by, "user.reset_password", reason=reason)
        rights_changed(user.pk)
    return password


def sign_out_everywhere(*, user_id: UUID, by: User) -> User:
    """End every sign-in of oneself, or of somebody one may reset. Raises `not_found`, `forbidden`."""
    person_seen_by(by, user_id)
    with ordered():
        people = held_people(by, change=[user_id])
        user, person = people.users[user_id], people.standings[user_id]
        if by.pk != user_id:
            authorise(people, by, Act.MANAGE_SIGN_IN, Target(organisation_id=person.home_id, person=person))
        user.sign_in_epoch += 1
        user.save(update_fields=["sign_in_epoch"])
        _record(user, by, "user.sign_out_everywhere", reason="")
        rights_changed(user.pk)
    return user


def is_expired(user: User) -> bool:
    """Is his initial password past its time?"""
    until = user.initial_password_expires_at
    return until is not None and until <= clock.now()


def _check_new(new: str, user: User) -> None:
    if len(new) > PASSWORD_MAX:
        raise invalid("new", _("At most %(most)s characters.") % {"most": PASSWORD_MAX})
    if user.check_password(new):
        raise invalid("new", _("Choose a password that you do not have already."))
    try:
        validate_password(new, user)
    except ValidationError as error:
        raise DomainError(
            "invalid",
            _("This password is not strong enough."),
            errors={"new": [str(message) for message in error.messages]},
            remedy=_("Choose another one, 12 characters or more."),
        ) from error


def _record(user: User, by: User | None, act: str, *, reason: str) -> None:
    audit.record(
        by=by,
        act=act,
        target_kind="user",
        target_id=user.pk,
        target_label=user.email,
        organisation_id=user.organisation_id,
        group_id=audit.group_of(user),
        reason=reason,
        at=clock.now(),
    )
