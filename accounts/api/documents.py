"""How rows of this room look in the API, and what may be asked of their lists."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import serializers

from accounts import queries
from accounts.models import AuditEntry, Group, Membership, Notification, Organisation, Policy, User
from gshare_core.kit.lists import Listing


def time(value: Any) -> str | None:
    """RFC 3339 in UTC, with `Z`."""
    return None if value is None else serializers.DateTimeField().to_representation(value)


def text(identifier: object) -> str | None:
    return None if identifier is None else str(identifier)


def organisation(row: Organisation) -> dict[str, Any]:
    return {"id": str(row.pk), "name": row.name, "is_active": row.is_active, "created_at": time(row.created_at)}


def group(row: Group) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "organisation": str(row.organisation_id),
        "name": row.name,
        "is_active": row.is_active,
        "created_at": time(row.created_at),
    }


def user(row: User) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "email": row.email,
        "name": row.name,
        "organisation": text(row.organisation_id),
        "is_active": row.is_active,
        "super_admin": row.is_super_admin,
        "must_change_password": row.must_change_password,
        "created_at": time(row.created_at),
    }


def membership(row: Membership) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "user": {"id": str(row.user_id), "email": row.user.email, "name": row.user.name},
        "group": text(row.group_id),
        "organisation": text(row.organisation_id),
        "role": row.role,
        "created_at": time(row.created_at),
    }


def policy(row: Policy) -> dict[str, Any]:
    return {"id": str(row.pk), "scope": str(row), **queries.policy_values(row), "created_at": time(row.created_at)}


AUDIT_COLUMNS = (
    "id",
    "at",
    "actor",
    "actor_email",
    "act",
    "target_kind",
    "target",
    "target_label",
    "organisation",
    "organisation_label",
    "group",
    "group_label",
    "before",
    "after",
    "reason",
    "address",
    "request_id",
)


def audit_entry(row: AuditEntry) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "at": time(row.at),
        "actor": text(row.actor_id),
        "actor_email": row.actor_label,
        "act": row.act,
        "target_kind": row.target_kind,
        "target": row.target_id,
        "target_label": row.target_label,
        "organisation": text(row.organisation_id),
        "organisation_label": row.organisation_label,
        "group": text(row.group_id),
        "group_label": row.group_label,
        "before": row.before,
        "after": row.after,
        "reason": row.reason,
        "address": row.address,
        "request_id": row.request_id,
    }


NOTICE_COLUMNS = ("id", "kind", "title", "body", "link", "at", "read_at")


def notice(row: Notification) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "kind": row.kind,
        "title": row.title,
        "body": row.body,
        "link": row.link or None,
        "at": time(row.at),
        "read_at": time(row.read_at),
    }


# Lists ---------------------------------------------------------------------------------------------------------------


class PlaceFilters(django_filters.FilterSet):
    is_active = django_filters.BooleanFilter()


class GroupFilters(PlaceFilters):
    organisation = django_filters.UUIDFilter(field_name="organisation_id")


class UserFilters(PlaceFilters):
    organisation = django_filters.UUIDFilter(field_name="organisation_id")
    group = django_filters.UUIDFilter(field_name="memberships__group_id")
    email = django_filters.CharFilter(lookup_expr="iexact")
    super_admin = django_filters.BooleanFilter(field_name="is_super_admin")


class MembershipFilters(django_filters.FilterSet):
    user = django_filters.UUIDFilter(field_name="user_id")
    group = django_filters.UUIDFilter(field_name="group_id")
    organisation = django_filters.UUIDFilter(field_name="organisation_id")
    role = django_filters.CharFilter()


class PolicyFilters(django_filters.FilterSet):
    kind = django_filters.CharFilter(field_name="scope_kind")
    organisation = django_filters.UUIDFilter(field_name="organisation_id")
    group = django_filters.UUIDFilter(field_name="group_id")
    user = django_filters.UUIDFilter(field_name="user_id")


class AuditFilters(django_filters.FilterSet):
    actor = django_filters.UUIDFilter(field_name="actor_id")
    act = django_filters.CharFilter()
    target_kind = django_filters.CharFilter()
    target = django_filters.CharFilter(field_name="target_id")
    organisation = django_filters.UUIDFilter(field_name="organisation_id")
    group = django_filters.UUIDFilter(field_name="group_id")
    since = django_filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    until = django_filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")


class NoticeFilters(django_filters.FilterSet):
    unread = django_filters.BooleanFilter(field_name="read_at", lookup_expr="isnull")
    kind = django_filters.CharFilter()


_BY_NAME = {"name": "name", "created_at": "created_at"}
ORGANISATIONS = Listing(_BY_NAME, "name", search=("name",), filters=PlaceFilters)
GROUPS = Listing(_BY_NAME, "name", search=("name",), filters=GroupFilters)
USERS = Listing({**_BY_NAME, "email": "email"}, "email", search=("name", "email"), filters=UserFilters)
MEMBERSHIPS = Listing({"created_at": "created_at"}, "created_at", ("user__email", "user__name"), MembershipFilters)
POLICIES = Listing({"created_at": "created_at"}, "created_at", filters=PolicyFilters)
AUDIT = Listing({"at": "at"}, "-at", search=("actor_label", "target_label"), filters=AuditFilters)
NOTICES = Listing({"at": "at"}, "-at", filters=NoticeFilters)
