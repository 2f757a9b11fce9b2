"""`/api/v1/sessions`: create, preview, list, look, and the verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import django_filters
from django.http import HttpRequest
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import parameters
from accounts.api.requests import me
from cluster.port import LOG_LINES_MAX
from gshare_core.errors import DomainError, not_found
from gshare_core.kit import clock, lists
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.money import format_credits
from sessions_app import access, queries, services
from sessions_app.admission import Admitted
from sessions_app.api import answers
from sessions_app.api.serializers import AskSerializer, LogsQuery, OpenSerializer, VerbSerializer
from sessions_app.domain.lifecycle import State
from sessions_app.logs import LINES, Said, look
from sessions_app.models import Session
from sessions_app.representation import represent, represent_one, timeline_row
from sessions_app.services import Asked

Verb = Callable[[Asked], Session | Reply]


class SessionFilter(django_filters.FilterSet):
    """`?state=running`, `?group=<id>`, `?offering=<id>`."""

    state = django_filters.MultipleChoiceFilter(choices=[(state.value, state.value) for state in State])

    class Meta:
        model = Session
        fields = ("state", "group", "offering")


LISTING = lists.Listing(
    orderings={"created_at": "created_at"}, default="-created_at", search=("name",), filters=SessionFilter
)

SCOPE = OpenApiParameter("scope", str, description="group:<id>, organisation:<id> or all, for administrators.")


@extend_schema(
    methods=["POST"],
    operation_id="create_session",
    request=AskSerializer,
    responses={201: answers.SessionAnswer},
    parameters=[OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, required=True)],
)
@extend_schema(
    methods=["GET"],
    operation_id="list_sessions",
    parameters=[*parameters(LISTING), SCOPE],
    responses=page(answers.SessionAnswer),
)
@api_view(["GET", "POST"])
def sessions(request: Request) -> Response:
    """Own sessions, or those of a scope; create one."""
    if request.method == "POST":
        return _create(request)
    scope = request.query_params.get("scope")
    rows = queries.sessions_in_scope(me(request), scope) if scope else queries.sessions_of(me(request))
    shown = lists.page_of(rows, LISTING, _plain(request))
    found, now = queries.details(shown.rows), clock.now()
    return Response(lists.answer(_plain(request), shown, lambda row: represent(row, found, now=now)))


def _create(request: Request) -> Response:
    ask = AskSerializer.read(request.data)
    once = Once.of(request, render=_admitted, status=201)
    made = services.create_session(ask, by=me(request), once=once)
    assert isinstance(made, Reply)
    return Response(made.body, status=made.status, headers={"Location": f"/api/v1/sessions/{made.body['id']}"})


@extend_schema(operation_id="preview_session", request=AskSerializer, responses=answers.PreviewAnswer)
@api_view(["POST"])
def preview(request: Request) -> Response:
    """Every gate's verdict, price, hold and where it would land; changes nothing."""
    found = services.preview(AskSerializer.read(request.data), by=me(request))
    return Response(
        {
            "outcome": found.outcome,
            "hourly_credits": format_credits(found.hourly),
            "hold_credits": format_credits(found.hold),
            "placement": found.placement,
            "missing": found.no_place.short if found.no_place else {},
            "queue_length": found.queue_length,
            "gates": [verdict.as_dict() for verdict in found.verdicts],
        }
    )


@extend_schema(operation_id="read_session", responses=answers.SessionAnswer)
@api_view(["GET"])
def session(request: Request, session_id: UUID) -> Response:
    """One session that the caller may see."""
    return Response(represent_one(visible(request, session_id), now=clock.now()))


@extend_schema(
    operation_id="read_timeline",
    responses=answers.TimelineAnswer(many=True),
)
@api_view(["GET"])
def timeline(request: Request, session_id: UUID) -> Response:
    """States and money, newest first."""
    return Response([timeline_row(row) for row in queries.timeline(visible(request, session_id))])


