"""`/api/v1/queue`: own entries, or those of a scope; administrators set the priority."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.requests import me
from gshare_core.kit import clock
from sessions_app import queries, services
from sessions_app.api import answers
from sessions_app.api.serializers import PrioritySerializer
from sessions_app.api.sessions import SCOPE, visible
from sessions_app.domain.lifecycle import State
from sessions_app.representation import represent, represent_one

LIMIT = 200


@extend_schema(operation_id="list_queue", parameters=[SCOPE], responses=page(answers.SessionAnswer))
@api_view(["GET"])
def queue(request: Request) -> Response:
    """Who waits, with lane, position, reason."""
    scope = request.query_params.get("scope")
    rows = queries.sessions_in_scope(me(request), scope) if scope else queries.sessions_of(me(request))
    waiting = list(rows.filter(state=State.QUEUED).order_by("line_at", "id")[:LIMIT])
    found, now = queries.details(waiting), clock.now()
    results = [represent(session, found, now=now) for session in waiting]
    return Response({"results": results, "next": None, "count": len(results), "count_is_exact": len(results) < LIMIT})


@extend_schema(operation_id="set_priority", request=PrioritySerializer, responses=answers.SessionAnswer)
@api_view(["PATCH"])
def entry(request: Request, session_id: UUID) -> Response:
    """Set the priority of a waiting session."""
    body = PrioritySerializer(data=request.data)
    body.is_valid(raise_exception=True)
    found = visible(request, session_id)
    asked = services.Asked(found.pk, me(request), reason=body.validated_data["reason"])
    services.set_priority(asked, body.validated_data["priority"])
    return Response(represent_one(queries.rows().get(pk=found.pk), now=clock.now()))
