"""`/api/v1/credit-requests`: what is asked one level up, and how it is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me, one, valid
from accounts.permissions import (
    administered_groups,
    administered_organisations,
    visible_groups,
    visible_organisations,
)
from billing import services
from billing.api import answers, documents, serializers
from billing.api.wallets import ONCE, named_in_body, visible
from billing.models import SYSTEM_ID, Account, CreditRequest, RequestState
from billing.models.ledger import owners_of
from billing.sight import between_wallets
from gshare_core.errors import invalid, not_found
from gshare_core.kit.idempotency import Once, Reply

if TYPE_CHECKING:
    from accounts.models import User

INBOX = OpenApiParameter("inbox", bool, description="Only the open ones that the caller can decide.")


def visible_requests(user: User) -> QuerySet[CreditRequest]:
    """One's own, and those to and from the places that one administers; all for super administrators."""
    rows = CreditRequest.objects.select_related(*owners_of("wallet", "parent"), "asked_by", "decided_by")
    return rows if user.is_super_admin else rows.filter(Q(asked_by=user) | between_wallets(user))


def inbox_of(user: User) -> QuerySet[CreditRequest]:
    """The open ones that somebody can decide; never his own."""
    rows = visible_requests(user).filter(state=RequestState.OPEN).exclude(asked_by=user)
    if user.is_super_admin:
        return rows
    groups, organisations = administered_groups(user).values("pk"), administered_organisations(user).values("pk")
    return rows.filter(Q(parent__group__in=groups) | Q(parent__organisation__in=organisations))


@extend_schema(
    methods=["GET"],
    operation_id="list_credit_requests",
    parameters=[*parameters(documents.REQUESTS), INBOX],
    responses=page(answers.RequestAnswer),
)
@extend_schema(
    methods=["POST"],
    operation_id="ask_for_credits",
    request=serializers.CreditAsk,
    responses={201: answers.RequestAnswer},
)
@api_view(["GET", "POST"])
def requests(request: Request) -> Response:
    """Requests that the caller may see, newest first; or ask for credits."""
    user = me(request)
    if request.method == "GET":
        rows = inbox_of(user) if request.GET.get("inbox") == "true" else visible_requests(user)
        return listed(request, rows, documents.REQUESTS, documents.credit_request)
    body = valid(serializers.CreditAsk, request)
    wallet = named_in_body(request, body["wallet"] or ("user", user.pk))
    parent = _asked_of(request, wallet, body["parent"])
    made = services.ask_for_credits(wallet=wallet, parent=parent, amount=body["amount"], reason=body["reason"], by=user)
    return Response(documents.credit_request(made), status=201)


@extend_schema(operation_id="read_credit_request", responses=answers.RequestAnswer)
@api_view(["GET"])
def request_of(request: Request, request_id: UUID) -> Response:
    """One request."""
    return Response(documents.credit_request(_visible(request, request_id)))


@extend_schema(
    operation_id="approve_credit_request",
    request=serializers.Note,
    parameters=[ONCE],
    responses={201: answers.RequestAnswer},
)
@api_view(["POST"])
def approve(request: Request, request_id: UUID) -> Response:
    """Give what was asked for, in the same transaction. Nobody approves his own."""
    row, body = _visible(request, request_id), valid(serializers.Note, request)
    once = Once.of(request, render=documents.credit_request)
    done = services.approve_request(request_id=row.pk, by=me(request), note=body["note"], once=once)
    if isinstance(done, Reply):
        return Response(done.body, status=done.status)
    return Response(documents.credit_request(done), status=201)


@extend_schema(operation_id="reject_credit_request", request=serializers.Rejection, responses=answers.RequestAnswer)
@api_view(["POST"])
def reject(request: Request, request_id: UUID) -> Response:
    """Refuse what was asked for, with a reason."""
    row, body = _visible(request, request_id), valid(serializers.Rejection, request)
    done = services.reject_request(request_id=row.pk, reason=body["reason"], by=me(request))
    return Response(documents.credit_request(done))


@extend_schema(operation_id="withdraw_credit_request", request=None, responses=answers.RequestAnswer)
@api_view(["POST"])
def withdraw(request: Request, request_id: UUID) -> Response:
    """Take one's own request back."""
    row = _visible(request, request_id)
    return Response(documents.credit_request(services.withdraw_request(request_id=row.pk, by=me(request))))


@extend_schema(operation_id="forward_credit_request", request=serializers.Note, responses={201: answers.RequestAnswer})
@api_view(["POST"])
def forward(request: Request, request_id: UUID) -> Response:
    """Ask the next level for what a request needs; answers the new request, the old one stays open."""
    row, body = _visible(request, request_id), valid(serializers.Note, request)
    made = services.forward_request(request_id=row.pk, by=me(request), note=body["note"])
    return Response(documents.credit_request(made), status=201)


def _visible(request: Request, request_id: UUID) -> CreditRequest:
    return one(visible_requests(me(request)).filter(pk=request_id).first(), "credit request")


def _asked_of(request: Request, wallet: UUID, named: tuple[str, UUID] | None) -> UUID:
    """The wallet that is asked: the named one if the asker can know of its owner, else what stands above alone.

    Raises `not_found`, `invalid` when a person has several groups and names none.
    """
    user = me(request)
    if named is not None:
        return _known(user, named)
    row = visible(request, wallet)
    if row.user_id is None:
        return services.wallet_above(row)
    groups = list(visible_groups(user).filter(memberships__user=row.user_id).values_list("pk", flat=True)[:2])
    if len(groups) != 1:
        raise invalid("parent", _("Name the group that is asked."))
    return services.ensure_wallet("group", groups[0])


def _known(user: User, named: tuple[str, UUID]) -> UUID:
    """A group or organisation of one's own, by its id or its wallet's; the system's wallet for who may see it."""
    kind, key = named
    if kind == "wallet":
        row = one(Account.objects.wallets().filter(pk=key).first(), "wallet")
        if row.group_id is None and row.organisation_id is None:
            if key == SYSTEM_ID and (user.is_super_admin or administered_organisations(user).exists()):
                return key
            raise not_found("wallet")
        kind, key = ("group", row.group_id) if row.group_id else ("organisation", row.organisation_id)  # type: ignore[assignment]
    places: dict[str, QuerySet[Any]] = {"group": visible_groups(user), "organisation": visible_organisations(user)}
    if kind not in places or not places[kind].filter(pk=key).exists():
        raise not_found("wallet")
    return services.ensure_wallet(kind, key)  # type: ignore[arg-type]  # one of the two places
