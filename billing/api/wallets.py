"""`/api/v1/wallets`: what somebody may see of wallets, and credits that he moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes, extend_schema
from rest_framework.decorators import api_view, renderer_classes
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me, one, valid
from accounts.permissions import administered_groups, administered_organisations, visible_users
from billing import queries, services
from billing.api import answers, documents, serializers
from billing.models import Account, Transfer, TransferKind
from gshare_core.errors import not_found
from gshare_core.kit import clock
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.kit.lists import CsvRenderer, answer, csv_response, csv_rows, page_of, wants_csv

if TYPE_CHECKING:
    from accounts.models import User


ONCE = OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, required=True)


def visible_wallets(user: User) -> QuerySet[Account]:
    """One's own, and those of the people, groups and organisations that one administers; all for super administrators."""
    rows = Account.objects.wallets().select_related("organisation", "group", "user")
    if user.is_super_admin:
        return rows
    return rows.filter(
        Q(user_id__in=visible_users(user).values("pk"))
        | Q(group_id__in=administered_groups(user).values("pk"))
        | Q(organisation_id__in=administered_organisations(user).values("pk"))
    )


@extend_schema(
    operation_id="list_wallets", parameters=parameters(documents.WALLETS), responses=page(answers.WalletAnswer)
)
@api_view(["GET"])
def wallets(request: Request) -> Response:
    """The wallets that the caller may see; his own is made at the first look."""
    user = me(request)
    services.ensure_wallet("user", user.pk)
    shown = page_of(visible_wallets(user), documents.WALLETS, request)
    keys = [row.pk for row in shown.rows]
    accrued, grants = queries.accrued_of(keys, clock.now()), queries.grants_of(keys, viewer=user)
    return Response(answer(request, shown, lambda row: documents.wallet(row, accrued[row.pk], grants[row.pk])))


@extend_schema(operation_id="read_wallet", responses=answers.WalletAnswer)
@api_view(["GET"])
def wallet(request: Request, wallet_id: UUID) -> Response:
    """One wallet."""
    return Response(wallet_answer(visible(request, wallet_id), me(request)))


@extend_schema(
    operation_id="list_entries",
    parameters=parameters(documents.ENTRIES),
    responses={(200, "application/json"): page(answers.EntryAnswer), (200, "text/csv"): OpenApiTypes.STR},
)
@api_view(["GET"])
@renderer_classes([JSONRenderer, CsvRenderer])
def entries(request: Request, wallet_id: UUID) -> HttpResponseBase:
    """A wallet's transfers, newest first, each with the balance after it."""
    row = visible(request, wallet_id)
    rows = queries.entries(row.pk, viewer=me(request))
    if not wants_csv(request):
        return listed(request, rows, documents.ENTRIES, documents.entry)
    table = (documents.entry(entry) for entry in csv_rows(rows, documents.ENTRIES, request.GET))
    columns = documents.ENTRY_COLUMNS
    return csv_response("entries.csv", columns, ([entry[name] for name in columns] for entry in table))


@extend_schema(
    operation_id="allocate_credits",
    request=serializers.Move,
    parameters=[ONCE],
    responses={201: answers.TransferAnswer},
)
@api_view(["POST"])
def allocate(request: Request, wallet_id: UUID) -> Response:
    """Hand credits from this wallet down to a neighbour."""
    source, body = visible(request, wallet_id), valid(serializers.Move, request)
    to = named_in_body(request, body["to"])
    once = Once.of(request, render=documents.transfer)
    return _answer(
        services.allocate(source=source.pk, to=to, amount=body["amount"], note=body["note"], by=me(request), once=once)
    )


@extend_schema(
    operation_id="reclaim_credits",
    request=serializers.Move,
    parameters=[ONCE],
    responses={201: answers.TransferAnswer},
)
@api_view(["POST"])
def reclaim(request: Request, wallet_id: UUID) -> Response:
    """Take credits back from this wallet to the parent that gave them."""
    source, body = visible(request, wallet_id), valid(serializers.Move, request)
    to = named_in_body(request, body["to"])
    once = Once.of(request, render=documents.transfer)
    return _answer(
        services.reclaim(source=source.pk, to=to, amount=body["amount"], note=body["note"], by=me(request), once=once)
    )


@extend_schema(
    operation_id="move_credits_in_bulk",
    request=serializers.Bulk,
    parameters=[ONCE],
    responses={200: answers.BulkAnswer, 201: answers.BulkAnswer},
)
@api_view(["POST"])
def bulk(request: Request, wallet_id: UUID) -> Response:
    """Hand credits to, or take them back from, many children of this wallet: all or nothing; `dry_run` changes nothing."""
    parent, body = visible(request, wallet_id), valid(serializers.Bulk, request)
    moves = [services.Move(named_in_body(request, line["wallet"]), line["amount"]) for line in body["moves"]]
    order = services.BulkOrder(TransferKind(body["act"]), parent.pk, moves, body["note"])
    once = Once.of(request, render=documents.bulk)
    done = services.move_in_bulk(order, by=me(request), dry_run=body["dry_run"], once=once)
    if isinstance(done, Reply):
        return Response(done.body, status=done.status)
    return Response(documents.bulk(done), status=200 if done.dry_run else 201)


@extend_schema(
    operation_id="issue_credits",
    request=serializers.Issue,
    parameters=[ONCE],
    responses={201: answers.TransferAnswer},
)
@api_view(["POST"])
def issue(request: Request) -> Response:
    """Make credits, into the system's wallet."""
    body = valid(serializers.Issue, request)
    once = Once.of(request, render=documents.transfer)
    return _answer(services.issue(amount=body["amount"], note=body["note"], by=me(request), once=once))


@extend_schema(
    operation_id="adjust_wallet",
    request=serializers.Adjust,
    parameters=[ONCE],
    responses={201: answers.TransferAnswer},
)
@api_view(["POST"])
def adjust(request: Request, wallet_id: UUID) -> Response:
    """Correct a wallet by a signed amount, with a reason."""
    row, body = visible(request, wallet_id), valid(serializers.Adjust, request)
    once = Once.of(request, render=documents.transfer)
    reason = body["reason"] or body["note"]
    return _answer(services.adjust(wallet=row.pk, amount=body["amount"], reason=reason, by=me(request), once=once))


def wallet_answer(row: Account, viewer: User) -> dict[str, Any]:
    """One wallet as it stands."""
    accrued, grants = queries.accrued_of([row.pk], clock.now()), queries.grants_of([row.pk], viewer=viewer)
    return documents.wallet(row, accrued[row.pk], grants[row.pk])


def visible(request: Request, wallet_id: UUID) -> Account:
    """The wallet, if the caller may see it. Raises `not_found`."""
    return one(visible_wallets(me(request)).filter(pk=wallet_id).first(), "wallet")


def named_in_body(request: Request, to: tuple[str, UUID]) -> UUID:
    """The wallet that a body names, made where its owner has none yet. Raises `not_found` for what is not visible."""
    kind, key = to
    if kind == "wallet":
        return visible(request, key).pk
    user = me(request)
    owners: dict[str, QuerySet[Any]] = {
        "user": visible_users(user),
        "group": administered_groups(user),
        "organisation": administered_organisations(user),
    }
    if not owners[kind].filter(pk=key).exists():
        raise not_found("wallet")
    return services.ensure_wallet(kind, key)  # type: ignore[arg-type]  # the serializer lets only these kinds pass


def _answer(done: Transfer | Reply) -> Response:
    if isinstance(done, Reply):
        return Response(done.body, status=done.status)
    return Response(documents.transfer(done), status=201)
