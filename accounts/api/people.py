"""`/api/v1/users`, `/memberships`, `/me/password`."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import services
from accounts.api import answers, documents, serializers
from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me, one, valid
from accounts.domain.roles import Role
from accounts.middleware import open_before_password_change
from accounts.models import User
from accounts.permissions import visible_memberships, visible_users
from accounts.services.memberships import place_of
from accounts.sign_in import stay_signed_in


@open_before_password_change
@extend_schema(operation_id="change_password", request=serializers.PasswordChange, responses={204: None})
@api_view(["POST"])
def my_password(request: Request) -> Response:
    """Change one's own password. This browser stays signed in, every other is signed out."""
    body = valid(serializers.PasswordChange, request)
    user = services.change_password(by=me(request), current=body["current"], new=body["new"])
    stay_signed_in(request, user)
    return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema(
    methods=["GET"],
    operation_id="list_users",
    parameters=parameters(documents.USERS),
    responses=page(answers.UserAnswer),
)
@extend_schema(
    methods=["POST"], operation_id="register_user", request=serializers.NewUser, responses={201: answers.NewUserAnswer}
)
@api_view(["GET", "POST"])
def users(request: Request) -> Response:
    """People whom the caller may see; registering one answers with the initial password, this once."""
    if request.method == "GET":
        return listed(request, visible_users(me(request)), documents.USERS, documents.user)
    body = valid(serializers.NewUser, request)
    registered = services.register_user(
        email=body["email"],
        name=body["name"],
        organisation_id=body["organisation"],
        group_id=body["group"],
        role=Role(body["role"]),
        by=me(request),
    )
    document = {**documents.user(registered.user), "initial_password": registered.initial_password}
    return Response(document, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


@extend_schema(methods=["GET"], operation_id="read_user", responses=answers.UserAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_user", request=serializers.UserChange, responses=answers.UserAnswer
)
@api_view(["GET", "PATCH"])
def user(request: Request, user_id: UUID) -> Response:
    """One person; what is named in a PATCH changes together or not at all."""
    found = _visible_user(request, user_id)
    if request.method == "PATCH":
        body = valid(serializers.UserChange, request)
        changes = services.UserChanges(
            email=body.get("email"),
            name=body.get("name"),
            organisation_id=body.get("organisation"),
            super_admin=body.get("super_admin"),
            is_active=body.get("is_active"),
            reason=body["reason"],
        )
        services.change_user(user_id=found.pk, changes=changes, by=me(request))
        found.refresh_from_db()
    return Response(documents.user(found))


@extend_schema(operation_id="reset_password", request=serializers.Reason, responses=answers.InitialPasswordAnswer)
@api_view(["POST"])
def reset_password(request: Request, user_id: UUID) -> Response:
    """A new initial password for somebody, shown this once."""
    found = _visible_user(request, user_id)
    body = valid(serializers.Reason, request)
    password = services.reset_password(user_id=found.pk, by=me(request), reason=body["reason"])
    return Response({"initial_password": password}, headers={"Cache-Control": "no-store"})


@extend_schema(operation_id="sign_out_everywhere", request=None, responses={204: None})
@api_view(["POST"])
def sign_out_everywhere(request: Request, user_id: UUID) -> Response:
    """End every sign-in of a person: one's own, or of somebody whose password one may reset."""
    found = _visible_user(request, user_id)
    services.sign_out_everywhere(user_id=found.pk, by=me(request))
    return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema(
    methods=["GET"],
    operation_id="list_memberships",
    parameters=parameters(documents.MEMBERSHIPS),
    responses=page(answers.MembershipAnswer),
)
@extend_schema(
    methods=["POST"],
    operation_id="add_membership",
    request=serializers.NewMembership,
    responses={201: answers.MembershipAnswer, 202: answers.AskedMembershipAnswer},
)
@api_view(["GET", "POST"])
def memberships(request: Request) -> Response:
    """Seats that the caller may see. Adding by `email` answers 202 and the same words whether or not it has an account."""
    actor = me(request)
    if request.method == "GET":
        rows = visible_memberships(actor).select_related("user")
        return listed(request, rows, documents.MEMBERSHIPS, documents.membership)
    body = valid(serializers.NewMembership, request)
    place = place_of(actor, group_id=body["group"], organisation_id=body["organisation"])
    role = Role(body["role"])
    if "email" in body:
        services.add_membership_by_email(email=body["email"], place=place, role=role, by=actor)
        asked = {"group": body["group"], "organisation": body["organisation"], "role": role}
        return Response({"email": body["email"], **asked}, status=status.HTTP_202_ACCEPTED)
    added = services.add_membership(user_id=body["user"], place=place, role=role, by=actor)
    return Response(documents.membership(added), status=status.HTTP_201_CREATED)


@extend_schema(methods=["GET"], operation_id="read_membership", responses=answers.MembershipAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_role", request=serializers.RoleChange, responses=answers.MembershipAnswer
)
@extend_schema(methods=["DELETE"], operation_id="remove_membership", responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def membership(request: Request, membership_id: UUID) -> Response:
    """One seat: its role, or its end (which stops the person's live sessions of the group)."""
    actor = me(request)
    if request.method == "DELETE":
        body = valid(serializers.Reason, request)
        services.remove_membership(membership_id=membership_id, by=actor, reason=body["reason"])
        return Response(status=status.HTTP_204_NO_CONTENT)
    if request.method == "PATCH":
        body = valid(serializers.RoleChange, request)
        services.change_role(membership_id=membership_id, role=Role(body["role"]), by=actor)
    rows = visible_memberships(actor).select_related("user")
    return Response(documents.membership(one(rows.filter(pk=membership_id).first(), "membership")))


def _visible_user(request: Request, user_id: UUID) -> User:
    return one(visible_users(me(request)).filter(pk=user_id).first(), "user")
