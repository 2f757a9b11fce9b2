"""Health says what is missing by name, and is not to be had on the public listener."""

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client, override_settings

from gshare_site.services import database_settings, redis_urls

internal = override_settings(ROOT_URLCONF="gshare_site.urls_internal")
NOWHERE = "redis://127.0.0.1:1/0"


@internal
def test_a_process_that_answers_is_healthy_whatever_else_is_away() -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}


@internal
@pytest.mark.django_db
def test_with_database_and_redis_it_is_ready(redis_url: str) -> None:
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "degraded": []})


@internal
@pytest.mark.django_db
def test_without_redis_it_is_degraded_and_still_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS", redis_urls(NOWHERE))
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["degraded"]) == (200, ["redis"])


@internal
@pytest.mark.django_db(transaction=True)
def test_a_missing_migration_is_named(owner_connection: psycopg.Connection) -> None:
    gone = owner_connection.execute(
        "DELETE FROM django_migrations WHERE app = 'accounts' AND name LIKE '0001%' RETURNING app, name, applied"
    ).fetchone()
    try:
        answer = Client().get("/readyz")
    finally:
        owner_connection.execute("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)", gone)
    assert answer.status_code == 503
    assert answer.json()["missing"] == [f"migrations: accounts.{gone[1]}"]


@internal
@pytest.mark.django_db(transaction=True)
def test_without_database_it_is_not_ready_and_shows_no_address() -> None:
    away = database_settings("postgresql://app:hunter2@127.0.0.1:1/gshare")
    connection.close()
    kept = dict(connection.settings_dict)
    connection.settings_dict.update(away)
    try:
        answer = Client().get("/readyz")
    finally:
        connection.settings_dict.clear()
        connection.settings_dict.update(kept)
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "missing": ["database"]}


@internal
@pytest.mark.django_db
def test_metrics_tell_what_the_rows_say() -> None:
    text = Client().get("/metrics").content.decode()
    assert "gshare_audit_unsealed 0.0" in text
    assert "# TYPE gshare_sessions gauge" in text


@internal
@pytest.mark.django_db
def test_metrics_are_in_prometheus_form_and_count_routes_not_paths() -> None:
    Client().get("/healthz")
    text = Client().get("/metrics").content.decode()
    assert 'gshare_requests_total{method="GET",route="healthz",status="200"}' in text


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/readyz",
        "/metrics",
        "/internal/v1/desired",
        "/internal/v1/inventory",
        "/.well-known/gshare-internal-jwks.json",
    ],
)
def test_the_public_listener_knows_nothing_of_the_internal_one(path: str) -> None:
    for method in ("get", "post"):
        assert getattr(Client(), method)(path).status_code == 404
