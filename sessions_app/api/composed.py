"""Answers that compose several applications: `/me` with the wallet, `/offerings` with availability, effective policies."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import overview


@extend_schema(responses=OpenApiTypes.OBJECT)
@api_view(["GET"])
def me(request: Request) -> Response:
    """Who is signed in: organisation, groups with roles, personal wallet."""
    return Response(overview.me(request.user))


@extend_schema(responses=OpenApiTypes.OBJECT)
@api_view(["GET"])
def offerings(request: Request) -> Response:
    """What can be rented, per tier: limits, price, how many would start now, how many wait."""
    results: list[dict[str, Any]] = overview.offerings(request.user)
    return Response({"results": results, "next": None, "count": len(results), "count_is_exact": True})


@extend_schema(responses=OpenApiTypes.OBJECT)
@api_view(["GET"])
def effective_policy(request: Request) -> Response:
    """Effective values with the scope that set them, what is used, what remains."""
    return Response(overview.effective_policy(request.user, request.query_params))
