"""Who may do what to whom: the reasoning behind the matrix, over frozen facts.

A `Standing` is everything that decides a person's rights: is he active, which seats he has, where his home is. A `Target`
is what an act is aimed at: a place (everything, an organisation, a group), and the person whose thing it is, if any. The
matrix (`accounts.permissions.MATRIX`) gives each role a `Extent` per act; `decide` finds a role of the actor whose reach
covers the target.

Guarantees: an inactive person may nothing; ranks are compared strictly, so nobody outranks himself or his equal; a guest
has no reach. Refuses with what is missing and who has it, never with a bare no.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from accounts.domain.roles import Role
from gshare_core.errors import DomainError


class Extent(StrEnum):
    """How far a role carries an act."""

    OWN = "his own"
    GROUP = "the groups he administers"
    GROUP_BELOW = "those who rank below him in the groups he administers"
    ORGANISATION = "the organisations he administers"
    ORGANISATION_BELOW = "those who rank below him in the organisations he administers"
    WHOLE_PERSON = "those he outranks and all of whose memberships he administers"
    ALL = "everything"
    ALL_OTHERS = "everybody but himself"


@dataclass(frozen=True, slots=True)
class Seat:
    """One membership: a role in a group (of an organisation), or in an organisation as such."""

    role: Role
    organisation_id: UUID
    group_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides a person's rights."""

    user_id: UUID
    active: bool = True
    super_admin: bool = False
    home_id: UUID | None = None
    seats: tuple[Seat, ...] = ()

    @property
    def administered_organisations(self) -> frozenset[UUID]:
        return frozenset(seat.organisation_id for seat in self.seats if seat.role is Role.ORG_ADMIN)

    @property
    def administered_groups(self) -> frozenset[UUID]:
        """Groups in which he sits as group_admin (those of administered organisations are not listed)."""
        return frozenset(seat.group_id for seat in self.seats if seat.role is Role.GROUP_ADMIN and seat.group_id)

    @property
    def is_administrator(self) -> bool:
        """Has he any administrator's role (and so the administrators' console)?"""
        return self.active and (self.super_admin or any(seat.role.rank >= Role.GROUP_ADMIN.rank for seat in self.seats))

    def role_in(self, organisation_id: UUID, group_id: UUID | None = None) -> Role | None:
        """The highest role that counts at a place; an organisation's administrator ranks in its groups too."""
        if self.super_admin:
            return Role.SUPER_ADMIN
        if organisation_id in self.administered_organisations:
            return Role.ORG_ADMIN
        if group_id is None:
            return None
        own = [seat.role for seat in self.seats if seat.group_id == group_id]
        return max(own, key=lambda role: role.rank, default=None)

    def administers(self, seat: Seat) -> bool:
        """Does he administer the place of somebody's seat?"""
        role = self.role_in(seat.organisation_id, seat.group_id)
        return role is not None and role.rank >= Role.GROUP_ADMIN.rank

    def outranks_at(self, other: Standing, organisation_id: UUID, group_id: UUID | None = None) -> bool:
        """Does he rank strictly above the other at this place? Somebody without a seat there ranks lowest."""
        own = self.role_in(organisation_id, group_id)
        theirs = other.role_in(organisation_id, group_id)
        return own is not None and (theirs is None or own.rank > theirs.rank)


@dataclass(frozen=True, slots=True)
class Target:
    """What an act is aimed at. Without fields: everything. `person`: whose thing it is; `role`: the one that is given
    or taken."""

    organisation_id: UUID | None = None
    group_id: UUID | None = None
    person: Standing | None = None
    role: Role | None = None


EVERYTHING = Target()


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to "may he?": never a boolean alone."""

    allowed: bool
    detail: str = ""
    remedy: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def require(self) -> None:
        """Raises DomainError `forbidden` when the answer was no."""
        if not self.allowed:
            raise DomainError("forbidden", self.detail, remedy=self.remedy, facts=dict(self.facts))


ALLOWED = Decision(True)


def decide(actor: Standing, reaches: Mapping[Role, Extent], target: Target, *, act: str) -> Decision:
    """May `actor` do `act` to `target`, given each role's reach for it?"""
    if not actor.active:
        return Decision(False, "This account is deactivated.", "Ask an administrator.")
    rows = reaches
    if actor.super_admin and Role.SUPER_ADMIN in reaches:
        rows = {Role.SUPER_ADMIN: reaches[Role.SUPER_ADMIN]}  # his own row may say less than the rows below it
    if any(covers(actor, role, extent, target) for role, extent in rows.items()):
        return ALLOWED
    return Decision(False, "Your roles do not reach this.", _who_may(reaches), {"act": act})


