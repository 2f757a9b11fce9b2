"""Trap 54 with hand-made headers: what a hostile page on a session's origin may send, as browsers would send it.

Where the sessions' domain lies below the console's, all of them are one site and cookies ride along with what such a page
sends. (`*.localhost` hides that: a browser takes each for a site of its own. Hence headers made by hand, against real
listeners; `test_hostile_page_in_chromium` has the same with a browser.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from websockets.exceptions import InvalidStatus

from accounts.models import Group, Membership, User
from sessions_app.models import Session
from tests.builders import a_group, a_running_session, a_user
from tests.door import http
from tests.door.fixtures import App, Gate, Listeners, SignedIn, Visitor

pytestmark = pytest.mark.django_db(transaction=True)

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
#: How a page makes requests: Sec-Fetch-Mode and -Dest.
WAYS = {
    "fetch": ("cors", "empty"),
    "fetch without cors": ("no-cors", "empty"),
    "image": ("no-cors", "image"),
    "script": ("no-cors", "script"),
    "frame": ("navigate", "iframe"),
    "object": ("navigate", "object"),
}


@pytest.fixture
def victim() -> User:
    return a_user(a_group())


def group_of(user: User) -> Group:
    group = Membership.objects.get(user=user).group
    assert group is not None
    return group


@pytest.fixture
def attacked(victim: User, app: App) -> Session:
    """The victim's own session, on which other pages would like to act."""
    return a_running_session(victim, group_of(victim), endpoints=app.endpoints)


@pytest.fixture
def hostile(victim: User, app: App) -> Session:
    """Another session of the same site, whose page is hostile."""
    return a_running_session(victim, group_of(victim), endpoints=app.endpoints)


