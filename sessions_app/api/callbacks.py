"""`/internal/v1`: status, inventory and agents' samples from clusters. Each speaks for its own cluster only."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import structlog
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from pydantic import ValidationError

from cluster import queries as cluster_queries
from cluster.callbacks.auth import caller
from gshare_core.contract import HEADER_STALE, Inventory, StatusReport, UsageRow, explain
from gshare_core.errors import DomainError, invalid
from gshare_core.kit import clock
from gshare_core.kit.problem import problem_response
from sessions_app import activity, reports
from sessions_app.models import Run

logger = structlog.get_logger(__name__)

BODY_MAX = 8 * 1024 * 1024


@csrf_exempt
@require_POST
def status(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """One run's report. 204, with `X-GShare-Stale: true` when it changed nothing; 403 for another cluster's session."""
    try:
        cluster_id = caller(request, scope="operator").cluster_id
        report = StatusReport.model_validate(_body(request))
        _check_own(session_id, cluster_id)
        fresh = reports.receive_status(cluster_id, session_id, report)
    except ValidationError as error:
        return problem_response(invalid("body", explain(error)), request)
    except DomainError as error:
        return problem_response(error, request)
    return HttpResponse(status=204, headers={} if fresh else {HEADER_STALE: "true"})


@csrf_exempt
@require_POST
def inventory(request: HttpRequest) -> HttpResponse:
    """One beat: what the cluster has. Bad rows are skipped and listed in the answer."""
    try:
        cluster_id = caller(request, scope="operator").cluster_id
        document, bad = Inventory.read(_body(request))
        receipt = reports.receive_inventory(cluster_id, document, bad)
    except ValidationError as error:
        return problem_response(invalid("body", explain(error)), request)
    except ValueError as error:
        return problem_response(invalid("body", str(error)), request)
    except DomainError as error:
        return problem_response(error, request)
    skipped = [{"where": row.where, "why": row.why} for row in (*bad, *receipt.skipped)]
    headers = {HEADER_STALE: "true"} if receipt.stale else {}
    return JsonResponse({"skipped": skipped}, headers=headers)


@csrf_exempt
@require_POST
def samples(request: HttpRequest) -> HttpResponse:
    """What agents counted of runs on their nodes. Rows that cannot be read or are not this cluster's are skipped and listed."""
    try:
        cluster_id = caller(request, scope="agent").cluster_id
        rows, bad = UsageRow.read(_body(request))
        newest = UsageRow.newest(rows)
        news, foreign = activity.hear_usage(cluster_id, newest, now=clock.now())
    except ValueError as error:
        return problem_response(invalid("body", str(error)), request)
    except DomainError as error:
        return problem_response(error, request)
    if foreign:
        logger.warning("samples_of_foreign_runs", cluster=str(cluster_id), runs=len(foreign))
    skipped = [{"where": row.where, "why": row.why} for row in bad]
    skipped += [
        {"where": f"session {session} run {run}", "why": "This run is not one of your cluster's."}
        for session, run in sorted(foreign)
    ]
    return JsonResponse({"skipped": skipped}, headers={} if news else {HEADER_STALE: "true"})


def _check_own(session_id: UUID, cluster_id: UUID) -> None:
    """A cluster speaks for the sessions that had a run on it, and for those that it is told to end.

    Any other looks the same to it, whether it exists or not.
    """
    had_run = Run.objects.filter(session_id=session_id, cluster_id=cluster_id).exists()
    if not had_run and not cluster_queries.is_told(session_id, cluster_id):
        raise DomainError("forbidden", "This session is not one of your cluster's.")


def _body(request: HttpRequest) -> Any:
    if len(request.body) > BODY_MAX:
        raise invalid("body", f"At most {BODY_MAX} bytes.")
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise invalid("body", "This is not JSON, or nested too deeply.") from error
