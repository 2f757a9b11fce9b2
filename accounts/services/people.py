"""People: registering, names and addresses, homes, deactivation, preferences.

Guarantees: a new person gets an initial password that is shown once, works for `GSHARE_INITIAL_PASSWORD_TTL` and must be
changed; deactivation ends his sign-ins in the same transaction and leaves an intent that ends his sessions. Refuses: a
second account for an address, acts of who does not outrank the person everywhere, ending the last super administrator.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.addresses import is_plain, normalise_email
from accounts.domain.passwords import initial_password
from accounts.domain.rights import Target
from accounts.domain.roles import GROUP_ROLES, Role
from accounts.models import EMAIL_LENGTH, DrainIntent, Group, Membership, Theme, User
from accounts.permissions import Act
from accounts.services.common import (
    authorise,
    checked_name,
    expires,
    group_seen_by,
    held_people,
    organisation_seen_by,
    person_seen_by,
    rights_changed,
)
from accounts.services.drains import forget_drain, open_drain
from accounts.standings import People
from gshare_core.errors import DomainError, invalid
from gshare_core.kit import clock
from gshare_core.kit.locks import attempt, ordered


@dataclass(frozen=True)
class Registered:
    """A new person and the password that is shown this once."""

    user: User
    initial_password: str
    membership: Membership | None = None


def register_user(
    *,
    email: str,
    name: str,
    by: User | None,
    organisation_id: UUID | None = None,
    group_id: UUID | None = None,
    role: Role = Role.MEMBER,
) -> Registered:
    """A new person, at home in the organisation (the group's, when none is given), and seated in the group if one is.

    Raises `invalid`, `not_found`, `forbidden`, `conflict` (the address has an account).
    """
    prepared = prepare_registration(
        email=email, name=name, by=by, organisation_id=organisation_id, group_id=group_id, role=role
    )
    with ordered():
        return insert_registration(prepared, by=by, people=held_people(by))


@dataclass(frozen=True)
class Registration:
    """Somebody new who may be inserted: checked, with his password hashed, which takes long, outside of any transaction."""

    email: str
    name: str
    home_id: UUID
    group: Group | None
    role: Role
    password: str
    hashed: str


def prepare_registration(
    *, email: str, name: str, by: User | None, organisation_id: UUID | None, group_id: UUID | None, role: Role
) -> Registration:
    """Raises `invalid`, `not_found`, `conflict` (a place that is deactivated)."""
    address, called = checked_email(email), checked_name(name)
    group = group_seen_by(by, group_id) if group_id else None
    home_id = _open_home(by, organisation_id, group, role)
    password = initial_password()
    return Registration(address, called, home_id, group, role, password, make_password(password))


def insert_registration(prepared: Registration, *, by: User | None, people: People) -> Registered:
    """In the open transaction, on people that are held. Raises `forbidden`, `conflict` (the address has an account)."""
    group, role, home_id = prepared.group, prepared.role, prepared.home_id
    if group is None or group.organisation_id != home_id:
        authorise(people, by, Act.REGISTER_USER, Target(organisation_id=home_id))
    if group is not None:
        place = Target(organisation_id=group.organisation_id, group_id=group.pk, role=role)
        authorise(people, by, Act.REGISTER_USER, place)
    now = clock.now()
    user = _new_user(
        User(
            email=prepared.email,
            name=prepared.name,
            password=prepared.hashed,
            organisation_id=home_id,
            must_change_password=True,
            initial_password_expires_at=expires(now),
            created_at=now,
        )
    )
    membership = _seated(user, group, role)
    audit.record(
        by=by,
        act="user.register",
        target_kind="user",
        target_id=user.pk,
        target_label=user.email,
        organisation_id=home_id,
        group_id=group.pk if group else None,
        after={"email": user.email, "name": user.name, "role": role.value if group else None},
        at=now,
    )
    return Registered(user, prepared.password, membership)


def _open_home(by: User | None, organisation_id: UUID | None, group: Group | None, role: Role) -> UUID:
    """The organisation in which somebody new is at home; it and the group must be active."""
    if role not in GROUP_ROLES:
        raise invalid("role", _("In a group somebody is guest, member or group_admin."))
    home_id = organisation_id or (group.organisation_id if group else None)
    if home_id is None:
        raise invalid("organisation", _("Say in which organisation this person is at home."))
    home = organisation_seen_by(by, home_id)
    if not home.is_active or (group is not None and not (group.is_active and group.organisation.is_active)):
        raise DomainError("conflict", _("This place is deactivated."), remedy=_("Activate it first."))
    return home_id


def _seated(user: User, group: Group | None, role: Role) -> Membership | None:
    if group is None:
        return None
    return Membership.objects.create(user=user, group=group, role=role, created_at=user.created_at)


def _new_user(user: User) -> User:
    """Insert, leaving it to the unique key which of two equal registrations is the first."""
    try:
        with attempt():
            user.save(force_insert=True)
    except IntegrityError as error:
        raise _address_taken() from error
    return user


def _address_taken() -> DomainError:
    return DomainError(
        "conflict",
        _("This e-mail address has an account already."),
        errors={"email": [_("This e-mail address has an account already.")]},
        remedy=_("Add the person to the group by this address instead."),
    )


def checked_email(text: str) -> str:
    """The address in its stored form. Raises `invalid`."""
    email = normalise_email(text)
    try:
        EmailValidator()(email)
    except ValidationError as error:
        raise invalid("email", _("This is no e-mail address.")) from error
    if not is_plain(email) or len(email) > EMAIL_LENGTH:
        raise invalid("email", _("Use an e-mail address of plain letters, at most 254 characters."))
    return email


def change_email(*, user_id: UUID, email: str, by: User | None) -> User:
    """Give somebody another address to sign in with. Raises `invalid`, `not_found`, `forbidden`, `conflict`."""
    address = checked_email(email)
    person_seen_by(by, user_id)
    with ordered():
        people = held_people(by, change=[user_id])
        user = _governed(people, user_id, by, Act.MANAGE_SIGN_IN)
        if user.email == address:
            return user
        before, user.email = user.email, address
        try:
            with attempt():
                user.save(update_fields=["email"])
        except IntegrityError as error:
            raise _address_taken() from error
        _record(user, by, "user.change_email", before={"email": before}, after={"email": address})
    return user


def rename_user(*, user_id: UUID, name: str, by: User | None) -> User:
    """Correct somebody's name. Raises `invalid`, `not_found`, `forbidden`."""
    called = checked_name(name)
    person_seen_by(by, user_id)
    with ordered():
        people = held_people(by, change=[user_id])
        user = _governed(people, user_id, by, Act.MANAGE_SIGN_IN)
        if user.name == called:
            return user
        before, user.name = user.name, called
        user.save(update_fields=["name"])
        _record(user, by, "user.rename", before={"name": before}, after={"name": called})
    return user


def deactivate_user(*, user_id: UUID, by: User | None, reason: str = "") -> User:
    """End somebody's access: sign-ins at once, sessions by the sweep that drains the intent.

    Raises `not_found`, `forbidden`, `conflict` (the last active super administrator).
    """
    person_seen_by(by, user_id)
    with ordered():
        people = held_people(by, change=[user_id, *other_super_admins(user_id)])
        user = _governed(people, user_id, by, Act.DEACTIVATE_USER)
        if not user.is_active:
            return user
        _keep_one_super_admin(people, user)
        now = clock.now()
        user.is_active = False
        user.sign_in_epoch += 1
        user.save(update_fields=["is_active", "sign_in_epoch"])
        open_drain(DrainIntent.Kind.USER, user_id=user.pk, at=now)
        _record(user, by, "user.deactivate", before={"active": True}, after={"active": False}, reason=reason)
        rights_changed(user.pk)
    return user


def reactivate_user(*, user_id: UUID, by: User | None) -> User:
    """Let somebody in again, with the password he had. Raises `not_found`, `forbidden`."""
    person_seen_by(by, user_id)
    with ordered():
        people = held_people(by, change=[user_id])
        user = _governed(people, user_id, by, Act.DEACTIVATE_USER)
        if user.is_active:
            return user
        user.is_active = True
        user.save(update_fields=["is_active"])
        forget_drain(DrainIntent.Kind.USER, user_id=user.pk, at=clock.now())
        _record(user, by, "user.reactivate", before={"active": False}, after={"active": True})
    return user


def move_home(*, user_id: UUID, organisation_id: UUID, by: User | None) -> User:
    """Change somebody's home organisation. Raises `not_found`, `forbidden`."""
    person_seen_by(by, user_id)
    home = organisation_seen_by(by, organisation_id)
    with ordered():
        people = held_people(by, change=[user_id])
        user = _governed(people, user_id, by, Act.MOVE_HOME)
        if user.organisation_id == home.pk:
            return user
        before, user.organisation = user.organisation_id, home
        user.save(update_fields=["organisation"])
        _record(user, by, "user.move_home", before={"organisation": str(before)}, after={"organisation": str(home.pk)})
    return user


def set_super_admin(*, user_id: UUID, value: bool, by: User | None) -> User:
    """Make somebody a super administrator, or an ordinary person again.

    Raises `not_found`, `forbidden` (one's own), `conflict` (the last one; somebody without a home organisation).
    """
    person_seen_by(by, user_id)
    with ordered():
        people = held_people(by, change=[user_id, *other_super_admins(user_id)])
        user = _governed(people, user_id, by, Act.GRANT_SUPER_ADMIN)
        if user.is_super_admin == value:
            return user
        if not value:
            _keep_one_super_admin(people, user)
            if user.organisation_id is None:
                raise DomainError("conflict", _("This person has no home organisation."), remedy=_("Give one first."))
        user.is_super_admin = value
        user.save(update_fields=["is_super_admin"])
        _record(user, by, "user.super_admin", before={"super_admin": not value}, after={"super_admin": value})
        rights_changed(user.pk)
    return user


def set_preferences(*, by: User, language: str, time_zone: str, theme: str) -> User:
    """One's own language and time zone (empty: as the browser says), and theme. Raises `invalid`."""
    if language and language not in dict(settings.LANGUAGES):
        raise invalid("language", _("This language is not available."))
    if time_zone and time_zone not in available_timezones():
        raise invalid("time_zone", _("This is no time zone of the IANA database."))
    if theme not in Theme.values:
        raise invalid("theme", _("Choose system, light or dark."))
    with ordered():
        user = held_people(None, change=[by.pk]).users[by.pk]
        user.language, user.time_zone, user.theme = language, time_zone, theme
        user.save(update_fields=["language", "time_zone", "theme"])
    return user


def _governed(people: People, user_id: UUID, by: User | None, act: Act) -> User:
    """The held row, once the actor's right to it is clear."""
    person = people.standings[user_id]
    authorise(people, by, act, Target(organisation_id=person.home_id, person=person))
    return people.users[user_id]


def other_super_admins(user_id: UUID) -> list[UUID]:
    """Held too when one super administrator ends, so that two who end each other do not both succeed."""
    if not User.objects.filter(pk=user_id, is_super_admin=True).exists():
        return []
    return list(User.objects.filter(is_super_admin=True).exclude(pk=user_id).values_list("pk", flat=True))


def _keep_one_super_admin(people: People, user: User) -> None:
    if not user.is_super_admin:
        return
    others = [other for other in people.users.values() if other.is_super_admin and other.is_active]
    if all(other.pk == user.pk for other in others):
        raise DomainError(
            "conflict",
            _("This is the last super administrator."),
            remedy=_("Make somebody else super administrator first."),
        )


def _record(
    user: User,
    by: User | None,
    act: str,
    *,
    before: dict[str, object],
    after: dict[str, object],
    reason: str = "",
) -> None:
    audit.record(
        by=by,
        act=act,
        target_kind="user",
        target_id=user.pk,
        target_label=user.email,
        organisation_id=user.organisation_id,
        group_id=audit.group_of(user),
        before=before,
        after=after,
        reason=reason,
        at=clock.now(),
    )
