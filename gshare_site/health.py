"""/healthz, /readyz and /metrics, on the internal listener only.

Ready means: the database answers and has every migration of this release. Without Redis the service is degraded and still
ready, since pages, admission and money do not need it. A refusal names what is missing and shows no address.
"""

import os

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

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
        connection.ensure_connection()
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return ["database"]
    if plan:
        return ["migrations: " + ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan)]
    return []


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
    """Prometheus' text format; of all processes of this machine where they share PROMETHEUS_MULTIPROC_DIR."""
    registry = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
