"""Scopes of policies as an administrator sees them: what each is called, where its numbers come from, whether he may set them.

Guarantees: a scope outside of his is not there; a scope is set one level above it, by the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _

from accounts.administrators import Administrator
from accounts.domain.policies import GLOBAL, Scope, ScopeKind
from accounts.domain.rights import EVERYTHING, Target
from accounts.models import Policy
from accounts.permissions import (
    Act,
    administered_groups,
    administered_organisations,
    may,
    visible_policies,
    visible_users,
)
from accounts.standings import standing_of

MOST_CHOICES = 500


@dataclass(frozen=True, slots=True)
class SeenScope:
    """A scope with its name and the place above it; `chain` are the scopes that supply its people's numbers, nearest first."""

    scope: Scope
    name: str
    over: str
    chain: tuple[Scope, ...]
    may_set: bool

    @property
    def has_totals(self) -> bool:
        """Whether there are numbers for everybody in it together."""
        return self.scope.kind in (ScopeKind.ORGANISATION, ScopeKind.GROUP)


def seen_scope(administrator: Administrator, scope: Scope) -> SeenScope | None:
    """The scope, if it is his to see. At most two statements."""
    by, standing = administrator.user, administrator.standing
    if scope.id is None:
        return SeenScope(scope, general(), "", (GLOBAL,), may(standing, Act.LIMIT_GLOBAL, EVERYTHING).allowed)
    if scope.kind is ScopeKind.ORGANISATION:
        organisation = administered_organisations(by).filter(pk=scope.id).first()
        if organisation is None:
            return None
        allowed = may(standing, Act.LIMIT_ORGANISATION, Target(organisation_id=organisation.pk)).allowed
        return SeenScope(scope, organisation.name, "", (scope, GLOBAL), allowed)
    if scope.kind is ScopeKind.GROUP:
        group = administered_groups(by).select_related("organisation").filter(pk=scope.id).first()
        if group is None:
            return None
        target = Target(organisation_id=group.organisation_id, group_id=group.pk)
        chain = (scope, Scope(ScopeKind.ORGANISATION, group.organisation_id), GLOBAL)
        return SeenScope(
            scope, group.name, group.organisation.name, chain, may(standing, Act.LIMIT_GROUP, target).allowed
        )
    person = visible_users(by).select_related("organisation").filter(pk=scope.id).first()
    if person is None:
        return None
    target = Target(organisation_id=person.organisation_id, person=standing_of(person.pk))
    home = (Scope(ScopeKind.ORGANISATION, person.organisation_id),) if person.organisation_id else ()
    over = person.organisation.name if person.organisation else ""
    allowed = may(standing, Act.LIMIT_USER, target).allowed
    return SeenScope(scope, person.email, over, (scope, *home, GLOBAL), allowed)


def groups_to_choose(
    administrator: Administrator, *, ended: bool = False, of_his_organisations: bool = False
) -> list[tuple[str, str]]:
    """His groups as choices of a form (`group:<id>`), by organisation; `ended`: those switched off too. One statement."""
    rows = administered_groups(administrator.user)
    if not ended:
        rows = rows.filter(is_active=True, organisation__is_active=True)
    if of_his_organisations:
        rows = rows.filter(organisation__in=administered_organisations(administrator.user).values("pk"))
    named = rows.order_by("organisation__name", "name", "pk").values_list("pk", "name", "organisation__name")
    return [(f"group:{key}", f"{organisation}, {name}") for key, name, organisation in named[:MOST_CHOICES]]


def organisations_to_choose(administrator: Administrator, *, ended: bool = False) -> list[tuple[str, str]]:
    """His organisations as choices of a form (`organisation:<id>`); `ended`: those switched off too. One statement."""
    rows = administered_organisations(administrator.user)
    if not ended:
        rows = rows.filter(is_active=True)
    named = rows.order_by("name", "pk").values_list("pk", "name")
    return [(f"organisation:{key}", name) for key, name in named[:MOST_CHOICES]]


def general() -> str:
    """What the policy of everybody is called."""
    return _("General policy")


def policies_of(administrator: Administrator) -> QuerySet[Any]:
    """The policies that he sees, with what a row shows of them; `fields` counts what each sets."""
    rows = visible_policies(administrator.user).select_related("organisation", "group__organisation", "user")
    return rows.annotate(fields=Count("values"))


def name_of(policy: Policy) -> tuple[str, str]:
    """A policy's scope by name, and the place above it."""
    if policy.organisation is not None:
        return policy.organisation.name, ""
    if policy.group is not None:
        return policy.group.name, policy.group.organisation.name
    return (policy.user.email, "") if policy.user is not None else (general(), "")
