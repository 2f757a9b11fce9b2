"""What every answer of the console tells a browser."""

import re

import pytest
from django.conf import settings
from django.test import Client

pytestmark = pytest.mark.django_db


def test_the_content_security_policy_lets_only_our_own_files_in_and_nothing_inline() -> None:
    policy = Client().get("/login/").headers["Content-Security-Policy"]
    directives = dict(part.strip().partition(" ")[::2] for part in policy.split(";") if part.strip())
    assert directives["default-src"] == "'none'"
    for name in ("script-src", "style-src", "img-src", "font-src", "connect-src"):
        assert directives[name] == "'self'", name
    assert directives["form-action"] == "'self' http://*.localhost:8000", "a form may lead into a session's own host"
    for name in ("base-uri", "frame-ancestors", "object-src"):
        assert directives[name] == "'none'", name
    assert "unsafe" not in policy


def test_pages_cannot_be_framed_sniffed_or_reached_by_openers() -> None:
    headers = Client().get("/login/").headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]


def test_every_answer_carries_a_request_id() -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}", Client().get("/login/").headers["X-Request-ID"])


def test_cookies_are_bound_to_this_host_and_to_secure_connections() -> None:
    client = Client()
    client.get("/login/")
    cookie = client.cookies["__Host-csrftoken"]
    assert cookie["secure"]
    assert cookie["samesite"] == "Lax"
    assert (cookie["path"], cookie["domain"]) == ("/", "")
    assert settings.SESSION_COOKIE_NAME == "__Host-sessionid"
    assert (settings.SESSION_COOKIE_SECURE, settings.SESSION_COOKIE_HTTPONLY) == (True, True)


def test_an_address_that_does_not_exist_answers_in_the_form_that_was_asked_for() -> None:
    page, problem = Client().get("/no/such/page"), Client().get("/api/v1/no-such-thing")
    assert (page.status_code, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert (problem.status_code, problem.headers["Content-Type"]) == (404, "application/problem+json")
    assert problem.json()["code"] == "not_found"


def test_no_page_names_another_host() -> None:
    body = Client().get("/login/").content.decode()
    assert re.findall(r"(?:src|href|action)=\"(?:https?:)?//", body) == []
