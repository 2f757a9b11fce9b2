"""Whom a person can turn to: the administrators of his groups, else of their organisations."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts.domain.roles import Role
from accounts.models import Membership, User


@dataclass(frozen=True, slots=True)
class Contact:
    """Somebody who administers a place of the asker's."""

    name: str
    email: str
    group: str


def administrators_of(user: User) -> list[Contact]:
    """The active administrators of the groups he has a seat in, by group; of their organisations where there is none."""
    seats = Membership.objects.filter(user=user, group__isnull=False, group__is_active=True)
    groups = dict(seats.order_by("group__name").values_list("group_id", "group__organisation_id"))
    found = Membership.objects.filter(group__in=groups, role=Role.GROUP_ADMIN, user__is_active=True).exclude(user=user)
    rows = list(found.select_related("user", "group").order_by("group__name", "user__name", "pk"))
    if not rows:
        above = Membership.objects.filter(organisation__in=set(groups.values()), role=Role.ORG_ADMIN)
        rows = list(above.filter(user__is_active=True).exclude(user=user).select_related("user", "organisation"))
    return [Contact(row.user.name, row.user.email, (row.group or row.organisation).name) for row in rows]  # type: ignore[union-attr]  # -- a seat has one of both


def administrators_of_place(*, organisation_id: UUID | None, group_id: UUID | None = None) -> list[User]:
    """The active administrators of a group, else of its organisation, else of everything; without a place the last."""
    seats = Membership.objects.filter(user__is_active=True).select_related("user").order_by("user_id")
    found: list[User] = []
    if group_id is not None:
        found = [seat.user for seat in seats.filter(group=group_id, role=Role.GROUP_ADMIN)]
    if not found and organisation_id is not None:
        found = [seat.user for seat in seats.filter(organisation=organisation_id, role=Role.ORG_ADMIN)]
    return found or list(User.objects.filter(is_super_admin=True, is_active=True).order_by("pk"))
