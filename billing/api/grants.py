"""`/api/v1/wallets/{id}/monthly-grant` and `/refills`: what parents promise each month, and what became of it."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me, valid
from billing import services
from billing.api import answers, documents, serializers
from billing.api.wallets import named_in_body, visible, wallet_answer
from billing.models import GrantRefill
from billing.models.ledger import owners_of
from billing.sight import between_wallets


@extend_schema(operation_id="set_monthly_grant", request=serializers.Grant, responses=answers.WalletAnswer)
@api_view(["PUT"])
def monthly_grant(request: Request, wallet_id: UUID) -> Response:
    """Say what a parent gives this wallet at the start of each month, from the next one on; 0 ends it."""
    row, body = visible(request, wallet_id), valid(serializers.Grant, request)
    parent = named_in_body(request, body["parent"])
    services.set_monthly_grant(wallet=row.pk, parent=parent, amount=body["amount"], by=me(request))
    return Response(wallet_answer(row, me(request)))


@extend_schema(
    operation_id="list_refills", parameters=parameters(documents.REFILLS), responses=page(answers.RefillAnswer)
)
@api_view(["GET"])
def refills(request: Request, wallet_id: UUID) -> Response:
    """What this wallet got and gave at the start of each month, newest first, with what was missing."""
    row = visible(request, wallet_id)
    rows = GrantRefill.objects.filter(Q(wallet=row) | Q(parent=row)).filter(between_wallets(me(request)))
    return listed(request, rows.select_related(*owners_of("wallet")), documents.REFILLS, documents.refill)
