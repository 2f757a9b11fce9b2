"""Organisations and groups: making, naming, switching off and on.

Guarantees: nothing is deleted; a place that is switched off takes nobody in from the commit on and leaves an intent that
ends its sessions. Refuses two places of one name side by side.
"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.rights import EVERYTHING, Target
from accounts.models import DrainIntent, Group, Organisation, User
from accounts.permissions import Act
from accounts.services.common import authorise, checked_name, group_seen_by, held_people, organisation_seen_by
from accounts.services.drains import forget_drain, open_drain
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, attempt, lock_name, ordered


def create_organisation(*, name: str, by: User | None) -> Organisation:
    """A new organisation. Raises `invalid`, `forbidden`, `conflict` (the name is taken)."""
    called = checked_name(name)
    with ordered():
        authorise(held_people(by), by, Act.MANAGE_ORGANISATION, EVERYTHING)
        organisation = Organisation(name=called, created_at=clock.now())
        _save_named(organisation)
        _record(organisation, by, "organisation.create", after={"name": called})
    return organisation


def rename_organisation(*, organisation_id: UUID, name: str, by: User | None) -> Organisation:
    """Raises `invalid`, `not_found`, `forbidden`, `conflict` (the name is taken)."""
    called = checked_name(name)
    organisation_seen_by(by, organisation_id)
    with ordered():
        people = held_people(by)
        authorise(people, by, Act.MANAGE_ORGANISATION, Target(organisation_id=organisation_id))
        organisation = _held_organisation(organisation_id)
        if organisation.name == called:
            return organisation
        before, organisation.name = organisation.name, called
        _save_named(organisation, fields=["name"])
        _record(organisation, by, "organisation.rename", before={"name": before}, after={"name": called})
    return organisation


def set_organisation_active(*, organisation_id: UUID, active: bool, by: User | None, reason: str = "") -> Organisation:
    """Switch an organisation off, which ends the sessions of its groups, or on again. Raises `not_found`, `forbidden`."""
    organisation_seen_by(by, organisation_id)
    with ordered():
        people = held_people(by)
        authorise(people, by, Act.MANAGE_ORGANISATION, Target(organisation_id=organisation_id))
        organisation = _held_organisation(organisation_id)
        if organisation.is_active == active:
            return organisation
        organisation.is_active = active
        organisation.save(update_fields=["is_active"])
        change = forget_drain if active else open_drain
        change(DrainIntent.Kind.ORGANISATION, organisation_id=organisation.pk, at=clock.now())
        act = "organisation.activate" if active else "organisation.deactivate"
        _record(organisation, by, act, before={"active": not active}, after={"active": active}, reason=reason)
    return organisation


def create_group(*, organisation_id: UUID, name: str, by: User | None) -> Group:
    """A new group of an organisation. Raises `invalid`, `not_found`, `forbidden`, `conflict`."""
    called = checked_name(name)
    organisation_seen_by(by, organisation_id)
    with ordered():
        authorise(held_people(by), by, Act.MANAGE_GROUP, Target(organisation_id=organisation_id))
        organisation = _held_organisation(organisation_id)
        if not organisation.is_active:
            raise DomainError("conflict", _("This organisation is deactivated."), remedy=_("Activate it first."))
        group = Group(organisation=organisation, name=called, created_at=clock.now())
        _save_named(group)
        _record(group, by, "group.create", after={"name": called})
    return group


def rename_group(*, group_id: UUID, name: str, by: User | None) -> Group:
    """Raises `invalid`, `not_found`, `forbidden`, `conflict` (the name is taken)."""
    called = checked_name(name)
    seen = group_seen_by(by, group_id)
    with ordered():
        people = held_people(by)
        authorise(people, by, Act.MANAGE_GROUP, Target(organisation_id=seen.organisation_id))
        group = _held_group(group_id)
        if group.name == called:
            return group
        before, group.name = group.name, called
        _save_named(group, fields=["name"])
        _record(group, by, "group.rename", before={"name": before}, after={"name": called})
    return group


def set_group_active(*, group_id: UUID, active: bool, by: User | None, reason: str = "") -> Group:
    """Switch a group off, which ends its sessions, or on again. Raises `not_found`, `forbidden`."""
    seen = group_seen_by(by, group_id)
    with ordered():
        people = held_people(by)
        authorise(people, by, Act.MANAGE_GROUP, Target(organisation_id=seen.organisation_id))
        group = _held_group(group_id)
        if group.is_active == active:
            return group
        group.is_active = active
        group.save(update_fields=["is_active"])
        change = forget_drain if active else open_drain
        change(DrainIntent.Kind.GROUP, group_id=group.pk, at=clock.now())
        act = "group.activate" if active else "group.deactivate"
        _record(group, by, act, before={"active": not active}, after={"active": active}, reason=reason)
    return group


# Places have no rank of their own in the order of locks: who changes one holds its name, where lanes are held.
def _held_organisation(organisation_id: UUID) -> Organisation:
    lock_name(Rank.LANE, f"organisation:{organisation_id}")
    return Organisation.objects.get(pk=organisation_id)


def _held_group(group_id: UUID) -> Group:
    lock_name(Rank.LANE, f"group:{group_id}")
    return Group.objects.get(pk=group_id)


def _save_named(place: Organisation | Group, *, fields: list[str] | None = None) -> None:
    try:
        with attempt():
            place.save(update_fields=fields, force_insert=fields is None)
    except IntegrityError as error:
        raise DomainError(
            "conflict",
            _("This name is taken."),
            errors={"name": [_("This name is taken.")]},
            remedy=_("Choose another name."),
        ) from error


def _record(
    place: Organisation | Group,
    by: User | None,
    act: str,
    *,
    after: dict[str, object],
    before: dict[str, object] | None = None,
    reason: str = "",
) -> None:
    is_group = isinstance(place, Group)
    audit.record(
        by=by,
        act=act,
        target_kind="group" if is_group else "organisation",
        target_id=place.pk,
        target_label=place.name,
        organisation_id=place.organisation_id if isinstance(place, Group) else place.pk,
        group_id=place.pk if is_group else None,
        before=before,
        after=after,
        reason=reason,
        at=clock.now(),
    )
