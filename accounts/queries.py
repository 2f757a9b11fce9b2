"""Nouns about people and their limits, for this room and those above. Nothing here locks or changes anything.

Guarantees: answers are frozen values, not rows; each is a constant number of statements (`requester_facts` exactly one).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, IntegerField, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from accounts import permissions
from accounts.domain import policies
from accounts.domain.policies import FIELDS, Effective, Kind, Limit, Person, Scope, ScopeKind, Value
from accounts.domain.rights import RequesterFacts, Seat, Standing
from accounts.domain.roles import Role
from accounts.models import DrainIntent, Group, Membership, Notification, Organisation, Policy, PolicyValue, User
from gshare_core.kit.remembered import remembered
from gshare_core.kit.rows import prepared

__all__ = [
    "FIELDS",
    "Effective",
    "Frame",
    "Limit",
    "OpenDrain",
    "RequesterFacts",
    "SeatRow",
    "drain_is_open",
    "effective",
    "effective_of",
    "field_fingerprint",
    "frame_of",
    "limits",
    "limits_and_effective_of",
    "may_see_limits",
    "open_drains",
    "policy_values",
    "requester_facts",
    "requesters_facts",
    "seats_of",
    "values_of",
]


#: Written out, because every request to a running session asks it: building it from models costs more than answering it.
#: `OFFSET 0` has PostgreSQL look each row up by its key: it takes lists to be long, and would read whole tables for one.
_REQUESTER = f"""
    SELECT person.id, grp.id, grp.name, grp.organisation_id, place.name, grp.is_active AND place.is_active,
        seat.role, person.is_active, person.sign_in_epoch
    FROM unnest((SELECT %s::uuid[]), (SELECT %s::uuid[])) AS asked (person, grp)
    CROSS JOIN LATERAL (SELECT * FROM {Group._meta.db_table} WHERE id = asked.grp OFFSET 0) grp
    CROSS JOIN LATERAL (SELECT * FROM {Organisation._meta.db_table} WHERE id = grp.organisation_id OFFSET 0) place
    CROSS JOIN LATERAL (SELECT * FROM {User._meta.db_table} WHERE id = asked.person OFFSET 0) person
    LEFT JOIN LATERAL (
        SELECT role FROM {Membership._meta.db_table} WHERE user_id = asked.person AND group_id = asked.grp OFFSET 0
    ) seat ON true
"""  # noqa: S608 -- the names are the models' own


def requester_facts(user_id: UUID, group_id: UUID) -> RequesterFacts | None:
    """A person in a group, unlocked; None when there is no such person or group. One statement."""
    return requesters_facts([(user_id, group_id)]).get((user_id, group_id))


def requesters_facts(pairs: Collection[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], RequesterFacts]:
    """The same for several (person, group); those that there are. One statement."""
    with prepared() as cursor:
        cursor.execute(_REQUESTER, [[user for user, _group in pairs], [group for _user, group in pairs]])
        rows = cursor.fetchall()
    return {
        (user, group): RequesterFacts(
            user_id=user,
            active=active,
            sign_in_epoch=epoch,
            group_id=group,
            group_name=group_name,
            organisation_id=organisation,
            organisation_name=organisation_name,
            group_active=group_active,
            role=Role(role) if role else None,
        )
        for user, group, group_name, organisation, organisation_name, group_active, role, active, epoch in rows
    }


@dataclass(frozen=True, slots=True)
class SeatRow:
    """One of a person's seats, with names."""

    role: Role
    group_id: UUID | None
    group_name: str
    organisation_id: UUID
    organisation_name: str
    active: bool


