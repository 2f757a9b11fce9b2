"""Answers of this room's API, for its OpenAPI document. `documents` makes them; a test keeps the two in step."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from accounts.api.serializers import ROLE_CHOICES

Answer = serializers.Serializer[dict[str, Any]]
A = TypeVar("A", bound=Answer)


class OrganisationAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class GroupAnswer(Answer):
    id = serializers.UUIDField()
    organisation = serializers.UUIDField()
    name = serializers.CharField()
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class UserAnswer(Answer):
    id = serializers.UUIDField()
    email = serializers.EmailField()
    name = serializers.CharField()
    organisation = serializers.UUIDField(allow_null=True)
    is_active = serializers.BooleanField()
    super_admin = serializers.BooleanField()
    must_change_password = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class InitialPasswordAnswer(Answer):
    """Shown this once."""

    initial_password = serializers.CharField()


class NewUserAnswer(UserAnswer, InitialPasswordAnswer):
    """A new person, with the password that is shown this once."""


class PersonAnswer(Answer):
    id = serializers.UUIDField()
    email = serializers.EmailField()
    name = serializers.CharField()


class MembershipAnswer(Answer):
    id = serializers.UUIDField()
    user = PersonAnswer()
    group = serializers.UUIDField(allow_null=True)
    organisation = serializers.UUIDField(allow_null=True)
    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    created_at = serializers.DateTimeField()


class AskedMembershipAnswer(Answer):
    """The same whether or not the address has an account."""

    email = serializers.CharField()
    group = serializers.UUIDField(allow_null=True)
    organisation = serializers.UUIDField(allow_null=True)
    role = serializers.ChoiceField(choices=ROLE_CHOICES)


class PolicyAnswer(Answer):
    id = serializers.UUIDField()
    scope = serializers.CharField()
    per_user = serializers.DictField(child=serializers.IntegerField())
    totals = serializers.DictField(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()


class AuditEntryAnswer(Answer):
    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    actor = serializers.UUIDField(allow_null=True)
    actor_email = serializers.CharField()
    act = serializers.CharField()
    target_kind = serializers.CharField()
    target = serializers.CharField()
    target_label = serializers.CharField()
    organisation = serializers.UUIDField(allow_null=True)
    organisation_label = serializers.CharField()
    group = serializers.UUIDField(allow_null=True)
    group_label = serializers.CharField()
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    reason = serializers.CharField()
    address = serializers.IPAddressField(allow_null=True)
    request_id = serializers.CharField()


class NotificationAnswer(Answer):
    id = serializers.UUIDField()
    kind = serializers.CharField()
    title = serializers.CharField()
    body = serializers.CharField()
    link = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)


class ReadAnswer(Answer):
    read = serializers.IntegerField()


@cache
def page(row: type[A]) -> serializers.Serializer[Any]:
    """A list of rows as the API pages it."""
    return inline_serializer(
        f"{row.__name__.removesuffix('Answer')}Page",
        {
            "results": row(many=True),
            "next": serializers.URLField(allow_null=True),
            "count": serializers.IntegerField(),
            "count_is_exact": serializers.BooleanField(),
        },
    )
