"""`/api/v1/offerings/{id}/prices`: what a card-hour cost, costs, and will cost from when on. For super administrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me, one, valid
from accounts.permissions import Act, may
from accounts.standings import standing_of
from catalog import services
from catalog.api import answers
from catalog.models import Offering, PriceRevision
from catalog.queries import price_revisions
from gshare_core.kit import clock
from gshare_core.kit.api_fields import CreditsField, MomentField
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.kit.lists import Listing
from gshare_core.money import format_credits

PRICES = Listing(orderings={"starts_at": "starts_at"}, default="-starts_at")
ONCE = OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, required=True)


class PriceBody(serializers.Serializer):
    """A price to come. Without `starts_at` it counts at once; `replaces` names the planned price of the same moment."""

    hourly_credits = CreditsField()
    starts_at = MomentField(required=False, allow_null=True, default=None)
    replaces = serializers.UUIDField(required=False, allow_null=True, default=None)


@extend_schema(
    methods=["GET"], operation_id="list_prices", parameters=parameters(PRICES), responses=page(answers.PriceAnswer)
)
@extend_schema(
    methods=["POST"],
    operation_id="set_price",
    request=PriceBody,
    parameters=[ONCE],
    responses={201: answers.PriceAnswer},
)
@api_view(["GET", "POST"])
def prices(request: Request, offering_id: UUID) -> Response:
    """Every price of an offering, planned ones first; or set one. Running runs keep the price they began with."""
    user = me(request)
    may(standing_of(user.pk), Act.MANAGE_CATALOGUE).require()
    offering = one(Offering.objects.filter(pk=offering_id).first(), "offering")
    if request.method == "GET":
        now = clock.now()
        return listed(request, price_revisions(offering.pk), PRICES, lambda row: price_document(row, now))
    body = valid(PriceBody, request)
    once = Once.of(request, render=_made)
    done = services.set_price(
        offering_id=offering.pk,
        rate_micro_per_hour=body["hourly_credits"],
        starts_at=body["starts_at"],
        replaces=body["replaces"],
        by=user,
        once=once,
    )
    if isinstance(done, Reply):
        return Response(done.body, status=done.status)
    return Response(_made(done), status=201)


def _made(row: PriceRevision) -> dict[str, Any]:
    return price_document(price_revisions(row.offering_id).get(pk=row.pk), clock.now())


def price_document(row: Any, now: Any) -> dict[str, Any]:
    """A price (of `price_revisions`) as the API shows it at `now`."""
    return {
        "id": str(row.pk),
        "offering": str(row.offering_id),
        "hourly_credits": format_credits(row.rate_micro_per_hour),
        "starts_at": row.starts_at,
        "ends_at": row.ends_at,
        "state": _state(row, now),
    }


def _state(row: Any, now: Any) -> str:
    if row.ends_at is not None and row.ends_at <= row.starts_at:
        return "replaced"
    if row.starts_at > now:
        return "planned"
    return "past" if row.ends_at is not None and row.ends_at <= now else "current"