def seats_of(user: User) -> list[SeatRow]:
    """A person's seats in groups, by name; those of deactivated groups are marked."""
    rows = (
        Membership.objects.filter(user=user, group__isnull=False)
        .select_related("group__organisation")
        .order_by("group__name", "pk")
    )
    return [
        SeatRow(
            role=Role(row.role),
            group_id=row.group_id,
            group_name=row.group.name,
            organisation_id=row.group.organisation_id,
            organisation_name=row.group.organisation.name,
            active=row.group.is_active and row.group.organisation.is_active,
        )
        for row in rows
        if row.group is not None
    ]


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page says of who looks at it: his seats in groups, his rights, and how many notices are unread."""

    standing: Standing
    seats: tuple[SeatRow, ...]
    unread: int


_FRAME = {
    "active": "is_active",
    "super_admin": "is_super_admin",
    "home": "organisation_id",
    "role": "memberships__role",
    "group": "memberships__group_id",
    "group_name": "memberships__group__name",
    "group_active": "memberships__group__is_active",
    "organisation": "memberships__organisation_id",
    "of_group": "memberships__group__organisation_id",
    "of_group_name": "memberships__group__organisation__name",
    "of_group_active": "memberships__group__organisation__is_active",
}


def frame_of(user: User, request: HttpRequest) -> Frame:
    """The same page asks once. One statement."""
    return remembered(request, "frame", lambda: _frame(user.pk))


def _frame(user_id: UUID) -> Frame:
    unread = Notification.objects.filter(user=OuterRef("pk"), read_at=None).order_by().values("user")
    rows = list(
        User.objects.filter(pk=user_id)
        .annotate(unread=Coalesce(Subquery(unread.values(n=Count("pk"))), 0, output_field=IntegerField()))
        .order_by("memberships__group__name", "memberships__pk")
        .values(*_FRAME.values(), "unread")
    )
    if not rows:
        return Frame(Standing(user_id, active=False), (), 0)
    seated = [{name: row[column] for name, column in _FRAME.items()} for row in rows]
    return Frame(
        standing=Standing(
            user_id,
            active=seated[0]["active"],
            super_admin=seated[0]["super_admin"],
            home_id=seated[0]["home"],
            seats=tuple(
                Seat(Role(row["role"]), row["organisation"] or row["of_group"], row["group"])
                for row in seated
                if row["role"] is not None
            ),
        ),
        seats=tuple(
            SeatRow(
                role=Role(row["role"]),
                group_id=row["group"],
                group_name=row["group_name"],
                organisation_id=row["of_group"],
                organisation_name=row["of_group_name"],
                active=row["group_active"] and row["of_group_active"],
            )
            for row in seated
            if row["group"] is not None
        ),
        unread=rows[0]["unread"],
    )


def limits(user_id: UUID, group_id: UUID | None, *, organisation_id: UUID | None = None) -> list[Limit]:
    """Every bound on a person's use in a group: per-user values in force, then totals of group and organisation.

    Without a group (personal volumes): in his home organisation. Two statements, one where that organisation, or the
    group's, is known.
    """
    person = _person(user_id, group_id, organisation_id)
    return policies.limits(person, values_of(person.scopes))


def effective(user_id: UUID, group_id: UUID | None) -> dict[str, Effective]:
    """Every field's per-user value for a person in a group, with the scope that supplied it. Two statements."""
    person = _person(user_id, group_id)
    return policies.resolve(person.scopes, values_of(person.scopes))


def effective_of(
    people: Iterable[tuple[UUID, UUID]], fields: Collection[str] = tuple(FIELDS)
) -> dict[tuple[UUID, UUID], dict[str, Effective]]:
    """The same for many (person, group), all fields or those that are needed; two statements whatever their number."""
    wanted = set(people)
    homes = dict(Group.objects.filter(pk__in={group for _user, group in wanted}).values_list("pk", "organisation_id"))
    persons = {(user, group): Person(user, group, homes.get(group)) for user, group in wanted}
    values = _by_scope({scope for person in persons.values() for scope in person.scopes})
    return {
        key: policies.resolve(
            person.scopes, (value for scope in person.scopes for value in values.get(scope, ())), fields
        )
        for key, person in persons.items()
    }


def limits_and_effective(
    user_id: UUID, group_id: UUID | None, *, organisation_id: UUID | None = None
) -> tuple[list[Limit], dict[str, Effective]]:
    """Both of the above for who needs both. Two statements, one where the group's organisation is known."""
    person = _person(user_id, group_id, organisation_id)
    values = values_of(person.scopes)
    return policies.limits(person, values), policies.resolve(person.scopes, values)


def limits_and_effective_of(
    people: Collection[tuple[UUID, UUID, UUID]],
) -> dict[tuple[UUID, UUID], tuple[list[Limit], dict[str, Effective]]]:
    """The same for several (person, group, the group's organisation), by person and group. One statement."""
    persons = {(user, group): Person(user, group, organisation) for user, group, organisation in people}
    values = _by_scope({scope for person in persons.values() for scope in person.scopes})
    own = {key: [v for scope in person.scopes for v in values.get(scope, ())] for key, person in persons.items()}
    return {
        key: (policies.limits(person, own[key]), policies.resolve(person.scopes, own[key]))
        for key, person in persons.items()
    }


