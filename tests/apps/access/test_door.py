"""A session's door with real processes: links, the cookie, every way in that must be shut, and what the app sees."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.models import F
from websockets.exceptions import ConnectionClosed, InvalidStatus

from accounts.models import AuditEntry, Membership, Notification, User
from gshare_core.errors import DomainError
from sessions_app import access
from sessions_app.models import AccessTicket, Run, Session
from tests.builders import a_group, a_running_session, a_super_admin, a_user, an_image
from tests.door import http
from tests.door.fixtures import App, Gate, Listeners, Visitor, cookie_of, token_of
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
def owner() -> User:
    return a_user(a_group())


def group_of(user: User) -> Any:
    return Membership.objects.get(user=user).group


@pytest.fixture
def session(owner: User, app: App) -> Session:
    return a_running_session(owner, group_of(owner), endpoints=app.endpoints)


@pytest.fixture
def visitor(gate: Gate, owner: User, session: Session) -> Visitor:
    return gate.enter(owner, session)


# Links ----------------------------------------------------------------------------------------------------------------


def test_a_link_leads_to_the_app_and_sets_the_cookie_of_this_host_alone(
    gate: Gate, owner: User, session: Session, listeners: Listeners
) -> None:
    link = gate.link(owner, session, "terminal")
    assert link.startswith(f"{listeners.origin_of(session)}/.gshare/enter?t=")
    response = gate.follow(link)
    assert (response.status_code, response.headers["location"]) == (303, "/terminal/")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "no-referrer"
    name, *attributes = response.headers["set-cookie"].split("; ")
    assert name.startswith("__Host-gshare-access=")
    assert sorted(attributes) == ["HttpOnly", "Max-Age=3600", "Path=/", "SameSite=Lax", "Secure"]


def test_a_link_is_kept_as_a_hash_only(gate: Gate, owner: User, session: Session) -> None:
    token = parse_qs(urlsplit(gate.link(owner, session)).query)["t"][0]
    ticket = AccessTicket.objects.get()
    assert token not in json.dumps([str(value) for value in vars(ticket).values()])
    assert len(token) > 40


def test_a_link_works_once(gate: Gate, owner: User, session: Session) -> None:
    link = gate.link(owner, session)
    assert gate.follow(link).status_code == 303
    again = gate.follow(link)
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


def test_eight_rivals_for_one_link_get_one_cookie(owner: User, session: Session, gate: Gate) -> None:
    link = gate.link(owner, session)
    token, host = parse_qs(urlsplit(link).query)["t"][0], urlsplit(link).netloc
    start = threading.Barrier(8)
    outcomes: list[object] = []

    def rival() -> None:
        start.wait()
        try:
            outcomes.append(access.redeem(token, host))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=rival) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, access.Entered) for outcome in outcomes) == 1
    assert len(outcomes) == 8


def test_a_link_is_too_old_after_its_minute_and_strange_on_another_host(
    gate: Gate, owner: User, session: Session, listeners: Listeners
) -> None:
    late = gate.link(owner, session)
    AccessTicket.objects.update(expires_at=F("expires_at") - timedelta(seconds=61))
    assert gate.follow(late).status_code == 403
    elsewhere = gate.link(owner, session)
    other = a_running_session(owner, group_of(owner))
    response = gate.follow(elsewhere, {"Host": listeners.host_of(other)})
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)
    assert gate.follow(elsewhere).status_code == 303


@pytest.mark.parametrize("token", ["", "x", "x.0", "%00", "a" * 5000, "%ED%A0%80"])
def test_made_up_links_open_nothing(gate: Gate, session: Session, listeners: Listeners, token: str) -> None:
    response = gate.follow(f"{listeners.origin_of(session)}/.gshare/enter?t={token}")
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Origin": "http://evil.example"},
    ],
)
def test_nothing_but_a_tab_spends_a_link(gate: Gate, owner: User, session: Session, headers: dict[str, str]) -> None:
    link = gate.link(owner, session)
    assert gate.follow(link, headers).status_code == 403
    assert gate.follow(link, {"Sec-Fetch-Site": "cross-site", **NAVIGATION}).status_code == 303


def test_a_link_made_before_signing_out_everywhere_opens_nothing(gate: Gate, owner: User, session: Session) -> None:
    link = gate.link(owner, session)
    User.objects.filter(pk=owner.pk).update(sign_in_epoch=F("sign_in_epoch") + 1)
    assert "set-cookie" not in gate.follow(link).headers


def test_a_link_is_made_only_into_a_running_session_and_an_app_it_has(gate: Gate, owner: User) -> None:
    image = an_image(apps=("lab",))
    session = a_running_session(owner, group_of(owner), image=image)
    with pytest.raises(DomainError) as caught:
        gate.link(owner, session, "terminal")
    assert caught.value.code == "invalid"
    for state in ("starting", "paused", "stopping", "stopped"):
        other = a_running_session(owner, group_of(owner), image=image, state=state)
        with pytest.raises(DomainError) as caught:
            gate.link(owner, other)
        assert caught.value.code == "invalid_transition"


def test_a_stranger_cannot_tell_a_session_from_none(gate: Gate, session: Session) -> None:
    stranger = a_user(a_group())
    for session_id in (session.pk, uuid4()):
        with pytest.raises(DomainError) as caught:
            access.mint(session_id=session_id, by=stranger, app="lab")
        assert caught.value.code == "not_found"


# Administrators -------------------------------------------------------------------------------------------------------


def test_an_administrator_opens_somebodys_session_with_a_reason_and_a_trace(
    gate: Gate, owner: User, session: Session
) -> None:
    admin = a_user(group_of(owner), role="group_admin")
    with pytest.raises(DomainError) as caught:
        gate.link(admin, session)
    assert caught.value.code == "reason_required"
    assert not AccessTicket.objects.exists()
    visitor = gate.enter(admin, session, reason="helps with a broken kernel")
    assert visitor.ask("/lab/page").status_code == 200
    entry = AuditEntry.objects.get(act="session.open")
    assert (entry.actor_id, entry.target_id, entry.reason) == (admin.pk, str(session.pk), "helps with a broken kernel")
    assert Notification.objects.get(user=owner).kind == "session_opened"


def test_an_administrators_visit_ends_after_ten_minutes(gate: Gate, owner: User, session: Session) -> None:
    visitor = gate.enter(a_super_admin(), session, reason="looks")
    grant = access.read_cookie(visitor.cookie)
    assert grant is not None
    assert grant.until - grant.issued == 600


def test_opening_others_sessions_can_be_switched_off(gate: Gate, owner: User, session: Session, gshare: Any) -> None:
    gshare(admin_open_enabled=False)
    with pytest.raises(DomainError) as caught:
        gate.link(a_super_admin(), session, reason="looks")
    assert caught.value.code == "forbidden"


def test_an_administrator_does_not_open_the_session_of_his_equal(gate: Gate, owner: User) -> None:
    group = group_of(owner)
    one, other = a_user(group, role="group_admin"), a_user(group, role="group_admin")
    with pytest.raises(DomainError) as caught:
        gate.link(one, a_running_session(other, group), reason="looks")
    assert caught.value.code == "forbidden"


def test_an_administrator_who_is_none_any_more_is_out(gate: Gate, owner: User, session: Session) -> None:
    admin = a_user(group_of(owner), role="group_admin")
    visitor = gate.enter(admin, session, reason="looks")
    Membership.objects.filter(user=admin).update(role="member")
    until(lambda: visitor.ask("/lab/page").status_code == 403, within=3, what="the right ends")


# What the app sees ----------------------------------------------------------------------------------------------------


def test_the_app_is_asked_with_its_own_credential_and_never_sees_the_visitors(
    visitor: Visitor, session: Session
) -> None:
    seen = visitor.ask("/lab/api/x%2Fy?q=1", headers={"Authorization": "Bearer mine"}).json()
    headers = dict(seen["headers"])
    assert (seen["path"], seen["query"]) == ("/lab/api/x%2Fy", "q=1")
    assert headers["authorization"] == f"token {token_of(session)}"
    assert headers["host"] == visitor.headers["Host"]
    assert "cookie" not in headers
    terminal = dict(visitor.ask("/terminal/x").json()["headers"])
    assert terminal["authorization"].startswith("Basic ")
    code = visitor.ask("/code/a/b?c").json()
    assert code["path"] == "/a/b"
    assert "authorization" not in dict(code["headers"])


def test_an_unsafe_request_of_the_sessions_own_page_passes(visitor: Visitor) -> None:
    seen = visitor.ask("/lab/x", "POST", headers=visitor.own_origin, content=b"hello").json()
    assert (seen["method"], seen["size"]) == ("POST", 5)


async def test_a_websocket_of_the_sessions_own_page_passes(visitor: Visitor, session: Session) -> None:
    async with visitor.dial() as socket:
        await socket.send("headers")
        seen = json.loads(await socket.recv())
    assert seen["authorization"] == f"token {token_of(session)}"
    assert "cookie" not in seen


# Every way in that is shut --------------------------------------------------------------------------------------------


def test_nobody_gets_in_without_a_cookie(listeners: Listeners, session: Session) -> None:
    host = {"Host": listeners.host_of(session)}
    assert http.get(listeners.at("/lab/page"), headers=host).status_code == 401
    own = {**host, "Origin": listeners.origin_of(session)}
    assert http.post(listeners.at("/lab/page"), headers=own).status_code == 401


def test_a_person_without_a_cookie_is_led_to_the_sessions_page(listeners: Listeners, session: Session) -> None:
    for extra in (NAVIGATION, {"Accept": "text/html,*/*"}):
        response = http.get(listeners.at("/lab/page"), headers={"Host": listeners.host_of(session), **extra})
        assert response.status_code == 303
        assert response.headers["location"] == f"{listeners.console}/sessions/{session.pk}/"


def test_the_cookie_of_one_session_opens_no_other(
    visitor: Visitor, owner: User, app: App, listeners: Listeners
) -> None:
    """Trap 51."""
    other = a_running_session(owner, group_of(owner), endpoints=app.endpoints)
    response = visitor.ask("/lab/page", headers={"Host": listeners.host_of(other)})
    assert response.status_code == 401
    verify = listeners.inside("/internal/v1/access/verify")
    question = {"X-Original-Method": "GET", "X-Original-URL": f"{listeners.origin_of(other)}/lab/"}
    assert http.get(verify, headers={"Cookie": visitor.headers["Cookie"], **question}).status_code == 401


def test_a_forged_cookie_opens_nothing(visitor: Visitor) -> None:
    good = visitor.cookie
    payload, _, signature = good.partition(":")
    for bad in (payload, f"{payload}:", f"{payload}:{signature[:-2]}xx", f"x{good}", good.upper(), "", ":", "a:b"):
        assert visitor.ask("/lab/page", headers={"Cookie": f"__Host-gshare-access={bad}"}).status_code == 401


def test_a_tossed_cookie_beside_the_good_one_neither_helps_nor_harms(visitor: Visitor, owner: User, gate: Gate) -> None:
    other = gate.enter(owner, a_running_session(owner, group_of(owner)))
    both = f"__Host-gshare-access={other.cookie}; __Host-gshare-access={visitor.cookie}; __Host-gshare-access=x"
    assert visitor.ask("/lab/page", headers={"Cookie": both}).status_code == 200
    assert other.ask("/lab/page", headers={"Cookie": f"__Host-gshare-access={visitor.cookie}"}).status_code == 401


def _stop(session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(state="pausing")


def _next_run(session: Session) -> None:
    endpoints = Run.objects.get(session=session).endpoints
    Run.objects.filter(session=session).update(closed_at=F("ready_at"))
    Run.objects.create(
        session=session, number=2, opened_at=session.created_at, endpoints=endpoints, cluster=session.cluster
    )
    Session.objects.filter(pk=session.pk).update(run_number=2)


def _leave_group(session: Session) -> None:
    Membership.objects.filter(user=session.owner).delete()


def _become_guest(session: Session) -> None:
    Membership.objects.filter(user=session.owner).update(role="guest")


def _sign_out_everywhere(session: Session) -> None:
    User.objects.filter(pk=session.owner_id).update(sign_in_epoch=F("sign_in_epoch") + 1)


def _deactivate(session: Session) -> None:
    User.objects.filter(pk=session.owner_id).update(is_active=False)


LOSSES = [
    (_stop, 401),
    (_next_run, 401),
    (_leave_group, 403),
    (_become_guest, 403),
    (_sign_out_everywhere, 401),
    (_deactivate, 401),
]


@pytest.mark.parametrize(("lose", "status"), LOSSES, ids=[lose.__name__.strip("_") for lose, _ in LOSSES])
def test_what_ends_the_right_ends_requests_and_answers_at_the_ingress(
    visitor: Visitor, session: Session, listeners: Listeners, lose: Any, status: int
) -> None:
    verify = listeners.inside("/internal/v1/access/verify")
    question = {"X-Original-Method": "GET", "X-Original-URL": f"{listeners.origin_of(session)}/lab/"}
    question["Cookie"] = visitor.headers["Cookie"]
    assert visitor.ask("/lab/page").status_code == 200
    assert http.get(verify, headers=question).status_code == 200
    lose(session)
    until(lambda: visitor.ask("/lab/page").status_code == status, within=3, what="requests are refused")
    until(lambda: http.get(verify, headers=question).status_code == status, within=3, what="the ingress is told")


@pytest.mark.parametrize(("lose", "status"), LOSSES, ids=[lose.__name__.strip("_") for lose, _ in LOSSES])
async def test_what_ends_the_right_ends_open_websockets(
    visitor: Visitor, session: Session, lose: Any, status: int
) -> None:
    async with visitor.dial() as socket:
        await socket.send("still here")
        assert await socket.recv() == "still here"
        await sync_to_async(lose)(session)
        with pytest.raises(ConnectionClosed):
            await _receive_within(socket, 5)
        assert socket.close_code == 1008
    with pytest.raises(InvalidStatus) as caught:
        await visitor.dial()
    assert caught.value.response.status_code == 403


async def _receive_within(socket: Any, seconds: float) -> Any:
    return await asyncio.wait_for(socket.recv(), seconds)


def test_a_cookie_ends_after_an_hour_without_use_and_slides_before(visitor: Visitor) -> None:
    grant = access.read_cookie(visitor.cookie)
    assert grant is not None

    def aged(seconds: int) -> dict[str, str]:
        old = replace(grant, issued=grant.issued - seconds, renewed=grant.renewed - seconds)
        return {"Cookie": f"__Host-gshare-access={access.write_cookie(old)}"}

    fresh = visitor.ask("/lab/page")
    assert "set-cookie" not in fresh.headers
    older = visitor.ask("/lab/page", headers=aged(1800))
    younger = access.read_cookie(cookie_of(older))
    assert younger is not None
    assert younger.renewed > grant.renewed - 60
    assert (younger.issued, younger.until) == (grant.issued - 1800, grant.until)
    assert visitor.ask("/lab/page", headers=aged(3600)).status_code == 401


def test_the_cookies_end_is_twelve_hours_after_the_link_whatever_the_use(visitor: Visitor) -> None:
    grant = access.read_cookie(visitor.cookie)
    assert grant is not None
    assert grant.until - grant.issued == 12 * 3600


# Pages ----------------------------------------------------------------------------------------------------------------


def test_an_app_that_does_not_answer_yet_is_a_page_that_tries_again(gate: Gate, owner: User) -> None:
    away = a_running_session(owner, group_of(owner), endpoints={"lab": "unix:/nowhere/lab.sock"})
    visitor = gate.enter(owner, away)
    page = visitor.ask("/lab/", headers={"Accept": "text/html"})
    assert page.status_code == 502
    assert 'http-equiv="refresh"' in page.text
    assert f"/sessions/{away.pk}/" in page.text
    assert "script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    program = visitor.ask("/terminal/")
    assert (program.status_code, program.text) == (502, "app_away\n")


def test_the_pages_speak_the_visitors_language_and_are_styled_from_their_own_host(visitor: Visitor) -> None:
    page = visitor.ask("/nothing/", headers={"Accept": "text/html", "Accept-Language": "xx, en;q=0.5"})
    assert page.status_code == 404
    assert '<html lang="en">' in page.text
    style = http.get(visitor.listeners.at("/.gshare/page.css"), headers={"Host": visitor.headers["Host"]})
    assert style.headers["content-type"].startswith("text/css")


def test_a_missing_slash_is_added_and_unknown_paths_are_not_the_apps(visitor: Visitor) -> None:
    response = visitor.ask("/lab")
    assert (response.status_code, response.headers["location"]) == (303, "/lab/")
    for path in ("/", "/other/", "/lab/../terminal/", "/.gshare/other"):
        with httpx.Client() as client:
            request = client.build_request("GET", visitor.listeners.at("/x"), headers=visitor.headers)
            request.extensions = {"target": path.encode()}
            assert client.send(request).status_code == 404


def test_enter_answers_only_get(visitor: Visitor) -> None:
    assert visitor.ask("/.gshare/enter?t=x", "POST", headers=visitor.own_origin).status_code == 405


# Hosts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "other.localhost", "0197f3c2a1b27c4e9d10aabbccddeeff.localhost"]
)
def test_a_host_that_is_neither_the_consoles_nor_a_sessions_is_misdirected(listeners: Listeners, host: str) -> None:
    for path in ("/", "/login/", "/.gshare/enter?t=x", "/api/v1/me"):
        assert http.get(listeners.at(path), headers={"Host": host}).status_code == 421


async def test_a_websocket_to_such_a_host_never_opens(listeners: Listeners) -> None:
    for path in ("/ws/live/", "/lab/ws"):
        with pytest.raises(InvalidStatus):
            await listeners.dial("evil.example", path, {"Origin": listeners.console})


def test_a_sessions_host_serves_nothing_of_the_console(listeners: Listeners, session: Session) -> None:
    host = {"Host": listeners.host_of(session)}
    for path in ("/login/", "/api/v1/me", "/django-admin/", "/static/dist/app.css", "/ws/live/"):
        assert http.get(listeners.at(path), headers=host).status_code == 401


def test_the_console_serves_nothing_of_a_session(listeners: Listeners, visitor: Visitor) -> None:
    console = {"Host": f"localhost:{listeners.web.port}", "Cookie": visitor.headers["Cookie"]}
    for path in ("/lab/page", "/terminal/", "/.gshare/enter?t=x", "/.gshare/page.css"):
        assert http.get(listeners.at(path), headers=console).status_code == 404


# The ingress' question ------------------------------------------------------------------------------------------------


def ask_verify(
    listeners: Listeners, visitor: Visitor, path: str = "/lab/", method: str = "GET", **headers: str
) -> httpx.Response:
    question = {
        "X-Original-Method": method,
        "X-Original-URL": f"{listeners.origin_of(visitor.session)}{path}",
        "Cookie": visitor.headers["Cookie"],
    }
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.get(listeners.inside("/internal/v1/access/verify"), headers={**question, **given})


def test_yes_carries_the_apps_credential(listeners: Listeners, visitor: Visitor, session: Session) -> None:
    token = token_of(session)
    lab = ask_verify(listeners, visitor)
    assert (lab.status_code, lab.headers["authorization"]) == (200, f"token {token}")
    assert ask_verify(listeners, visitor, "/terminal/ws").headers["authorization"].startswith("Basic ")
    code = ask_verify(listeners, visitor, "/code/", Authorization="Bearer mine")
    assert (code.status_code, code.headers["authorization"]) == (200, "")


def test_the_ingress_hears_200_401_or_403_and_nothing_else(listeners: Listeners, visitor: Visitor) -> None:
    own = listeners.origin_of(visitor.session)
    assert ask_verify(listeners, visitor, method="POST", Origin=own).status_code == 200
    assert ask_verify(listeners, visitor, method="POST").status_code == 403
    assert ask_verify(listeners, visitor, method="POST", Origin="http://evil.example").status_code == 403
    assert ask_verify(listeners, visitor, Sec_WebSocket_Key="k").status_code == 403
    assert ask_verify(listeners, visitor, Sec_WebSocket_Key="k", Origin=own).status_code == 200
    assert ask_verify(listeners, visitor, Sec_Fetch_Site="same-site").status_code == 403
    assert ask_verify(listeners, visitor, Cookie="a=1").status_code == 401
    assert ask_verify(listeners, visitor, "/other/").status_code == 403
    assert http.get(listeners.inside("/internal/v1/access/verify")).status_code == 403
    assert http.post(listeners.inside("/internal/v1/access/verify"), content=b"x").status_code == 403


def test_an_old_cookie_is_renewed_through_the_ingress(listeners: Listeners, visitor: Visitor) -> None:
    grant = access.read_cookie(visitor.cookie)
    assert grant is not None
    old = access.write_cookie(replace(grant, renewed=grant.renewed - 1800))
    response = ask_verify(listeners, visitor, Cookie=f"__Host-gshare-access={old}")
    assert response.status_code == 200
    assert access.read_cookie(cookie_of(response)) is not None


def test_the_public_listener_does_not_know_the_question(listeners: Listeners, visitor: Visitor) -> None:
    response = http.get(listeners.at("/internal/v1/access/verify"), headers={"Host": f"localhost:{listeners.web.port}"})
    assert response.status_code == 404
    on_session = visitor.ask("/internal/v1/access/verify")
    assert on_session.status_code == 404


def test_what_an_ingress_says_is_not_believed_on_the_public_listener(visitor: Visitor, owner: User, app: App) -> None:
    other = a_running_session(owner, group_of(owner), endpoints=app.endpoints)
    lie = {
        "Host": visitor.listeners.host_of(other),
        "X-Original-Method": "GET",
        "X-Original-URL": f"{visitor.listeners.origin_of(visitor.session)}/lab/",
    }
    assert visitor.ask("/lab/page", headers=lie).status_code == 401
