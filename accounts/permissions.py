"""The rights matrix: one table, act by role → reach; and the questions that are asked of it.

Guarantees: every right in GShare is a row here (`MATRIX`); a role includes what the roles below it may at the same place;
what is not listed nobody may. `may` answers with a decision that says why; the querysets give what somebody may see, so
that a stranger's page is a 404 and never a hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.db.models import Q, QuerySet

from accounts.domain.rights import EVERYTHING, Decision, Extent, Standing, Target, decide
from accounts.domain.roles import Role
from accounts.models import AuditEntry, Group, Membership, Organisation, Policy, User
from accounts.standings import standing_of, target_of_group


class Act(StrEnum):
    """What can be permitted."""

    OWN_WORK = "own_work"  # own sessions, volumes, wallet, requests
    SEE_OTHERS = "see_others"  # others' sessions, queue, volumes, usage
    ACT_ON_SESSIONS = "act_on_sessions"
    OPEN_SESSION = "open_session"
    READ_AUDIT = "read_audit"
    REGISTER_USER = "register_user"
    MANAGE_SIGN_IN = "manage_sign_in"  # reset the password, change the e-mail address or the name
    DEACTIVATE_USER = "deactivate_user"
    MOVE_HOME = "move_home"
    GRANT_SUPER_ADMIN = "grant_super_admin"
    MANAGE_MEMBERSHIP = "manage_membership"
    MANAGE_GROUP = "manage_group"
    MANAGE_ORGANISATION = "manage_organisation"
    CREDIT_USER = "credit_user"  # allocate to and reclaim from users, their grants and requests
    CREDIT_GROUP = "credit_group"
    CREDIT_ORGANISATION = "credit_organisation"
    ISSUE_CREDITS = "issue_credits"  # issue, adjust
    LIMIT_USER = "limit_user"  # policy and budget of a user
    LIMIT_GROUP = "limit_group"
    LIMIT_ORGANISATION = "limit_organisation"
    LIMIT_GLOBAL = "limit_global"
    RAISE_RESERVED = "raise_reserved"  # allow_privileged, shared_pool, max_priority above 0
    SET_PRIORITY = "set_priority"  # up to the owner's `max_priority`; above it RAISE_RESERVED too
    GRANT_POOL = "grant_pool"
    MANAGE_POOLS = "manage_pools"
    MANAGE_CATALOGUE = "manage_catalogue"
    MANAGE_CLUSTERS = "manage_clusters"
    ANNOUNCE = "announce"


_GROUP_UP: Mapping[Role, Extent] = {
    Role.GROUP_ADMIN: Extent.GROUP,
    Role.ORG_ADMIN: Extent.ORGANISATION,
    Role.SUPER_ADMIN: Extent.ALL,
}
_BELOW_UP: Mapping[Role, Extent] = {
    Role.GROUP_ADMIN: Extent.GROUP_BELOW,
    Role.ORG_ADMIN: Extent.ORGANISATION_BELOW,
    Role.SUPER_ADMIN: Extent.ALL,
}
_BELOW_UP_NOT_SELF: Mapping[Role, Extent] = {**_BELOW_UP, Role.SUPER_ADMIN: Extent.ALL_OTHERS}
_WHOLE_PERSON: Mapping[Role, Extent] = {
    Role.GROUP_ADMIN: Extent.WHOLE_PERSON,
    Role.ORG_ADMIN: Extent.WHOLE_PERSON,
    Role.SUPER_ADMIN: Extent.ALL,
}
_ORGANISATION_UP: Mapping[Role, Extent] = {Role.ORG_ADMIN: Extent.ORGANISATION, Role.SUPER_ADMIN: Extent.ALL}
_SUPER: Mapping[Role, Extent] = {Role.SUPER_ADMIN: Extent.ALL}

MATRIX: Mapping[Act, Mapping[Role, Extent]] = {
    Act.OWN_WORK: {Role.MEMBER: Extent.OWN},
    Act.SEE_OTHERS: _GROUP_UP,
    Act.ACT_ON_SESSIONS: _GROUP_UP,
    Act.OPEN_SESSION: _BELOW_UP_NOT_SELF,
    Act.READ_AUDIT: _GROUP_UP,
    Act.REGISTER_USER: _BELOW_UP,
    Act.MANAGE_SIGN_IN: _WHOLE_PERSON,
    Act.DEACTIVATE_USER: {**_WHOLE_PERSON, Role.SUPER_ADMIN: Extent.ALL_OTHERS},
    Act.MOVE_HOME: _SUPER,
    Act.GRANT_SUPER_ADMIN: {Role.SUPER_ADMIN: Extent.ALL_OTHERS},
    Act.MANAGE_MEMBERSHIP: _BELOW_UP,
    Act.MANAGE_GROUP: _ORGANISATION_UP,
    Act.MANAGE_ORGANISATION: _SUPER,
    Act.CREDIT_USER: _GROUP_UP,
    Act.CREDIT_GROUP: _ORGANISATION_UP,
    Act.CREDIT_ORGANISATION: _SUPER,
    Act.ISSUE_CREDITS: _SUPER,
    Act.LIMIT_USER: {**_WHOLE_PERSON, Role.SUPER_ADMIN: Extent.ALL_OTHERS},
    Act.LIMIT_GROUP: _ORGANISATION_UP,
    Act.LIMIT_ORGANISATION: _SUPER,
    Act.LIMIT_GLOBAL: _SUPER,
    Act.RAISE_RESERVED: _SUPER,
    Act.SET_PRIORITY: _GROUP_UP,
    Act.GRANT_POOL: _ORGANISATION_UP,
    Act.MANAGE_POOLS: _SUPER,
    Act.MANAGE_CATALOGUE: _SUPER,
    Act.MANAGE_CLUSTERS: _SUPER,
    Act.ANNOUNCE: _SUPER,
}


def person_of(user: object) -> User | None:
    """The person whom a request calls its user; None for somebody who is not signed in."""
    return user if isinstance(user, User) else None


def may(actor: User | Standing, act: Act, target: Target = EVERYTHING) -> Decision:
    """May the actor do this to the target? `.require()` raises `forbidden`. One query for a User, none for a Standing."""
    standing = actor if isinstance(actor, Standing) else standing_of(actor.pk)
    return decide(standing, MATRIX[act], target, act=act.value)


def require(actor: User | Standing, act: Act, *, group_id: UUID, person_id: UUID | None = None) -> None:
    """Raises `forbidden` unless the actor may do this in the group (to the person's things there); `not_found`."""
    may(actor, act, target_of_group(group_id, person_id=person_id)).require()


def rank(actor: User | Standing, *, organisation_id: UUID, group_id: UUID | None = None) -> Role | None:
    """The actor's highest role that counts at a place."""
    standing = actor if isinstance(actor, Standing) else standing_of(actor.pk)
    return standing.role_in(organisation_id, group_id)


def is_administrator(actor: User | Standing) -> bool:
    """Has he the administrators' console?"""
    standing = actor if isinstance(actor, Standing) else standing_of(actor.pk)
    return standing.is_administrator


@dataclass(frozen=True, slots=True)
class Reach:
    """The places whose people's things somebody sees and acts on; `groups` includes those of his organisations."""

    everything: bool
    groups: frozenset[UUID]
    organisations: frozenset[UUID]

    @property
    def is_empty(self) -> bool:
        return not (self.everything or self.groups or self.organisations)


def reach(actor: User, standing: Standing | None = None) -> Reach:
    """Where the actor is an administrator. At most two statements, one for who has his standing; nothing when deactivated."""
    standing = standing or standing_of(actor.pk)
    if not standing.active:
        return Reach(False, frozenset(), frozenset())
    if standing.super_admin:
        return Reach(True, frozenset(), frozenset())
    organisations, groups = standing.administered_organisations, standing.administered_groups
    if organisations:
        groups |= frozenset(Group.objects.filter(organisation_id__in=organisations).values_list("pk", flat=True))
    return Reach(False, groups, organisations)


# What somebody may see ------------------------------------------------------------------------------------------------


def visible_organisations(actor: User) -> QuerySet[Organisation]:
    """His home, and where he has a seat; all for super administrators."""
    if actor.is_super_admin:
        return Organisation.objects.all()
    seats = Membership.objects.filter(user=actor)
    return Organisation.objects.filter(
        Q(pk=actor.organisation_id)
        | Q(pk__in=seats.filter(organisation__isnull=False).values("organisation_id"))
        | Q(pk__in=seats.filter(group__isnull=False).values("group__organisation_id"))
    )


def visible_groups(actor: User) -> QuerySet[Group]:
    """Groups in which he sits, and those of organisations that he administers."""
    if actor.is_super_admin:
        return Group.objects.all()
    seats = Membership.objects.filter(user=actor)
    return Group.objects.filter(
        Q(pk__in=seats.filter(group__isnull=False).values("group_id"))
        | Q(organisation_id__in=seats.filter(role=Role.ORG_ADMIN).values("organisation_id"))
    )


def administered_groups(actor: User) -> QuerySet[Group]:
    """Groups that he administers, by a seat in them or in their organisation."""
    if actor.is_super_admin:
        return Group.objects.all()
    seats = Membership.objects.filter(user=actor)
    return Group.objects.filter(
        Q(pk__in=seats.filter(role=Role.GROUP_ADMIN).values("group_id"))
        | Q(organisation_id__in=seats.filter(role=Role.ORG_ADMIN).values("organisation_id"))
    )


def administered_organisations(actor: User) -> QuerySet[Organisation]:
    """Organisations that he administers as such."""
    if actor.is_super_admin:
        return Organisation.objects.all()
    return Organisation.objects.filter(
        pk__in=Membership.objects.filter(user=actor, role=Role.ORG_ADMIN).values("organisation_id")
    )


def visible_users(actor: User) -> QuerySet[User]:
    """Himself, the people of the groups and organisations that he administers."""
    if actor.is_super_admin:
        return User.objects.all()
    groups, organisations = administered_groups(actor), administered_organisations(actor)
    return User.objects.filter(
        Q(pk=actor.pk)
        | Q(organisation_id__in=organisations.values("pk"))
        | Q(pk__in=Membership.objects.filter(group_id__in=groups.values("pk")).values("user_id"))
        | Q(pk__in=Membership.objects.filter(organisation_id__in=organisations.values("pk")).values("user_id"))
    )


def visible_memberships(actor: User) -> QuerySet[Membership]:
    """His own, and those of the places that he administers."""
    if actor.is_super_admin:
        return Membership.objects.all()
    return Membership.objects.filter(
        Q(user=actor)
        | Q(group_id__in=administered_groups(actor).values("pk"))
        | Q(organisation_id__in=administered_organisations(actor).values("pk"))
    )


def visible_policies(actor: User) -> QuerySet[Policy]:
    """Policies of the places that he administers and of the people in them; for administrators the global one too."""
    if actor.is_super_admin:
        return Policy.objects.all()
    groups, organisations = administered_groups(actor), administered_organisations(actor)
    people = visible_users(actor).exclude(pk=actor.pk)
    found = Q(group_id__in=groups.values("pk")) | Q(organisation_id__in=organisations.values("pk"))
    found |= Q(user_id__in=people.values("pk"))
    if is_administrator(actor):
        found |= Q(scope_kind="global")
    return Policy.objects.filter(found)


def visible_audit(actor: User) -> QuerySet[AuditEntry]:
    """Entries about the groups and organisations that he administers; all, also those about no place, for super
    administrators. Raises DomainError `forbidden` for who administers nothing."""
    if actor.is_super_admin:
        return AuditEntry.objects.all()
    standing = standing_of(actor.pk)
    if not standing.is_administrator:
        may(standing, Act.READ_AUDIT).require()
    return AuditEntry.objects.filter(
        Q(organisation_id__in=standing.administered_organisations) | Q(group_id__in=standing.administered_groups)
    )
