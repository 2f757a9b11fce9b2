"""From rows to the frozen facts that rights are decided on, unlocked or held still until the transaction's end.

Guarantees: `locked` holds the people and their memberships in the order of ids, `FOR SHARE` where an act only relies on
them and `FOR NO KEY UPDATE` where it changes them, so that of two administrators who remove each other one comes second
and sees that he lost his right. What vanished while it waited is gone from the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from accounts.domain.rights import Seat, Standing, Target
from accounts.domain.roles import Role
from accounts.models import Group, Membership, Organisation, User
from gshare_core.errors import not_found
from gshare_core.kit import locks

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class People:
    """Rows that are held still, and the standings that follow from them."""

    users: dict[UUID, User]
    memberships: dict[UUID, Membership]
    standings: dict[UUID, Standing]


def standing_of(user_id: UUID) -> Standing:
    """One person's standing, unlocked; somebody unknown has no rights. One statement."""
    rows = list(
        User.objects.filter(pk=user_id).values_list(
            "is_active",
            "is_super_admin",
            "organisation_id",
            "memberships__role",
            "memberships__group_id",
            "memberships__organisation_id",
            "memberships__group__organisation_id",
        )
    )
    if not rows:
        return Standing(user_id, active=False)
    active, super_admin, home_id = rows[0][:3]
    seats = tuple(
        Seat(Role(role), organisation_id or of_group, group_id)
        for _, _, _, role, group_id, organisation_id, of_group in rows
        if role is not None
    )
    return Standing(user_id, active=active, super_admin=super_admin, home_id=home_id, seats=seats)


def target_of_group(group_id: UUID, *, person_id: UUID | None = None, role: Role | None = None) -> Target:
    """A group as a target; with the person whose thing in it is meant. Raises `not_found`."""
    organisation_id = Group.objects.filter(pk=group_id).values_list("organisation_id", flat=True).first()
    if organisation_id is None:
        raise not_found("group")
    person = standing_of(person_id) if person_id is not None else None
    return Target(organisation_id=organisation_id, group_id=group_id, person=person, role=role)


def target_of_organisation(organisation_id: UUID) -> Target:
    """An organisation as a target. Raises `not_found`."""
    if not Organisation.objects.filter(pk=organisation_id).exists():
        raise not_found("organisation")
    return Target(organisation_id=organisation_id)


def target_of_person(user_id: UUID) -> Target:
    """A person as such, with his home, as a target."""
    person = standing_of(user_id)
    return Target(organisation_id=person.home_id, person=person)


def locked(*, share: Iterable[UUID | None] = (), change: Iterable[UUID] = (), seats: Iterable[UUID] = ()) -> People:
    """Hold people and all their memberships still.

    `share`: people whose rights are relied on; `change`: people whose row changes; `seats`: memberships that change.
    Inside `locks.ordered()`, before any other lock.
    """
    changing, sharing = set(change), {user_id for user_id in share if user_id is not None}
    users = _held(locks.Rank.REQUESTER, User.objects.all(), changing | sharing, changing)
    changing_seats = set(seats)
    known = set(Membership.objects.filter(user_id__in=users).values_list("pk", flat=True)) | changing_seats
    memberships = _held(locks.Rank.MEMBERSHIP, Membership.objects.all(), known, changing_seats)
    by_person = _seats_of(users)
    standings = {user_id: _standing(user, by_person.get(user_id, ())) for user_id, user in users.items()}
    return People(users, memberships, standings)


def _held(rank: locks.Rank, rows: QuerySet[M], wanted: set[UUID], changing: set[UUID]) -> dict[UUID, M]:
    """Lock the wanted rows in the order of their ids, runs of the same kind of lock in one statement each."""
    held: dict[UUID, M] = {}
    for changes, ids in groupby(sorted(wanted, key=str), key=lambda pk: pk in changing):
        lock = locks.lock_rows if changes else locks.share_rows
        held.update((row.pk, row) for row in lock(rank, rows.filter(pk__in=list(ids))))
    return held


def _seats_of(user_ids: Iterable[UUID]) -> dict[UUID, tuple[Seat, ...]]:
    rows = Membership.objects.filter(user_id__in=list(user_ids)).values_list(
        "user_id", "role", "group_id", "organisation_id", "group__organisation_id"
    )
    found: dict[UUID, tuple[Seat, ...]] = {}
    for user_id, role, group_id, organisation_id, groups_organisation_id in rows:
        seat = Seat(Role(role), organisation_id or groups_organisation_id, group_id)
        found[user_id] = (*found.get(user_id, ()), seat)
    return found


def _standing(user: User, seats: tuple[Seat, ...]) -> Standing:
    return Standing(
        user_id=user.pk,
        active=user.is_active,
        super_admin=user.is_super_admin,
        home_id=user.organisation_id,
        seats=seats,
    )
