"""Bodies of this room's API: form only. What they mean is the services' to judge."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from accounts.domain.policies import Scope
from accounts.domain.roles import GROUP_ROLES, ORGANISATION_ROLES, Role
from accounts.models import EMAIL_LENGTH, NAME_LENGTH
from accounts.services.passwords import PASSWORD_MAX

GROUP_ROLE_CHOICES = [role.value for role in GROUP_ROLES]
ROLE_CHOICES = [role.value for role in (*GROUP_ROLES, *ORGANISATION_ROLES)]
Body = serializers.Serializer[dict[str, Any]]


class PasswordChange(Body):
    """`POST /me/password`."""

    current = serializers.CharField(max_length=PASSWORD_MAX, trim_whitespace=False)
    new = serializers.CharField(max_length=PASSWORD_MAX, trim_whitespace=False)


class NewOrganisation(Body):
    """`POST /organisations`."""

    name = serializers.CharField(max_length=NAME_LENGTH)


class PlaceChange(Body):
    """`PATCH` of an organisation or a group; switching one off ends its sessions."""

    name = serializers.CharField(max_length=NAME_LENGTH, required=False)
    is_active = serializers.BooleanField(required=False)
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class NewGroup(Body):
    """`POST /groups`."""

    organisation = serializers.UUIDField()
    name = serializers.CharField(max_length=NAME_LENGTH)


class NewUser(Body):
    """`POST /users`; a group's administrator names the group, whose organisation is the new person's home."""

    email = serializers.CharField(max_length=EMAIL_LENGTH)
    name = serializers.CharField(max_length=NAME_LENGTH)
    organisation = serializers.UUIDField(required=False, allow_null=True, default=None)
    group = serializers.UUIDField(required=False, allow_null=True, default=None)
    role = serializers.ChoiceField(choices=GROUP_ROLE_CHOICES, default=Role.MEMBER.value)


class UserChange(Body):
    """`PATCH` of a user."""

    email = serializers.CharField(max_length=EMAIL_LENGTH, required=False)
    name = serializers.CharField(max_length=NAME_LENGTH, required=False)
    organisation = serializers.UUIDField(required=False)
    is_active = serializers.BooleanField(required=False)
    super_admin = serializers.BooleanField(required=False)
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class NewMembership(Body):
    """`POST /memberships`: one of `user` and `email`, one of `group` and `organisation`."""

    email = serializers.CharField(max_length=EMAIL_LENGTH, required=False)
    user = serializers.UUIDField(required=False)
    group = serializers.UUIDField(required=False, allow_null=True, default=None)
    organisation = serializers.UUIDField(required=False, allow_null=True, default=None)
    role = serializers.ChoiceField(choices=ROLE_CHOICES, default=Role.MEMBER.value)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("email" in attrs) == ("user" in attrs):
            raise serializers.ValidationError({"email": ["Name the person by user or by email, not both."]})
        return attrs


class RoleChange(Body):
    """`PATCH` of a membership."""

    role = serializers.ChoiceField(choices=ROLE_CHOICES)


class Reason(Body):
    """Why, where the act may say so."""

    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class _Number(serializers.IntegerField):
    """A whole number; `true` and `false` are 1 and 0."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool):
            return int(data)
        if isinstance(data, float):
            self.fail("invalid")
        value: int = super().to_internal_value(data)
        return value


class Numbers(serializers.DictField):
    """`{field: number or null}`; null unsets."""

    child = _Number(allow_null=True)


class PolicyBody(Body):
    """`POST /policies`."""

    scope = serializers.CharField(max_length=60)
    per_user = Numbers(default=dict)
    totals = Numbers(default=dict)

    def parsed_scope(self) -> Scope:
        return Scope.parse(self.validated_data["scope"])


class PolicyChange(Body):
    """`PATCH` of a policy: the fields that are named."""

    per_user = Numbers(default=dict)
    totals = Numbers(default=dict)
