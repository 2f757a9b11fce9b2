"""`/api/v1/organisations`, `/groups`, `/policies`."""

from __future__ import annotations

from typing import Any
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
from accounts.domain.policies import Scope
from accounts.models import Policy, User
from accounts.permissions import visible_groups, visible_organisations, visible_policies
from gshare_core.kit.locks import ordered


@extend_schema(
    methods=["GET"],
    operation_id="list_organisations",
    parameters=parameters(documents.ORGANISATIONS),
    responses=page(answers.OrganisationAnswer),
)
@extend_schema(
    methods=["POST"],
    operation_id="create_organisation",
    request=serializers.NewOrganisation,
    responses={201: answers.OrganisationAnswer},
)
@api_view(["GET", "POST"])
def organisations(request: Request) -> Response:
    """Organisations that the caller belongs to or administers."""
    if request.method == "GET":
        rows = visible_organisations(me(request))
        return listed(request, rows, documents.ORGANISATIONS, documents.organisation)
    body = valid(serializers.NewOrganisation, request)
    made = services.create_organisation(name=body["name"], by=me(request))
    return Response(documents.organisation(made), status=status.HTTP_201_CREATED)


@extend_schema(methods=["GET"], operation_id="read_organisation", responses=answers.OrganisationAnswer)
@extend_schema(
    methods=["PATCH"],
    operation_id="change_organisation",
    request=serializers.PlaceChange,
    responses=answers.OrganisationAnswer,
)
@api_view(["GET", "PATCH"])
def organisation(request: Request, organisation_id: UUID) -> Response:
    """One organisation: its name, switched off or on."""
    found = one(visible_organisations(me(request)).filter(pk=organisation_id).first(), "organisation")
    if request.method == "PATCH":
        _change_organisation(me(request), found.pk, valid(serializers.PlaceChange, request))
        found.refresh_from_db()
    return Response(documents.organisation(found))


def _change_organisation(by: User, organisation_id: UUID, body: dict[str, Any]) -> None:
    with ordered():
        if "name" in body:
            services.rename_organisation(organisation_id=organisation_id, name=body["name"], by=by)
        if "is_active" in body:
            active, reason = body["is_active"], body["reason"]
            services.set_organisation_active(organisation_id=organisation_id, active=active, by=by, reason=reason)


@extend_schema(
    methods=["GET"],
    operation_id="list_groups",
    parameters=parameters(documents.GROUPS),
    responses=page(answers.GroupAnswer),
)
@extend_schema(
    methods=["POST"], operation_id="create_group", request=serializers.NewGroup, responses={201: answers.GroupAnswer}
)
@api_view(["GET", "POST"])
def groups(request: Request) -> Response:
    """Groups in which the caller sits, or whose organisation he administers."""
    if request.method == "GET":
        return listed(request, visible_groups(me(request)), documents.GROUPS, documents.group)
    body = valid(serializers.NewGroup, request)
    made = services.create_group(organisation_id=body["organisation"], name=body["name"], by=me(request))
    return Response(documents.group(made), status=status.HTTP_201_CREATED)


@extend_schema(methods=["GET"], operation_id="read_group", responses=answers.GroupAnswer)
@extend_schema(
    methods=["PATCH"],
    operation_id="change_group",
    request=serializers.PlaceChange,
    responses=answers.GroupAnswer,
)
@api_view(["GET", "PATCH"])
def group(request: Request, group_id: UUID) -> Response:
    """One group: its name, switched off or on."""
    found = one(visible_groups(me(request)).filter(pk=group_id).first(), "group")
    if request.method == "PATCH":
        _change_group(me(request), found.pk, valid(serializers.PlaceChange, request))
        found.refresh_from_db()
    return Response(documents.group(found))


def _change_group(by: User, group_id: UUID, body: dict[str, Any]) -> None:
    with ordered():
        if "name" in body:
            services.rename_group(group_id=group_id, name=body["name"], by=by)
        if "is_active" in body:
            active, reason = body["is_active"], body["reason"]
            services.set_group_active(group_id=group_id, active=active, by=by, reason=reason)


@extend_schema(
    methods=["GET"],
    operation_id="list_policies",
    parameters=parameters(documents.POLICIES),
    responses=page(answers.PolicyAnswer),
)
@extend_schema(
    methods=["POST"],
    operation_id="set_policy",
    request=serializers.PolicyBody,
    responses={200: answers.PolicyAnswer, 201: answers.PolicyAnswer},
)
@api_view(["GET", "POST"])
def policies(request: Request) -> Response:
    """Limits by scope. A POST for a scope that has some already changes the fields that it names, and answers 200."""
    if request.method == "GET":
        rows = visible_policies(me(request)).prefetch_related("values")
        return listed(request, rows, documents.POLICIES, documents.policy)
    form = serializers.PolicyBody(data=request.data)
    form.is_valid(raise_exception=True)
    scope, body = form.parsed_scope(), form.validated_data
    known = visible_policies(me(request)).filter(pk__in=_of_scope(scope)).exists()
    made = services.set_policy(scope=scope, per_user=body["per_user"], totals=body["totals"], by=me(request))
    return Response(documents.policy(made), status=status.HTTP_200_OK if known else status.HTTP_201_CREATED)


@extend_schema(methods=["GET"], operation_id="read_policy", responses=answers.PolicyAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_policy", request=serializers.PolicyChange, responses=answers.PolicyAnswer
)
@extend_schema(methods=["DELETE"], operation_id="remove_policy", responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def policy(request: Request, policy_id: UUID) -> Response:
    """The limits of one scope; null unsets a field, DELETE unsets all."""
    found = one(visible_policies(me(request)).filter(pk=policy_id).first(), "policy")
    scope = Scope.parse(str(found))
    if request.method == "DELETE":
        services.remove_policy(scope=scope, by=me(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
    if request.method == "PATCH":
        body = valid(serializers.PolicyChange, request)
        services.set_policy(scope=scope, per_user=body["per_user"], totals=body["totals"], by=me(request))
    return Response(documents.policy(found))


def _of_scope(scope: Scope) -> Any:
    column = {"scope_kind": scope.kind} if scope.id is None else {f"{scope.kind}_id": scope.id}
    return Policy.objects.filter(**column).values("pk")
