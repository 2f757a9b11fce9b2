"""Who gets into `/api/v1`, and the shape of every refusal."""

from __future__ import annotations

import base64

import pytest
import redis
from django.test import Client

from accounts.models import AuditEntry, User
from tests.builders import a_group, a_super_admin, a_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def signed_in(user: User, **options) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


def problem(response, status: int, code: str) -> dict:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, "about:blank")
    assert {"title", "detail", "errors", "remedy", "request_id", "gate", "facts"} <= set(body)
    return body


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer abc.def.ghi"},
        {"Authorization": "Basic " + base64.b64encode(b"user@example.org:" + PASSWORD.encode()).decode()},
        {"Authorization": "Token 0123456789"},
        {"Cookie": "__Host-sessionid=forged"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("get", "/api/v1/users"), ("post", "/api/v1/groups"), ("get", "/api/v1/audit")]
)
def test_a_console_sign_in_is_the_only_way_in(headers, method, path):
    a_user(email="user@example.org")
    response = getattr(Client(), method)(path, headers=headers)
    body = problem(response, 401, "unauthenticated")
    assert body["request_id"]
    assert "Basic" not in response["WWW-Authenticate"]
    assert "Bearer" not in response["WWW-Authenticate"]


def test_a_change_without_the_csrf_token_is_refused_and_with_it_goes_through():
    client = signed_in(a_super_admin(), enforce_csrf_checks=True)
    body = {"name": "Acme"}
    problem(client.post("/api/v1/organisations", body, content_type="application/json"), 403, "csrf_failed")
    client.get("/login/?again")
    token = client.get("/password/").cookies["__Host-csrftoken"].value
    made = client.post("/api/v1/organisations", body, content_type="application/json", headers={"X-CSRFToken": token})
    assert made.status_code == 201


def test_unknown_paths_methods_bodies_and_formats_are_problems_too():
    client = signed_in(a_super_admin())
    problem(client.get("/api/v1/nothing/here"), 404, "not_found")
    problem(client.delete("/api/v1/users"), 405, "method_not_allowed")
    problem(client.post("/api/v1/organisations", "{", content_type="application/json"), 400, "invalid")
    problem(client.post("/api/v1/organisations", "a=1", content_type="text/plain"), 415, "unsupported_media_type")
    problem(client.get("/api/v1/users", headers={"Accept": "text/html"}), 406, "not_acceptable")
    body = problem(client.post("/api/v1/organisations", {}, content_type="application/json"), 400, "invalid")
    assert list(body["errors"]) == ["name"]


def test_who_must_change_his_password_can_do_only_that():
    user = a_user(a_group(), must_change_password=True)
    client = signed_in(user)
    for path in ("/api/v1/users", "/api/v1/notifications", "/api/v1/policies"):
        problem(client.get(path), 403, "password_change_required")
    answer = client.post(
        "/api/v1/me/password",
        {"current": PASSWORD, "new": "seven green umbrellas"},
        content_type="application/json",
    )
    assert answer.status_code == 204
    assert client.get("/api/v1/users").status_code == 200
    assert AuditEntry.objects.get(act="user.change_password").actor_id == user.pk


def test_a_password_change_keeps_this_browser_and_ends_the_others():
    user = a_user()
    here, there = signed_in(user), signed_in(user)
    body = {"current": PASSWORD, "new": "seven green umbrellas"}
    assert here.post("/api/v1/me/password", body, content_type="application/json").status_code == 204
    assert here.get("/api/v1/users").status_code == 200
    problem(there.get("/api/v1/users"), 401, "unauthenticated")


def test_signing_out_everywhere_and_deactivation_end_every_browser():
    user = a_user(a_group())
    client = signed_in(user)
    assert client.post(f"/api/v1/users/{user.pk}/sign-out").status_code == 204
    problem(client.get("/api/v1/users"), 401, "unauthenticated")
    client = signed_in(User.objects.get(pk=user.pk))
    admin = signed_in(a_super_admin())
    path = f"/api/v1/users/{user.pk}"
    assert admin.patch(path, {"is_active": False}, content_type="application/json").json()["is_active"] is False
    problem(client.get("/api/v1/users"), 401, "unauthenticated")


def test_an_address_of_the_request_reaches_the_audit_trail():
    client = signed_in(a_super_admin())
    client.post("/api/v1/organisations", {"name": "Acme"}, content_type="application/json", REMOTE_ADDR="192.0.2.44")
    entry = AuditEntry.objects.get(act="organisation.create")
    assert entry.address == "192.0.2.44"
    assert entry.request_id


def test_too_many_requests_are_throttled_with_the_time_to_wait(monkeypatch):
    monkeypatch.setattr("rest_framework.throttling.SimpleRateThrottle.get_rate", lambda self: "2/min")
    client = signed_in(a_user())
    for _ in range(2):
        assert client.get("/api/v1/users").status_code == 200
    refused = client.get("/api/v1/users")
    problem(refused, 429, "throttled")
    assert int(refused["Retry-After"]) > 0


def test_when_the_throttles_store_does_not_answer_everybody_may_pass(monkeypatch):
    def unreachable(*_arguments, **_named):
        raise redis.ConnectionError("refused")

    monkeypatch.setattr("django.core.cache.backends.locmem.LocMemCache.incr", unreachable)
    assert signed_in(a_user()).get("/api/v1/users").status_code == 200
