"""Limits: what a scope sets, changed by who stands one level above it.

Guarantees: a change names only the fields it means; what it finds and leaves is in the audit trail. Refuses: one's own
scope; raising what is reserved to super administrators (`max_priority`, `allow_privileged`, `shared_pool`); a group's
administrator beyond what the group itself may; unsetting anything of the global policy, which sets everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts import audit, queries
from accounts.domain import policies
from accounts.domain.policies import FIELDS, Kind, Scope, ScopeKind
from accounts.domain.rights import EVERYTHING, Seat, Standing, Target
from accounts.domain.roles import Role
from accounts.models import Policy, PolicyValue, User
from accounts.permissions import Act, may
from accounts.services.common import authorise, group_seen_by, held_people, organisation_seen_by, person_seen_by
from accounts.standings import People
from gshare_core.errors import DomainError, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, lock_name, ordered

Numbers = Mapping[str, int | None]
_ACTS = {
    ScopeKind.GLOBAL: Act.LIMIT_GLOBAL,
    ScopeKind.ORGANISATION: Act.LIMIT_ORGANISATION,
    ScopeKind.GROUP: Act.LIMIT_GROUP,
    ScopeKind.USER: Act.LIMIT_USER,
}


@dataclass(frozen=True)
class _Place:
    """What a scope is for rights and for the audit trail."""

    label: str
    organisation_id: UUID | None = None
    group_id: UUID | None = None
    user_id: UUID | None = None
    trail_group_id: UUID | None = None  # whose administrators read of a person's


def set_policy(*, scope: Scope, per_user: Numbers, totals: Numbers, by: User | None) -> Policy:
    """Set the named fields of a scope; None unsets one. Fields that are not named stay.

    Raises `invalid`, `not_found`, `forbidden`.
    """
    policies.check_values(scope, Kind.PER_USER, per_user)
    policies.check_values(scope, Kind.TOTAL, totals)
    if scope.kind is ScopeKind.GLOBAL and None in per_user.values():
        raise DomainError(
            "invalid",
            _("The global policy sets every field."),
            errors={field: [_("Give a number.")] for field, value in per_user.items() if value is None},
            remedy=_("Give a number for each field."),
        )
    place = _place(scope, by)
    with ordered():
        people = _held(place, by)
        authorise(people, by, _ACTS[scope.kind], _target(place, people))
        lock_name(Rank.LANE, f"policy:{scope}")
        policy = _policy(scope)
        before = queries.policy_values(policy)
        changed = {
            "per_user": {field: value for field, value in per_user.items() if before["per_user"].get(field) != value},
            "totals": {field: value for field, value in totals.items() if before["totals"].get(field) != value},
        }
        _check_reserved(people, by, changed["per_user"])
        _check_within_groups(people, by, place, changed["per_user"])
        _write(policy, Kind.PER_USER, changed["per_user"])
        _write(policy, Kind.TOTAL, changed["totals"])
        if changed["per_user"] or changed["totals"]:
            _record(
                scope,
                place,
                by,
                before={k: {f: before[k].get(f) for f in v} for k, v in changed.items()},
                after=changed,
            )
    return policy


def remove_policy(*, scope: Scope, by: User | None) -> None:
    """Unset everything that a scope sets. Raises `not_found`, `forbidden`, `conflict` (the global policy stays)."""
    place = _place(scope, by)
    if scope.kind is ScopeKind.GLOBAL:
        raise DomainError("conflict", _("The global policy cannot be removed."), remedy=_("Change its numbers."))
    with ordered():
        people = _held(place, by)
        authorise(people, by, _ACTS[scope.kind], _target(place, people))
        lock_name(Rank.LANE, f"policy:{scope}")
        policy = _rows(scope).first()
        if policy is None:
            raise not_found("policy")
        before = queries.policy_values(policy)
        _check_reserved(people, by, dict.fromkeys(before["per_user"], None))
        policy.values.all().delete()
        policy.delete()
        _record(scope, place, by, before=before, after={"per_user": {}, "totals": {}})


def _place(scope: Scope, by: User | None) -> _Place:
    if scope.id is None:
        return _Place("global")
    if scope.kind is ScopeKind.ORGANISATION:
        organisation = organisation_seen_by(by, scope.id)
        return _Place(organisation.name, organisation_id=organisation.pk)
    if scope.kind is ScopeKind.GROUP:
        group = group_seen_by(by, scope.id)
        return _Place(group.name, organisation_id=group.organisation_id, group_id=group.pk)
    person_seen_by(by, scope.id)
    user = User.objects.get(pk=scope.id)
    return _Place(
        user.email, organisation_id=user.organisation_id, user_id=user.pk, trail_group_id=audit.group_of(user)
    )


def _held(place: _Place, by: User | None) -> People:
    return held_people(by, relied=[place.user_id] if place.user_id else [])


def _target(place: _Place, people: People) -> Target:
    if place.user_id is not None:
        return Target(organisation_id=place.organisation_id, person=people.standings[place.user_id])
    if place.organisation_id is None:
        return EVERYTHING
    return Target(organisation_id=place.organisation_id, group_id=place.group_id)


def _check_reserved(people: People, by: User | None, changed: Numbers) -> None:
    """Unsetting counts as raising: what is inherited then may be more."""
    raised = [field for field, value in changed.items() if FIELDS[field].reserved and value != 0]
    if by is None or not raised or may(people.standings[by.pk], Act.RAISE_RESERVED, EVERYTHING).allowed:
        return
    raise DomainError(
        "forbidden",
        _("Only super administrators raise or unset what is reserved to them."),
        errors={field: [_("You may set this to 0 only.")] for field in raised},
        remedy=_("Leave the named limits, set them to 0, or ask a super administrator."),
    )


def _check_within_groups(people: People, by: User | None, place: _Place, changed: Numbers) -> None:
    """A group's administrator gives a person at most what the group's people have."""
    if by is None or place.user_id is None:
        return
    actor, person = people.standings[by.pk], people.standings[place.user_id]
    ceilings = [_group_values(seat.organisation_id, seat.group_id) for seat in _bound_by(actor, person)]
    beyond = {
        field: [_("Your group's people have at most %(most)s.") % {"most": ceiling[field].value}]
        for ceiling in ceilings
        for field, value in changed.items()
        if value is not None and policies.exceeds(field, value, ceiling[field].value)
    }
    if beyond:
        raise DomainError(
            "forbidden",
            _("A group's administrator stays within the group's own limits."),
            errors=beyond,
            remedy=_("Ask an administrator of the organisation."),
        )


def _bound_by(actor: Standing, person: Standing) -> list[Seat]:
    """The person's seats in groups where the actor is no more than the group's administrator."""
    return [
        seat
        for seat in person.seats
        if seat.group_id is not None and actor.role_in(seat.organisation_id, seat.group_id) is Role.GROUP_ADMIN
    ]


def _group_values(organisation_id: UUID, group_id: UUID | None) -> dict[str, policies.Effective]:
    scopes = (Scope(ScopeKind.GROUP, group_id), Scope(ScopeKind.ORGANISATION, organisation_id), policies.GLOBAL)
    return policies.resolve(scopes, queries.values_of(scopes))


def _rows(scope: Scope) -> QuerySet[Policy]:
    if scope.id is None:
        return Policy.objects.filter(scope_kind=ScopeKind.GLOBAL)
    return Policy.objects.filter(**{f"{scope.kind}_id": scope.id})


def _policy(scope: Scope) -> Policy:
    found = _rows(scope).first()
    if found is not None:
        return found
    column = {} if scope.id is None else {f"{scope.kind}_id": scope.id}
    return Policy.objects.create(scope_kind=scope.kind, created_at=clock.now(), **column)


def _write(policy: Policy, kind: Kind, changed: Numbers) -> None:
    policy.values.filter(kind=kind, field__in=changed).delete()
    PolicyValue.objects.bulk_create(
        PolicyValue(policy=policy, kind=kind, field=field, value=value)
        for field, value in changed.items()
        if value is not None
    )


def _record(
    scope: Scope, place: _Place, by: User | None, *, before: Mapping[str, object], after: Mapping[str, object]
) -> None:
    audit.record(
        by=by,
        act="policy.set",
        target_kind="policy",
        target_id=scope,
        target_label=place.label,
        organisation_id=place.organisation_id,
        group_id=place.group_id or place.trail_group_id,
        before=before,
        after=after,
        at=clock.now(),
    )
