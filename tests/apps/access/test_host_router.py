"""The outermost ring: which host reaches what, and whose word about addresses is believed. No Django, no database."""

import asyncio
from typing import Any

import pytest

from gshare_site.edge import HostRouter, Receive, Scope, Send, TrustedProxies, host_of, is_session_host

ID = "0197f3c2-a1b2-7c4e-9d10-aabbccddeeff"
Header = tuple[bytes, bytes]


def named(name: str) -> Any:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scope["reached"].append(name)

    return application


def route(
    headers: list[Header], *, kind: str = "http", domain: str = "localhost"
) -> tuple[list[str], list[dict[str, Any]]]:
    """Who was reached, and what was answered by the router itself."""
    reached: list[str] = []
    sent: list[dict[str, Any]] = []
    router = HostRouter(
        console=named("console"), sessions=named("session"), console_host="localhost", sessions_domain=domain
    )

    async def receive() -> dict[str, Any]:
        raise AssertionError("the router reads nothing")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(router({"type": kind, "headers": headers, "reached": reached}, receive, send))
    return reached, sent


@pytest.mark.parametrize("host", [b"localhost", b"localhost:8000", b"LOCALHOST:8000", b"localhost."])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_consoles_host_reaches_the_console(host: bytes, kind: str) -> None:
    assert route([(b"host", host)], kind=kind) == (["console"], [])


@pytest.mark.parametrize("host", [f"{ID}.localhost", f"{ID}.localhost:8000", f"{ID.upper()}.LocalHost:1"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_sessions_host_reaches_the_session_proxy(host: str, kind: str) -> None:
    assert route([(b"host", host.encode())], kind=kind) == (["session"], [])


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"127.0.0.1:8000",
        b"[::1]:8000",
        b"other.localhost",
        ID.encode(),
        f"{ID}.evil.example".encode(),
        f"{ID}.localhost.evil.example".encode(),
        f"x.{ID}.localhost".encode(),
        f"{ID}.x.localhost".encode(),
        f"{ID[:-1]}.localhost".encode(),
        f"{ID}0.localhost".encode(),
        f"{ID.replace('-', '')}.localhost".encode(),
        f"s-{ID}.localhost".encode(),
        b"localhost@evil.example",
        b"localhost:8000:1",
        b"localhost/..",
        b"localhost, evil.example",
        b"local host",
        b"",
        b"\xff",
    ],
)
def test_every_other_host_is_misdirected(host: bytes) -> None:
    reached, sent = route([(b"host", host)])
    assert reached == []
    assert sent[0]["status"] == 421


def test_no_host_or_two_hosts_reach_nothing() -> None:
    assert route([])[1][0]["status"] == 421
    reached, sent = route([(b"host", b"localhost"), (b"host", f"{ID}.localhost".encode())])
    assert (reached, sent[0]["status"]) == ([], 421)


def test_a_misdirected_websocket_never_opens() -> None:
    reached, sent = route([(b"host", b"evil.example")], kind="websocket")
    assert reached == []
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_consoles_host_is_no_session_where_the_domains_are_the_same() -> None:
    assert not is_session_host("localhost", "localhost")
    assert is_session_host(f"{ID}.sessions.example", "sessions.example")
    assert not is_session_host(f"{ID}.sessions.example", "example")


def believe(headers: list[Header], *, client: str = "10.0.0.5", networks: tuple[str, ...] = ("10.0.0.0/8",)) -> Scope:
    seen: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    scope = {"type": "http", "scheme": "http", "client": (client, 1), "headers": headers}
    asyncio.run(TrustedProxies(application, networks)(scope, nothing, nothing))
    return seen[0]


FORWARDED: list[Header] = [
    (b"host", b"localhost"),
    (b"x-forwarded-for", b"203.0.113.9, 10.0.0.7"),
    (b"x-forwarded-proto", b"https"),
    (b"x-forwarded-host", b"evil.example"),
    (b"x-forwarded-port", b"1"),
    (b"x-real-ip", b"1.1.1.1"),
    (b"forwarded", b"for=1.1.1.1"),
]


def test_a_trusted_proxy_is_believed_about_client_and_scheme_and_about_nothing_else() -> None:
    scope = believe(FORWARDED)
    assert scope["client"][0] == "203.0.113.9"
    assert scope["scheme"] == "https"
    assert host_of(scope) == "localhost"
    assert scope["headers"] == [(b"host", b"localhost")]


def test_nobody_else_is_believed_and_his_words_are_taken_away() -> None:
    scope = believe(FORWARDED, client="198.51.100.1")
    assert (scope["client"][0], scope["scheme"]) == ("198.51.100.1", "http")
    assert scope["headers"] == [(b"host", b"localhost")]


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        (b"6.6.6.6, 203.0.113.9", "203.0.113.9"),  # the client wrote the first entry himself
        (b"10.0.0.9", "10.0.0.9"),
        (b"garbage, 203.0.113.9", "203.0.113.9"),
        (b"203.0.113.9, garbage", "10.0.0.5"),
        (b"", "10.0.0.5"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy_of_ours(chain: bytes, client: str) -> None:
    assert believe([(b"x-forwarded-for", chain)])["client"][0] == client


def test_a_doubled_or_odd_scheme_is_not_believed() -> None:
    doubled = [(b"x-forwarded-proto", b"https"), (b"x-forwarded-proto", b"https")]
    assert believe(doubled)["scheme"] == "http"
    assert believe([(b"x-forwarded-proto", b"javascript")])["scheme"] == "http"
