"""/healthz, /readyz and /metrics, on the internal listener only.

Ready means: the database answers and has every migration of this release. Without Redis the service is degraded and still
ready, since pages, admission and money do not need it. A refusal names what is missing and shows no address.
"""

import os
from functools import cache

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from gshare_site.error_pages import AWAY
from gshare_site.gauges import RowGauges

REDIS_SECONDS = 0.5


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 `ok` or `degraded`; 503 names what is missing."""
    missing = missing_parts()
    if missing:
        return JsonResponse({"status": "unavailable", "missing": missing}, status=503)
    degraded = degraded_parts()
    return JsonResponse({"status": "degraded" if degraded else "ok", "degraded": degraded})


def missing_parts() -> list[str]:
    """What keeps this process from serving: `database`, or `migrations: app.name, …`."""
    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except AWAY:
        return ["database"]
    missing = sorted(f"{app}.{name}" for app, name in _wanted_migrations() - applied)
    return [f"migrations: {', '.join(missing)}"] if missing else []


@cache
def _wanted_migrations() -> frozenset[tuple[str, str]]:
    """The migrations of this release, read from its files once; a squashed one counts through its own name only."""
    return frozenset(MigrationLoader(None).graph.nodes)


def degraded_parts() -> list[str]:
    """What is away without harm to state and money: `redis`."""
    client = redis.Redis.from_url(
        settings.REDIS.client, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS
    )
    try:
        client.ping()
    except redis.RedisError:
        return ["redis"]
    finally:
        client.close()
    return []


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format: of all processes of this machine where they share PROMETHEUS_MULTIPROC_DIR, and of the rows."""
    processes = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        processes = CollectorRegistry()
        MultiProcessCollector(processes)
    of_rows = CollectorRegistry()
    of_rows.register(RowGauges())
    return HttpResponse(generate_latest(processes) + generate_latest(of_rows), content_type=CONTENT_TYPE_LATEST)
