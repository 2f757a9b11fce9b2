"""A list of this room as an API answer: one function, so that every list pages, counts and searches alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from gshare_core.kit.lists import Listing, answer, page_of

M = TypeVar("M", bound=Model)

PAGING = [
    OpenApiParameter("q", str, description="Words to look for, 2 characters or more."),
    OpenApiParameter("ordering", str, description="Order; a leading - turns it round."),
    OpenApiParameter("cursor", str, description="Where the page before ended; from `next`."),
    OpenApiParameter("limit", int, description="Rows a page, 1 to 200."),
]


def listed(request: Request, rows: QuerySet[M], listing: Listing, present: Callable[[M], dict[str, Any]]) -> Response:
    """The page of `rows` that the request asks for. Raises DomainError `invalid`."""
    return Response(answer(request, page_of(rows, listing, request), present))
