"""Seats: adding people to groups, making administrators, changing roles, taking seats away.

Guarantees: a role is given or taken only by who ranks above it there; a seat that is taken waits for whatever its holder
is creating at that moment, ends his rights at the commit, and leaves an intent that ends his sessions of the group.
Adding by e-mail address answers the same whether or not the address has an account. Refuses a second seat in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.rights import Target
from accounts.domain.roles import GROUP_ROLES, ORGANISATION_ROLES, Role
from accounts.models import DrainIntent, Membership, User
from accounts.notices import notify
from accounts.permissions import Act, visible_memberships
from accounts.services.common import (
    authorise,
    group_seen_by,
    held_people,
    in_language_of,
    organisation_seen_by,
    person_seen_by,
    rights_changed,
)
from accounts.services.drains import forget_drain, open_drain
from accounts.services.people import checked_email
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import attempt, ordered


@dataclass(frozen=True)
class Place:
    """A group or an organisation, as a seat's place."""

    organisation_id: UUID
    organisation_label: str
    group_id: UUID | None = None
    group_label: str = ""
    active: bool = True

    def target(self, role: Role) -> Target:
        return Target(organisation_id=self.organisation_id, group_id=self.group_id, role=role)

    @property
    def label(self) -> str:
        return self.group_label or self.organisation_label


def place_of(by: User | None, *, group_id: UUID | None = None, organisation_id: UUID | None = None) -> Place:
    """The place that a body names: exactly one of both. Raises `invalid`, `not_found`."""
    if (group_id is None) == (organisation_id is None):
        raise invalid("group", _("Name a group or an organisation, not both."))
    if group_id is not None:
        group = group_seen_by(by, group_id)
        active = group.is_active and group.organisation.is_active
        return Place(group.organisation_id, group.organisation.name, group.pk, group.name, active)
    assert organisation_id is not None
    organisation = organisation_seen_by(by, organisation_id)
    return Place(organisation.pk, organisation.name, active=organisation.is_active)


def add_membership(*, user_id: UUID, place: Place, role: Role, by: User | None) -> Membership:
    """Seat somebody whom the actor can see. Raises `not_found`, `forbidden`, `invalid`, `conflict` (he sits there)."""
    person_seen_by(by, user_id)
    _check_role(place, role)
    with ordered():
        people = held_people(by, relied=[user_id])
        authorise(people, by, Act.MANAGE_MEMBERSHIP, place.target(role))
        membership = _seat(people.users[user_id], place, role, by)
    if membership is None:
        raise DomainError(
            "conflict", _("This person has a seat there already."), remedy=_("Change the role of that seat.")
        )
    return membership


def add_membership_by_email(*, email: str, place: Place, role: Role, by: User | None) -> None:
    """Seat whoever has this address; nothing happens, and nothing is told, when nobody does or he sits there already.

    Raises `invalid`, `forbidden`: by the actor and the place alone.
    """
    address = checked_email(email)
    _check_role(place, role)
    _check_active(place.active)
    user_id = User.objects.filter(email=address).values_list("pk", flat=True).first()
    with ordered():
        people = held_people(by, relied=[user_id] if user_id else [])
        authorise(people, by, Act.MANAGE_MEMBERSHIP, place.target(role))
        if user_id is not None and people.users[user_id].is_active:
            _seat(people.users[user_id], place, role, by)


def change_role(*, membership_id: UUID, role: Role, by: User | None) -> Membership:
    """Give a seat another role; both must rank below the actor. Making somebody a guest ends what he runs there.

    Raises `not_found`, `forbidden`, `invalid`.
    """
    seen = _seen(by, membership_id)
    place = _place_of_seat(seen)
    _check_role(place, role)
    with ordered():
        people = held_people(by, relied=[seen.user_id], seats=[membership_id])
        membership = people.memberships.get(membership_id)
        if membership is None:
            raise not_found("membership")
        before = Role(membership.role)
        for changed in (before, role):
            authorise(people, by, Act.MANAGE_MEMBERSHIP, place.target(changed))
        if before is role:
            return membership
        membership.role = role
        membership.save(update_fields=["role"])
        user = people.users[membership.user_id]
        _drain_when_guest(user, place, before, role)
        _record(user, place, by, "membership.change_role", (before, role))
        _tell(
            user,
            lambda: _("Your role in %(place)s is now %(role)s.") % {"place": place.label, "role": role.value},
        )
        rights_changed(user.pk)
    return membership


