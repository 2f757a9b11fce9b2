"""`/api/v1/budgets`: limits on spend, how they stand, and where they are heading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import parameters
from accounts.api.requests import me, one, valid
from accounts.permissions import administered_groups, administered_organisations, visible_users
from billing import budget_state, services
from billing.api import answers, documents, serializers
from billing.domain.budgets import Rule
from billing.models import Budget
from gshare_core.errors import not_found
from gshare_core.kit import clock
from gshare_core.kit.lists import answer, page_of

if TYPE_CHECKING:
    from accounts.models import User


def visible_budgets(user: User) -> QuerySet[Budget]:
    """The active budgets of oneself, and of the people and places that one administers; all for super administrators."""
    rows = Budget.objects.filter(is_active=True)
    if user.is_super_admin:
        return rows
    places = administered_groups(user).values("pk"), administered_organisations(user).values("pk")
    return rows.filter(budget_state.of_places(visible_users(user).values("pk"), *places))


@extend_schema(
    methods=["GET"],
    operation_id="list_budgets",
    parameters=parameters(documents.BUDGETS),
    responses=page(answers.BudgetAnswer),
)
@extend_schema(
    methods=["POST"], operation_id="create_budget", request=serializers.NewBudget, responses={201: answers.BudgetAnswer}
)
@api_view(["GET", "POST"])
def budgets(request: Request) -> Response:
    """Budgets that the caller may see, with how their present period stands; or a new one."""
    at, user = clock.now(), me(request)
    if request.method == "GET":
        shown = page_of(visible_budgets(user), documents.BUDGETS, request)
        states = {state.row.pk: state for state in budget_state.states(shown.rows, at)}
        return Response(answer(request, shown, lambda row: documents.budget(states[row.pk])))
    body = valid(serializers.NewBudget, request)
    scope = services.BudgetScope(*body["scope"])
    _check_seen(user, scope)
    first, last = body["period"]
    rule = Rule(body["time_zone"], first, last)
    made = services.create_budget(scope=scope, limit=body["limit"], mode=body["mode"], rule=rule, by=user)
    return Response(_document(made), status=201)


@extend_schema(methods=["GET"], operation_id="read_budget", responses=answers.BudgetAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_budget", request=serializers.BudgetChange, responses=answers.BudgetAnswer
)
@extend_schema(methods=["DELETE"], operation_id="close_budget", responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def budget(request: Request, budget_id: UUID) -> Response:
    """One budget; another limit or mode for it; or its end. Scope, dates and zone never change."""
    row = _visible(request, budget_id)
    if request.method == "DELETE":
        services.close_budget(budget_id=row.pk, by=me(request))
        return Response(status=204)
    if request.method == "PATCH":
        body = valid(serializers.BudgetChange, request)
        row = services.change_budget(budget_id=row.pk, limit=body.get("limit"), mode=body.get("mode"), by=me(request))
    return Response(_document(row))


@extend_schema(operation_id="forecast_budget", responses=answers.ForecastAnswer)
@api_view(["GET"])
def forecast(request: Request, budget_id: UUID) -> Response:
    """Where the budget's present period is heading by the pace of the last days."""
    return Response(documents.forecast(*budget_state.forecast(_visible(request, budget_id), clock.now())))


def _document(row: Budget) -> dict[str, Any]:
    (state,) = budget_state.states([row], clock.now())
    return documents.budget(state)


def _visible(request: Request, budget_id: UUID) -> Budget:
    return one(visible_budgets(me(request)).filter(pk=budget_id).first(), "budget")


def _check_seen(user: User, scope: services.BudgetScope) -> None:
    """Raises `not_found` for a scope that the caller cannot know of as its administrator."""
    places: dict[str, QuerySet[Any]] = {
        "user": visible_users(user),
        "group": administered_groups(user),
        "organisation": administered_organisations(user),
    }
    if not places[scope.kind].filter(pk=scope.id).exists():
        raise not_found(scope.kind)
