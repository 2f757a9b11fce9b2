"""A list of this room as an API answer: one function, so that every list pages, counts and searches alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django_filters import BooleanFilter, IsoDateTimeFilter, UUIDFilter
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from gshare_core.kit.lists import PAGE, PAGE_MAX, SEARCH_MIN, Listing, answer, page_of

M = TypeVar("M", bound=Model)

_TYPES = {BooleanFilter: bool, UUIDFilter: UUID, IsoDateTimeFilter: datetime}


PAGING = [
    OpenApiParameter("q", str, description=f"Words to look for, from {SEARCH_MIN} characters."),
    OpenApiParameter("ordering", str, description="Order; a leading - turns it round."),
    OpenApiParameter("cursor", str, description="Where the page before ended; stands in its `next`."),
    OpenApiParameter("limit", int, description=f"Rows a page, 1 to {PAGE_MAX}; default {PAGE}."),
]


def parameters(listing: Listing) -> list[OpenApiParameter]:
    """What a list may be asked, for the OpenAPI document."""
    orders = [f"{sign}{name}" for name in listing.orderings for sign in ("", "-")]
    asked = [OpenApiParameter("ordering", str, enum=orders, description=f"Default: {listing.default}.")]
    asked += [known for known in PAGING if known.name in ("cursor", "limit") or (known.name == "q" and listing.search)]
    filters = listing.filters.base_filters if listing.filters else {}
    return asked + [OpenApiParameter(name, _TYPES.get(type(kind), str)) for name, kind in filters.items()]


def listed(request: Request, rows: QuerySet[M], listing: Listing, present: Callable[[M], dict[str, Any]]) -> Response:
    """The page of `rows` that the request asks for. Raises DomainError `invalid`."""
    return Response(answer(request, page_of(rows, listing, request), present))