def remove_membership(*, membership_id: UUID, by: User | None, reason: str = "") -> None:
    """Take a seat away. Waits for a create that relies on it; the sweep above then finds that session too.

    Raises `not_found`, `forbidden`.
    """
    seen = _seen(by, membership_id)
    place = _place_of_seat(seen)
    with ordered():
        people = held_people(by, relied=[seen.user_id], seats=[membership_id])
        membership = people.memberships.get(membership_id)
        if membership is None:
            raise not_found("membership")
        role = Role(membership.role)
        authorise(people, by, Act.MANAGE_MEMBERSHIP, place.target(role))
        user = people.users[membership.user_id]
        membership.delete()
        now = clock.now()
        if place.group_id is not None:
            open_drain(DrainIntent.Kind.MEMBERSHIP, user_id=user.pk, group_id=place.group_id, at=now)
        _record(user, place, by, "membership.remove", (role, None), reason)
        _tell(user, lambda: _("You are no longer a member of %(place)s.") % {"place": place.label})
        rights_changed(user.pk)


def _seat(user: User, place: Place, role: Role, by: User | None) -> Membership | None:
    """Insert the seat; None when he has one there (the unique key decides between two at once)."""
    _check_active(place.active and user.is_active)
    now = clock.now()
    seat = Membership(
        user=user,
        group_id=place.group_id,
        organisation_id=None if place.group_id else place.organisation_id,
        role=role,
        created_at=now,
    )
    try:
        with attempt():
            seat.save(force_insert=True)
    except IntegrityError:
        return None
    if place.group_id is not None:
        forget_drain(DrainIntent.Kind.MEMBERSHIP, user_id=user.pk, group_id=place.group_id, at=now)
    _record(user, place, by, "membership.add", (None, role))
    _tell(user, lambda: _("You are now %(role)s in %(place)s.") % {"place": place.label, "role": role.value})
    rights_changed(user.pk)
    return seat


def _drain_when_guest(user: User, place: Place, before: Role, after: Role) -> None:
    """A guest has nothing that runs: becoming one ends it, as leaving does; becoming a member again lets it be."""
    if place.group_id is None or (before is not Role.GUEST and after is not Role.GUEST):
        return
    change = open_drain if after is Role.GUEST else forget_drain
    change(DrainIntent.Kind.MEMBERSHIP, user_id=user.pk, group_id=place.group_id, at=clock.now())


def _check_active(active: bool) -> None:
    if not active:
        raise DomainError("conflict", _("This place or this person is deactivated."), remedy=_("Activate it first."))


def _check_role(place: Place, role: Role) -> None:
    if place.group_id is not None and role not in GROUP_ROLES:
        raise invalid("role", _("In a group somebody is guest, member or group_admin."))
    if place.group_id is None and role not in ORGANISATION_ROLES:
        raise invalid("role", _("In an organisation somebody is org_admin; members belong to its groups."))


def _seen(by: User | None, membership_id: UUID) -> Membership:
    rows = Membership.objects.all() if by is None else visible_memberships(by)
    seen = rows.select_related("group__organisation", "organisation").filter(pk=membership_id).first()
    if seen is None:
        raise not_found("membership")
    return seen


def _place_of_seat(seat: Membership) -> Place:
    if seat.group is not None:
        organisation = seat.group.organisation
        return Place(organisation.pk, organisation.name, seat.group.pk, seat.group.name)
    assert seat.organisation is not None
    return Place(seat.organisation.pk, seat.organisation.name)


def _record(
    user: User, place: Place, by: User | None, act: str, roles: tuple[Role | None, Role | None], reason: str = ""
) -> None:
    before, after = roles
    audit.record(
        by=by,
        act=act,
        target_kind="user",
        target_id=user.pk,
        target_label=user.email,
        organisation_id=place.organisation_id,
        group_id=place.group_id,
        before={"role": before.value} if before else None,
        after={"role": after.value} if after else None,
        reason=reason,
        at=clock.now(),
    )


def _tell(user: User, text: Callable[[], str]) -> None:
    with in_language_of(user):
        notify(user_id=user.pk, kind="membership", title=text(), body="", at=clock.now())