def sent_by(origin: str, way: str, method: str) -> Iterator[dict[str, str]]:
    """The headers that a browser puts on a page's request: with Fetch Metadata, and an older one without."""
    mode, dest = WAYS[way]
    speaks = {"Origin": origin} if mode == "cors" or method != "GET" else {}
    for site in ("same-site", "cross-site"):
        yield {**speaks, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    if speaks:
        yield speaks
        yield {"Origin": "null"}


CONSOLE_PATHS = (
    "/",
    "/logout/",
    "/api/v1/sessions",
    "/api/v1/wallets/system/issue",
    "/django-admin/",
    "/static/x",
    "/nowhere/",
)


@pytest.mark.parametrize("path", CONSOLE_PATHS)
def test_no_request_of_a_sessions_page_reaches_the_console_whatever_cookies_ride_along(
    listeners: Listeners, sign_in: SignedIn, victim: User, hostile: Session, path: str
) -> None:
    cookies = f"{sign_in(victim)}; __Host-csrftoken={'a' * 32}"
    target = {"Host": f"localhost:{listeners.web.port}", "Cookie": cookies, "X-CSRFToken": "a" * 32}
    for way, method in product(WAYS, ("GET", *UNSAFE)):
        for headers in sent_by(listeners.origin_of(hostile), way, method):
            response = http.request(method, listeners.at(path), headers={**target, **headers})
            assert response.status_code == 403, (way, method, headers)
            assert not [name for name in response.headers if name.startswith("access-control-")]
            assert response.headers["cross-origin-resource-policy"] == "same-origin"


def test_the_consoles_own_pages_are_not_refused_like_that(
    listeners: Listeners, sign_in: SignedIn, victim: User
) -> None:
    own = {"Host": f"localhost:{listeners.web.port}", "Cookie": sign_in(victim), "Sec-Fetch-Site": "same-origin"}
    assert http.get(listeners.at("/api/v1/me"), headers={**own, "Sec-Fetch-Mode": "cors"}).status_code == 200
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert http.get(listeners.at("/login/"), headers={**own, **visit}).status_code in (200, 302)


@pytest.mark.parametrize("method", UNSAFE)
def test_a_preflight_of_a_sessions_page_allows_nothing(listeners: Listeners, hostile: Session, method: str) -> None:
    headers = {
        "Host": f"localhost:{listeners.web.port}",
        "Origin": listeners.origin_of(hostile),
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "x-csrftoken",
        "Sec-Fetch-Site": "same-site",
    }
    response = http.request("OPTIONS", listeners.at("/api/v1/sessions"), headers=headers)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_a_sessions_page_opens_no_websocket_at_the_console(
    listeners: Listeners, sign_in: SignedIn, victim: User, hostile: Session
) -> None:
    from asgiref.sync import sync_to_async

    cookie = await sync_to_async(sign_in)(victim)
    for headers in (
        {"Origin": listeners.origin_of(hostile)},
        {"Origin": listeners.origin_of(hostile), "Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {},
    ):
        with pytest.raises(InvalidStatus) as caught:
            await listeners.dial(f"localhost:{listeners.web.port}", "/ws/live/", {"Cookie": cookie, **headers})
        assert caught.value.response.status_code == 403


def test_cookies_that_a_sessions_page_tosses_at_the_console_mean_nothing_there(
    listeners: Listeners, sign_in: SignedIn, victim: User
) -> None:
    """`__Host-` names cannot be set for a parent domain; every other name is not the console's."""
    key = sign_in(victim).partition("=")[2]
    host = {"Host": f"localhost:{listeners.web.port}"}
    for tossed in (f"sessionid={key}", f"__Secure-sessionid={key}", f"__host-sessionid={key}"):
        assert http.get(listeners.at("/api/v1/me"), headers={**host, "Cookie": tossed}).status_code == 401
    token = "a" * 32
    posted = http.post(
        listeners.at("/login/"),
        headers={**host, "Cookie": f"csrftoken={token}", "Origin": listeners.console},
        data={"csrfmiddlewaretoken": token, "email": victim.email, "password": "correct horse battery"},
    )
    assert posted.status_code == 403
    assert "__Host-sessionid" not in posted.headers.get("set-cookie", "")


def test_the_consoles_cookies_stay_on_its_host_and_out_of_scripts_and_other_sites(listeners: Listeners) -> None:
    response = http.get(listeners.at("/login/"), headers={"Host": f"localhost:{listeners.web.port}"})
    cookies = response.headers.get_list("set-cookie")
    assert cookies
    for cookie in cookies:
        assert cookie.startswith("__Host-")
        attributes = {part.strip().lower().partition("=")[0]: part for part in cookie.split(";")[1:]}
        assert "domain" not in attributes
        assert {"secure", "path", "samesite"} <= set(attributes)


@pytest.mark.parametrize("path", ["/lab/api/kernels", "/terminal/", "/.gshare/enter?t=x"])
def test_no_request_of_a_sessions_page_reaches_another_session_whatever_cookies_ride_along(
    listeners: Listeners, gate: Gate, victim: User, attacked: Session, hostile: Session, path: str
) -> None:
    visitor = gate.enter(victim, attacked)
    for way, method in product(WAYS, ("GET", *UNSAFE)):
        for headers in sent_by(listeners.origin_of(hostile), way, method):
            response = visitor.ask(path, method, headers=headers)
            refused = 405 if path.startswith("/.gshare/") and method != "GET" else 403
            assert response.status_code == refused, (way, method, headers)


async def test_a_sessions_page_opens_no_websocket_at_another_session(
    listeners: Listeners, gate: Gate, victim: User, attacked: Session, hostile: Session
) -> None:
    from asgiref.sync import sync_to_async

    visitor: Visitor = await sync_to_async(gate.enter)(victim, attacked)
    for headers in (
        {"Origin": listeners.origin_of(hostile)},
        {"Origin": listeners.origin_of(hostile), "Sec-Fetch-Site": "same-site"},
        {"Origin": listeners.console, "Sec-Fetch-Site": "same-site"},
        {"Origin": listeners.origin_of(attacked), "Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {},
    ):
        with pytest.raises(InvalidStatus) as caught:
            await visitor.dial(headers=headers)
        assert caught.value.response.status_code == 403
    async with visitor.dial() as own:
        await own.send("hello")
        assert await own.recv() == "hello"


def test_a_sessions_app_sets_no_cookie_for_others_and_clears_none(gate: Gate, victim: User, hostile: Session) -> None:
    visitor = gate.enter(victim, hostile)
    assert visitor.ask("/lab/cookies").headers.get_list("set-cookie") == ["own=1; Path=/lab/"]
