"""Same URL, page or fragment; themes; the pages that say what went wrong."""

import pytest
from django.http import HttpResponse
from django.test import RequestFactory, override_settings
from django_htmx.middleware import HtmxMiddleware

from gshare_core.kit import htmx
from tests.web import samples

pytestmark = pytest.mark.urls("tests.web.console_urls")


def _ask(path="/", **headers):
    request = RequestFactory().get(path, headers=headers)
    HtmxMiddleware(lambda _: HttpResponse())(request)
    return request


def _dashboard(request):
    context = {"shell": samples.user_shell(), **samples.dashboard()}
    return htmx.answer(request, "sessions_app/dashboard.html", context, fragments=("money", "sessions"))


def test_a_visit_gets_the_page():
    assert b"<!doctype html>" in _dashboard(_ask()).content


def test_an_element_gets_the_partial_that_bears_its_id():
    html = _dashboard(_ask(**{"hx-request": "true", "hx-target": "sessions"})).content.decode().strip()
    assert html.startswith('<section id="sessions"')
    assert "<html" not in html


@pytest.mark.parametrize(
    "headers",
    [
        {"hx-request": "true", "hx-target": "limits"},
        {"hx-request": "true"},
        {"hx-request": "true", "hx-target": "sessions", "hx-boosted": "true"},
        {"hx-request": "true", "hx-target": "sessions", "hx-history-restore-request": "true"},
        {"hx-target": "sessions"},
    ],
    ids=["a fragment the view does not name", "no target", "boosted", "history restore", "no htmx"],
)
def test_everything_else_gets_the_page(headers):
    assert b"<!doctype html>" in _dashboard(_ask(**headers)).content


def test_caches_keep_page_and_fragment_apart():
    vary = _dashboard(_ask()).headers["Vary"]
    assert "HX-Request" in vary
    assert "HX-Target" in vary


def test_the_wallet_in_the_top_bar_is_answered_by_whichever_page_shows_it():
    html = _dashboard(_ask(**{"hx-request": "true", "hx-target": "wallet-chip"})).content.decode().strip()
    assert html.startswith('<a id="wallet-chip"')
    assert "291.25" in html


def test_htmx_follows_a_redirect_as_a_visit():
    assert htmx.go_to(_ask(), "/sessions/").status_code == 302
    answer = htmx.go_to(_ask(**{"hx-request": "true"}), "/sessions/")
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, "/sessions/")


def _choose(theme, target):
    return htmx.set_theme(RequestFactory().post("/account/theme/", {"theme": theme, "next": target}))


def test_a_chosen_theme_is_kept_and_the_system_is_no_choice():
    assert _choose("dark", "/wallet/").cookies["theme"].value == "dark"
    assert _choose("system", "/wallet/").cookies["theme"].value == ""
    assert _choose("<script>", "/wallet/").cookies["theme"].value == ""


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"])
def test_the_theme_form_leads_nowhere_else(target):
    assert _choose("dark", target).headers["Location"] == "/"


def test_an_unknown_theme_in_the_cookie_reaches_no_attribute():
    request = RequestFactory().get("/")
    request.COOKIES["theme"] = '"><script>'
    assert htmx.presentation(request) == {"theme": "", "theme_choice": "system"}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda r: htmx.bad_request(r, Exception()), 400),
        (lambda r: htmx.permission_denied(r, Exception()), 403),
        (lambda r: htmx.page_not_found(r, Exception()), 404),
        (htmx.server_error, 500),
        (lambda _: htmx.unavailable(), 503),
        (lambda r: htmx.csrf_failure(r, "Origin checking failed: secret-detail"), 403),
    ],
)
@override_settings(DEBUG=False)
def test_every_error_is_a_page_of_the_same_design_with_the_requests_id(answer, status, monkeypatch):
    monkeypatch.setattr("structlog.contextvars.get_contextvars", lambda: {"request_id": "req-7"})
    response = answer(_ask())
    html = response.content.decode()
    assert response.status_code == status
    assert "<h1>" in html
    assert "req-7" in html
    assert "secret-detail" not in html
    assert 'href="/"' in html


def test_a_503_says_when_to_come_back():
    assert htmx.unavailable(12).headers["Retry-After"] == "12"
