"""Answers that compose several applications: `/me` with the wallet, `/offerings` with availability, effective policies."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.requests import me as person
from sessions_app import overview
from sessions_app.api import answers


@extend_schema(operation_id="read_me", responses=answers.MeAnswer)
@api_view(["GET"])
def me(request: Request) -> Response:
    """Who is signed in: organisation, groups with roles, personal wallet."""
    return Response(overview.me(person(request)))


@extend_schema(operation_id="list_offerings", responses=page(answers.OfferingAnswer))
@api_view(["GET"])
def offerings(request: Request) -> Response:
    """What can be rented, per tier: limits, price, how many would start now, how many wait."""
    results: list[dict[str, Any]] = overview.offerings(person(request))
    return Response({"results": results, "next": None, "count": len(results), "count_is_exact": True})


@extend_schema(
    operation_id="read_effective_policy",
    parameters=[
        OpenApiParameter("group", UUID, description="In which group; in the home organisation when it is left out."),
        OpenApiParameter("user", UUID, description="Whose; one's own when it is left out."),
    ],
    responses=answers.EffectivePolicyAnswer,
)
@api_view(["GET"])
def effective_policy(request: Request) -> Response:
    """Effective values with the scope that set them, what is used, what remains."""
    return Response(overview.effective_policy(person(request), request.query_params))