@extend_schema(
    operation_id="read_logs",
    parameters=[
        OpenApiParameter("run", int, description="A run's number; the current one unless it is named."),
        OpenApiParameter(
            "lines", int, description=f"How many of each source, 1 to {LOG_LINES_MAX}; {LINES} by default."
        ),
    ],
    responses=answers.LogsAnswer,
)
@api_view(["GET"])
def logs(request: Request, session_id: UUID) -> Response:
    """The last lines that a run's applications wrote. 503 while its cluster cannot be asked."""
    found, query = visible(request, session_id), LogsQuery(data=request.query_params)
    query.is_valid(raise_exception=True)
    seen = look(found, **query.validated_data)
    if seen.said in {Said.UNAVAILABLE, Said.REFUSED}:
        raise DomainError(
            "unavailable",
            _("The cluster does not show its logs now."),
            remedy=_("Try again shortly. If it lasts, tell an administrator."),
        )
    return Response({"run": seen.run, "lines": [{"source": line.source, "text": line.text} for line in seen.lines]})


@extend_schema(operation_id="pause_session", request=VerbSerializer, responses={202: answers.SessionAnswer})
@api_view(["POST"])
def pause(request: Request, session_id: UUID) -> Response:
    """Give the card back and keep the session."""
    return _ask(request, session_id, services.pause_session)


@extend_schema(operation_id="resume_session", request=VerbSerializer, responses={202: answers.SessionAnswer})
@api_view(["POST"])
def resume(request: Request, session_id: UUID) -> Response:
    """Admission again, at the present price."""
    return _ask(request, session_id, services.resume_session)


@extend_schema(operation_id="restart_session", request=VerbSerializer, responses={202: answers.SessionAnswer})
@api_view(["POST"])
def restart(request: Request, session_id: UUID) -> Response:
    """End what runs and begin anew on the same card."""
    return _ask(request, session_id, services.restart_session)


@extend_schema(operation_id="stop_session", request=VerbSerializer, responses={202: answers.SessionAnswer})
@api_view(["POST"])
def stop(request: Request, session_id: UUID) -> Response:
    """End the session; volumes stay."""
    return _ask(request, session_id, services.stop_session)


@extend_schema(operation_id="keep_session_alive", request=VerbSerializer, responses={202: answers.SessionAnswer})
@api_view(["POST"])
def keep_alive(request: Request, session_id: UUID) -> Response:
    """Put the idle pause off."""
    return _ask(request, session_id, services.keep_alive)


@extend_schema(operation_id="keep_session_paused", request=VerbSerializer, responses={202: answers.SessionAnswer})
@api_view(["POST"])
def stay_paused(request: Request, session_id: UUID) -> Response:
    """Call off the resume by itself that a paused session waits for."""
    return _ask(request, session_id, services.stay_paused)


@extend_schema(operation_id="open_session", request=OpenSerializer, responses=answers.LinkAnswer)
@api_view(["POST"])
def open_app(request: Request, session_id: UUID) -> Response:
    """A one-time link into one of the session's applications."""
    body = OpenSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    found = visible(request, session_id)
    reason = body.validated_data["reason"] or None
    link = access.mint(session_id=found.pk, by=me(request), app=body.validated_data["app"], reason=reason)
    return Response({"url": link.url, "expires_at": link.expires_at})


def visible(request: Request, session_id: UUID) -> Session:
    """The session, fetched from what the caller may see: a stranger gets 404."""
    found = queries.visible_sessions(me(request)).filter(pk=session_id).first()
    if found is None:
        raise not_found("session")
    return found


def _ask(request: Request, session_id: UUID, verb: Verb) -> Response:
    body = VerbSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    found = visible(request, session_id)
    verb(Asked(found.pk, me(request), reason=body.validated_data["reason"]))
    return Response(_document(found), status=202)


def _admitted(made: Admitted) -> dict[str, Any]:
    """A session as its admission made it: nothing of it has to be read again."""
    return represent(made.session, made.details, now=made.at)


def _document(session_row: Session) -> dict[str, Any]:
    fresh = queries.rows().get(pk=session_row.pk)
    return represent_one(fresh, now=clock.now())


def _plain(request: Request) -> HttpRequest:
    return request._request  # noqa: SLF001 -- the framework's documented way to the request that it wraps
