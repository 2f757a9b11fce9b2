"""The rules at a session's door, over every combination that matters. No database."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from sessions_app.asking import asked_of, original_request
from sessions_app.domain.access import (
    Asked,
    Grant,
    Standing,
    Why,
    app_of,
    objection,
    path_for_app,
    trespass,
)

OWN = "http://0197f3c2-a1b2-7c4e-9d10-aabbccddeeff.localhost:8000"
OTHER = "http://0197f3c2-a1b2-7c4e-9d10-aabbccddee00.localhost:8000"
CONSOLE = "http://localhost:8000"
PAGE = Asked(method="GET", host="h", path="/lab/lab")
TAB: dict[str, Any] = {"fetch_mode": "navigate", "fetch_dest": "document"}


@pytest.mark.parametrize("site", [None, "none", "same-origin", "same-site", "cross-site"])
def test_a_tab_may_go_to_a_session_from_anywhere(site: str | None) -> None:
    assert trespass(replace(PAGE, fetch_site=site, **TAB), OWN) is None


@pytest.mark.parametrize("site", ["same-site", "cross-site", "anything-new"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [
        ("no-cors", "image"),
        ("no-cors", "script"),
        ("cors", "empty"),
        ("navigate", "iframe"),
        ("navigate", "embed"),
        ("websocket", "websocket"),
        (None, None),
        ("navigate", None),
    ],
)
def test_nothing_else_of_another_site_gets_in(site: str, mode: str | None, dest: str | None) -> None:
    asked = replace(PAGE, fetch_site=site, fetch_mode=mode, fetch_dest=dest)
    assert trespass(asked, OWN) is Why.CROSS_SITE


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
@pytest.mark.parametrize(
    "origin", [OTHER, CONSOLE, "null", "", OWN + "/", OWN.upper(), OWN.replace("http", "https"), None]
)
def test_an_unsafe_request_must_carry_exactly_the_own_origin(method: str, origin: str | None) -> None:
    asked = replace(PAGE, method=method, origin=origin)
    assert trespass(asked, OWN) is Why.FOREIGN_ORIGIN
    assert trespass(replace(asked, origin=OWN), OWN) is None
    assert trespass(replace(asked, origin=OWN, fetch_site="same-origin"), OWN) is None


@pytest.mark.parametrize("origin", [OTHER, CONSOLE, "null", None])
def test_a_websocket_must_carry_exactly_the_own_origin(origin: str | None) -> None:
    asked = replace(PAGE, websocket=True, origin=origin)
    assert trespass(asked, OWN) is Why.FOREIGN_ORIGIN
    assert trespass(replace(asked, origin=OWN), OWN) is None


def test_a_websocket_is_no_visit_whatever_it_says() -> None:
    asked = replace(PAGE, websocket=True, origin=OTHER, fetch_site="same-site", **TAB)
    assert trespass(asked, OWN) is Why.CROSS_SITE


def test_a_form_posted_from_another_site_is_no_visit() -> None:
    asked = replace(PAGE, method="POST", origin=OWN, fetch_site="cross-site", **TAB)
    assert trespass(asked, OWN) is Why.CROSS_SITE


def test_a_cross_origin_read_without_fetch_metadata_is_refused_by_its_origin() -> None:
    assert trespass(replace(PAGE, origin=OTHER), OWN) is Why.FOREIGN_ORIGIN
    assert trespass(PAGE, OWN) is None


GRANT = Grant(UUID(int=1), UUID(int=2), 3, "h", 4, issued=1_000, renewed=1_000, until=44_200)
STANDING = Standing(
    state="running", run=3, active=True, epoch=4, entitled=True, endpoints={"lab": "127.0.0.1:1"}, app_token="t"
)


def test_a_grant_holds_while_everything_agrees() -> None:
    assert objection(GRANT, STANDING) is None


@pytest.mark.parametrize(
    ("change", "why", "status"),
    [
        ({"run": 4}, Why.RUN_CHANGED, 401),
        ({"run": 2}, Why.RUN_CHANGED, 401),
        ({"active": False}, Why.SIGNED_OUT, 401),
        ({"epoch": 5}, Why.SIGNED_OUT, 401),
        ({"entitled": False}, Why.RIGHT_LOST, 403),
        *[
            ({"state": state}, Why.NOT_RUNNING, 401)
            for state in (
                "queued",
                "starting",
                "pausing",
                "yielding",
                "yielded",
                "resuming",
                "paused",
                "lost",
                "stopping",
            )
        ],
        ({"state": "stopped"}, Why.NOT_RUNNING, 401),
        ({"state": "failed"}, Why.NOT_RUNNING, 401),
    ],
)
def test_a_grant_ends_when_anything_does_not_agree(change: dict[str, Any], why: Why, status: int) -> None:
    found = objection(GRANT, replace(STANDING, **change))
    assert found is why
    assert found.status == status


def test_a_session_that_does_not_exist_lets_nobody_in() -> None:
    assert objection(GRANT, None) is Why.RIGHT_LOST


def test_a_grant_slides_for_an_hour_and_ends_after_twelve() -> None:
    hour = 3_600
    assert not GRANT.is_expired(1_000 + hour - 1, hour)
    assert GRANT.is_expired(1_000 + hour, hour)
    used = GRANT.again(44_000)
    assert not used.is_expired(44_199, hour)
    assert used.is_expired(44_200, hour)
    assert used.lifetime(44_000, hour) == 200
    assert GRANT.lifetime(1_000, hour) == hour


def test_a_younger_cookie_is_due_only_now_and_then() -> None:
    assert not GRANT.is_due(1_000 + 299, 3_600)
    assert GRANT.is_due(1_000 + 300, 3_600)


@pytest.mark.parametrize(
    ("path", "app"),
    [
        ("/lab/", "lab"),
        ("/lab/api/contents/a%2Fb", "lab"),
        ("/terminal/ws", "terminal"),
        ("/code/", "code"),
        ("/%6cab/", "lab"),
        ("/lab", None),
        ("/", None),
        ("", None),
        ("//lab/", None),
        ("lab/", None),
        ("/LAB/", None),
        ("/labs/", None),
        ("/lab/../terminal/", None),
        ("/lab/%2e%2e/terminal/", None),
        ("/lab/./x", None),
        ("/code/..%2flab/", None),
        ("/lab/%2E%2E%2Fcode/x", None),
        ("/lab/api/contents/a%2Fb..c", "lab"),
        ("/.gshare/enter", None),
    ],
)
def test_a_path_belongs_to_one_app_or_to_none(path: str, app: str | None) -> None:
    assert app_of(path) == app


def test_only_code_loses_its_prefix() -> None:
    assert path_for_app("lab", "/lab/tree/a%20b") == "/lab/tree/a%20b"
    assert path_for_app("terminal", "/terminal/") == "/terminal/"
    assert path_for_app("code", "/code/") == "/"
    assert path_for_app("code", "/code/static/x%2Fy") == "/static/x%2Fy"


def test_an_ingress_question_is_read_from_its_own_two_headers() -> None:
    asked = original_request(
        [
            (b"host", b"control-plane"),
            (b"x-original-method", b"post"),
            (b"x-original-url", b"https://S.sessions.example:443/lab/api/x%2Fy?a=/b#c"),
            (b"origin", b"https://s.sessions.example"),
            (b"sec-fetch-site", b"same-origin"),
            (b"cookie", b"a=1; __Host-gshare-access=v:w"),
            (b"cookie", b"__Host-gshare-access=second"),
        ]
    )
    assert asked == Asked(
        method="POST",
        host="s.sessions.example",
        path="/lab/api/x%2Fy",
        origin="https://s.sessions.example",
        fetch_site="same-origin",
        cookies=("v:w", "second"),
    )


def test_an_ingress_question_about_a_websocket_is_known_by_its_key() -> None:
    headers = [(b"x-original-method", b"GET"), (b"x-original-url", b"https://s.example/lab/api")]
    plain, websocket = original_request(headers), original_request([*headers, (b"sec-websocket-key", b"k")])
    assert plain is not None
    assert websocket is not None
    assert (plain.websocket, websocket.websocket) == (False, True)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x-original-url", b"https://s.example/")],
        [(b"x-original-method", b"GET")],
        [(b"x-original-method", b"GET"), (b"x-original-url", b"/lab/")],
        [(b"x-original-method", b"GET"), (b"x-original-url", b"ftp://s.example/")],
        [(b"x-original-method", b"GET"), (b"x-original-url", b"https://u@s.example/")],
        [(b"x-original-method", b"GET"), (b"x-original-url", b"https://[s.example/")],
        [(b"x-original-method", b"G T"), (b"x-original-url", b"https://s.example/")],
        [
            (b"x-original-method", b"GET"),
            (b"x-original-url", b"https://s.example/"),
            (b"x-original-url", b"https://t.example/"),
        ],
    ],
)
def test_an_unclear_ingress_question_is_not_guessed_at(headers: list[tuple[bytes, bytes]]) -> None:
    assert original_request(headers) is None


def test_a_header_sent_twice_never_helps() -> None:
    doubled = [
        (b"origin", OWN.encode()),
        (b"origin", OTHER.encode()),
        (b"sec-fetch-site", b"same-origin"),
        (b"sec-fetch-site", b"same-origin"),
        (b"sec-fetch-mode", b"navigate"),
        (b"sec-fetch-mode", b"navigate"),
    ]
    asked = asked_of("POST", "http", "h", "/lab/", doubled, websocket=False)
    assert asked.origin not in (OWN, OTHER)
    assert (asked.fetch_site, asked.fetch_mode) == ("cross-site", None)
    assert trespass(asked, OWN) is Why.CROSS_SITE