def _by_scope(scopes: Collection[Scope]) -> dict[Scope, list[Value]]:
    found: dict[Scope, list[Value]] = {}
    for value in values_of(scopes):
        found.setdefault(value.scope, []).append(value)
    return found


def field_fingerprint(field: str) -> str:
    """Changes whenever somebody sets or unsets this field anywhere."""
    rows = PolicyValue.objects.filter(field=field).order_by("pk").values_list("pk", "value")
    return hashlib.sha256(repr(list(rows)).encode()).hexdigest()[:16]


def policy_values(policy: Policy) -> dict[str, dict[str, int]]:
    """The numbers that one policy sets: `{"per_user": {…}, "totals": {…}}`."""
    found: dict[str, dict[str, int]] = {"per_user": {}, "totals": {}}
    for row in policy.values.all():
        found["per_user" if row.kind == Kind.PER_USER else "totals"][row.field] = row.value
    return found


#: Written out like the requester: every admission asks it.
_VALUES = f"""
    SELECT policy.scope_kind, policy.organisation_id, policy.group_id, policy.user_id, value.kind, value.field, value.value
    FROM {PolicyValue._meta.db_table} value JOIN {Policy._meta.db_table} policy ON policy.id = value.policy_id
    WHERE (%s AND policy.scope_kind = '{ScopeKind.GLOBAL}') OR policy.organisation_id = ANY(%s::uuid[])
        OR policy.group_id = ANY(%s::uuid[]) OR policy.user_id = ANY(%s::uuid[])
"""  # noqa: S608 -- the names are the models' own


def values_of(scopes: Iterable[Scope]) -> list[Value]:
    """Every number that these scopes set. One statement."""
    asked: dict[ScopeKind, set[UUID | None]] = {kind: set() for kind in ScopeKind}
    for scope in scopes:
        asked[scope.kind].add(scope.id)
    places = (asked[kind] for kind in (ScopeKind.ORGANISATION, ScopeKind.GROUP, ScopeKind.USER))
    with prepared() as cursor:
        cursor.execute(_VALUES, [bool(asked[ScopeKind.GLOBAL]), *(list(ids) for ids in places)])
        return [
            Value(Scope(ScopeKind(level), organisation or group or user), Kind(kind), field, value)
            for level, organisation, group, user, kind, field, value in cursor.fetchall()
        ]


def may_see_limits(by: User, *, user_id: UUID, group_id: UUID | None) -> bool:
    """May he read this person's limits in this group? His own always, where he has a seat; others' as administrator."""
    if by.pk == user_id:
        return group_id is None or permissions.visible_groups(by).filter(pk=group_id).exists()
    if not permissions.visible_users(by).filter(pk=user_id).exists():
        return False
    return group_id is None or permissions.administered_groups(by).filter(pk=group_id).exists()


@dataclass(frozen=True, slots=True)
class OpenDrain:
    """Something that was taken away and must still be ended above. `kind`: user, membership, group, organisation."""

    id: UUID
    kind: str
    user_id: UUID | None
    group_id: UUID | None
    organisation_id: UUID | None
    reason: str
    changed_at: datetime


def drain_is_open(intent_id: UUID) -> bool:
    """Whether it is still to be drained: what was given back meanwhile is not."""
    return DrainIntent.objects.filter(pk=intent_id, closed_at=None).exists()


def open_drains() -> list[OpenDrain]:
    """What still has to be drained, oldest first. `services.close_drain` closes one that a pass found nothing for."""
    rows = DrainIntent.objects.filter(closed_at=None).order_by("id")
    return [
        OpenDrain(row.pk, row.kind, row.user_id, row.group_id, row.organisation_id, row.reason, row.changed_at)
        for row in rows
    ]


def _person(user_id: UUID, group_id: UUID | None, organisation_id: UUID | None = None) -> Person:
    if organisation_id is not None:
        return Person(user_id, group_id, organisation_id)
    if group_id is None:
        organisation_id = User.objects.filter(pk=user_id).values_list("organisation_id", flat=True).first()
    else:
        organisation_id = Group.objects.filter(pk=group_id).values_list("organisation_id", flat=True).first()
    return Person(user_id, group_id, organisation_id)