def covers(actor: Standing, role: Role, reach: Extent, target: Target) -> bool:
    """Does the actor hold `role`, or a higher one, in such a way that `reach` covers the target?"""
    person = target.person
    itself = person is not None and person.user_id == actor.user_id
    match reach:
        case Extent.ALL:
            return actor.super_admin
        case Extent.ALL_OTHERS:
            return actor.super_admin and not itself
        case Extent.OWN:
            return (person is None or itself) and _sits(actor, role, target)
        case Extent.WHOLE_PERSON:
            return person is not None and governs(actor, person)
        case Extent.GROUP | Extent.ORGANISATION:
            return _rules(actor, role, reach, target)
        case Extent.GROUP_BELOW | Extent.ORGANISATION_BELOW:
            return _rules(actor, role, reach, target) and _is_below(actor, target)


def governs(actor: Standing, person: Standing) -> bool:
    """Does the actor outrank the person everywhere he sits, administer all those places, and his home too?

    The home counts as belonging: a group's administrator governs whom his group's organisation houses and who sits in no
    place but his; somebody without any seat is his organisation's administrators' affair.
    """
    if actor.super_admin:
        return True
    if person.super_admin or person.user_id == actor.user_id or person.home_id is None:
        return False
    for seat in person.seats:
        if not actor.administers(seat) or not actor.outranks_at(person, seat.organisation_id, seat.group_id):
            return False
    at_home = person.home_id in actor.administered_organisations
    houses = any(seat.organisation_id == person.home_id for seat in person.seats)
    return at_home or houses


def _sits(actor: Standing, role: Role, target: Target) -> bool:
    """Has he a seat of at least this role: in the group, else anywhere in the organisation, else anywhere?"""
    if actor.super_admin:
        return True
    seats = actor.seats
    if target.group_id is not None:
        held = actor.role_in(target.organisation_id, target.group_id) if target.organisation_id else None
        return held is not None and held.rank >= role.rank
    if target.organisation_id is not None:
        seats = tuple(seat for seat in seats if seat.organisation_id == target.organisation_id)
    return any(seat.role.rank >= role.rank for seat in seats)


def _rules(actor: Standing, role: Role, reach: Extent, target: Target) -> bool:
    """Does his role at the target's place carry at least as far as `role` does?"""
    if target.organisation_id is None or (reach in (Extent.GROUP, Extent.GROUP_BELOW) and target.group_id is None):
        return actor.super_admin
    held = actor.role_in(target.organisation_id, target.group_id)
    return held is not None and held.rank >= role.rank


def _is_below(actor: Standing, target: Target) -> bool:
    """Do the person and the role that the act is about rank strictly below him at that place?"""
    if target.organisation_id is None:
        return actor.super_admin
    held = actor.role_in(target.organisation_id, target.group_id)
    if target.role is not None and (held is None or held.rank <= target.role.rank):
        return False
    person = target.person
    if person is None:
        return True
    return not person.super_admin and actor.outranks_at(person, target.organisation_id, target.group_id)


def _who_may(reaches: Mapping[Role, Extent]) -> str:
    names = {
        Role.MEMBER: "a member of the group",
        Role.GROUP_ADMIN: "an administrator of the group",
        Role.ORG_ADMIN: "an administrator of the organisation",
        Role.SUPER_ADMIN: "a super administrator",
        Role.GUEST: "a guest of the group",
    }
    return f"Ask {', '.join(names[role] for role in reaches)}."


@dataclass(frozen=True, slots=True)
class RequesterFacts:
    """What gate 1 and the door of a running session ask about a person in a group. `role` None: he has no seat there."""

    user_id: UUID
    active: bool
    sign_in_epoch: int
    group_id: UUID
    group_name: str
    organisation_id: UUID
    organisation_name: str
    group_active: bool
    role: Role | None
