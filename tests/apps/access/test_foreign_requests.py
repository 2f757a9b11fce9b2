"""What the console refuses of other sites' pages, as a table. No database."""

import asyncio
from collections.abc import Mapping

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from gshare_site.origins import SameOriginWrites, is_foreign

OWN = "http://localhost:8000"
SESSION = "http://0197f3c2-a1b2-7c4e-9d10-aabbccddeeff.localhost:8000"


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),
        ("POST", {}),
        ("POST", {"Origin": OWN}),
        ("POST", {"Origin": OWN, "Sec-Fetch-Site": "same-origin"}),
        ("DELETE", {"Sec-Fetch-Site": "none"}),
        ("POST", {"Origin": "null", "Sec-Fetch-Site": "same-origin"}),
        ("GET", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
        ("HEAD", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ],
)
def test_own_requests_and_visits_pass(method: str, headers: Mapping[str, str]) -> None:
    assert not is_foreign(method, headers, OWN)


@pytest.mark.parametrize("site", ["same-site", "cross-site", "unheard-of"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "MADE-UP"])
def test_a_request_of_another_site_is_foreign_whatever_its_method_and_origin(site: str, method: str) -> None:
    assert is_foreign(method, {"Sec-Fetch-Site": site}, OWN)
    assert is_foreign(method, {"Sec-Fetch-Site": site, "Origin": OWN, "Sec-Fetch-Mode": "cors"}, OWN)


@pytest.mark.parametrize(
    "origin", [SESSION, "null", "http://localhost", "https://localhost:8000", OWN + ".evil.example", ""]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_request_of_another_origin_is_foreign_without_fetch_metadata(origin: str, method: str) -> None:
    assert is_foreign(method, {"Origin": origin}, OWN)


def test_a_form_that_a_tab_posts_from_elsewhere_is_foreign() -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert is_foreign("POST", headers, OWN)


def test_a_frame_of_the_console_in_anothers_page_is_foreign() -> None:
    headers = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert is_foreign("GET", headers, OWN)


def _never(request: HttpRequest) -> HttpResponse:
    raise AssertionError("a foreign request went on")


def test_the_middleware_stops_a_foreign_page_request_before_anything_else_sees_it() -> None:
    request = RequestFactory().post("/sessions/", headers={"Origin": SESSION})
    response = SameOriginWrites(_never)(request)
    assert isinstance(response, HttpResponse)
    assert response.status_code == 403


def test_the_middleware_answers_a_foreign_api_request_with_a_problem() -> None:
    request = RequestFactory().post("/api/v1/sessions", headers={"Origin": SESSION})
    response = SameOriginWrites(_never)(request)
    assert isinstance(response, HttpResponse)
    assert response.status_code == 403
    assert b'"code": "csrf_failed"' in response.content
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"


def test_no_answer_may_be_embedded_elsewhere_or_read_across_origins() -> None:
    request = RequestFactory().get("/")
    response = SameOriginWrites(lambda _: HttpResponse("x"))(request)
    assert isinstance(response, HttpResponse)
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"
    assert not any(name.lower().startswith("access-control-") for name in response.headers)


def test_the_middleware_serves_an_event_loop_without_a_thread() -> None:
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("x")

    async def ask() -> HttpResponse:
        own, foreign = RequestFactory().get("/"), RequestFactory().get("/", headers={"Sec-Fetch-Site": "same-site"})
        assert (await SameOriginWrites(view)(foreign)).status_code == 403  # type: ignore[misc]
        return await SameOriginWrites(view)(own)  # type: ignore[misc]

    assert asyncio.run(ask())["Cross-Origin-Resource-Policy"] == "same-origin"
