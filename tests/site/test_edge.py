"""The outermost ring: the host decides who answers, and nobody is lied to about who asks."""

from typing import Any

import pytest

from gshare_site.edge import BodyLimit, HostRouter, TrustedProxies, host_of, is_session_host

SESSION = "0197f3c2-a1b2-7c4e-9d10-aabbccddeeff"


def _scope(*headers: tuple[bytes, bytes], kind: str = "http", client: str = "127.0.0.1") -> dict[str, Any]:
    return {"type": kind, "headers": list(headers), "client": (client, 1), "scheme": "http", "path": "/"}


class Named:
    """An application that remembers the scope it got."""

    def __init__(self) -> None:
        self.scope: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope


async def _ask(application: Any, scope: Any) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    await application(scope, receive, send)
    return sent


@pytest.fixture
def router() -> HostRouter:
    return HostRouter(console=Named(), sessions=Named(), console_host="localhost", sessions_domain="localhost")


@pytest.mark.parametrize("host", [b"localhost:8000", b"localhost", b"LOCALHOST:8000", b"localhost."])
async def test_the_consoles_host_reaches_the_console(router: HostRouter, host: bytes) -> None:
    await _ask(router, _scope((b"host", host)))
    assert router.console.scope is not None
    assert router.sessions.scope is None


async def test_a_sessions_host_reaches_the_session_proxy_for_http_and_websockets(router: HostRouter) -> None:
    for kind in ("http", "websocket"):
        router.sessions.scope = None
        await _ask(router, _scope((b"host", f"{SESSION}.localhost:8000".encode()), kind=kind))
        assert router.sessions.scope["type"] == kind
    assert router.console.scope is None


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1:8000",
        b"evil.example",
        b"console.localhost",
        b"a.b.localhost",
        b"localhost.evil.example",
        b"",
        b"local host",
    ],
)
async def test_any_other_host_is_misdirected_and_read_by_nobody(router: HostRouter, host: bytes) -> None:
    sent = await _ask(router, _scope((b"host", host)))
    assert sent[0]["status"] == 421
    assert router.console.scope is None
    assert router.sessions.scope is None


async def test_two_host_headers_are_no_host(router: HostRouter) -> None:
    sent = await _ask(router, _scope((b"host", b"localhost"), (b"host", b"evil.example")))
    assert sent[0]["status"] == 421


async def test_a_websocket_to_another_host_is_closed_before_it_opens(router: HostRouter) -> None:
    sent = await _ask(router, _scope((b"host", b"evil.example"), kind="websocket"))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("label", ["x", SESSION[:-1], SESSION.upper(), f"{SESSION}.{SESSION}", ""])
def test_only_a_session_id_makes_a_session_host(label: str) -> None:
    assert not is_session_host(f"{label}.localhost", "localhost")


def test_an_address_in_brackets_is_a_host() -> None:
    assert host_of(_scope((b"host", b"[::1]:8000"))) == "[::1]"


FORWARDED = (
    (b"x-forwarded-for", b"203.0.113.9, 10.0.0.2"),
    (b"x-forwarded-proto", b"https"),
    (b"x-forwarded-host", b"evil"),
)


async def test_a_trusted_proxy_is_believed_about_client_and_scheme() -> None:
    inner = Named()
    await _ask(TrustedProxies(inner, ("10.0.0.0/8",)), _scope(*FORWARDED, client="10.0.0.1"))
    assert inner.scope["client"][0] == "203.0.113.9"
    assert inner.scope["scheme"] == "https"


async def test_what_anybody_else_says_is_not_believed() -> None:
    inner = Named()
    await _ask(TrustedProxies(inner, ("10.0.0.0/8",)), _scope(*FORWARDED, client="198.51.100.1"))
    assert inner.scope["client"][0] == "198.51.100.1"
    assert inner.scope["scheme"] == "http"


@pytest.mark.parametrize("client", ["10.0.0.1", "198.51.100.1"])
async def test_nothing_behind_the_ring_sees_forwarding_headers(client: str) -> None:
    inner = Named()
    await _ask(TrustedProxies(inner, ("10.0.0.0/8",)), _scope(*FORWARDED, (b"accept", b"*/*"), client=client))
    assert inner.scope["headers"] == [(b"accept", b"*/*")]


async def test_a_websocket_behind_tls_is_secure() -> None:
    inner = Named()
    await _ask(TrustedProxies(inner, ("10.0.0.0/8",)), _scope(*FORWARDED, kind="websocket", client="10.0.0.1"))
    assert inner.scope["scheme"] == "wss"


class Reader:
    """An application that reads the whole body before it answers, as Django does."""

    def __init__(self) -> None:
        self.read = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            self.read += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def _upload(parts: int, *headers: tuple[bytes, bytes]) -> tuple[int, int]:
    """Sends parts of 10 bytes to an application behind a limit of 25; the status, and what the application read."""
    reader, sent, left = Reader(), [], parts

    async def receive() -> Any:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": b"x" * 10, "more_body": left > 0}

    async def send(message: Any) -> None:
        sent.append(message)

    await BodyLimit(reader, 25)(_scope(*headers), receive, send)
    return sent[0]["status"], reader.read


async def test_a_body_within_the_limit_arrives_whole() -> None:
    assert await _upload(2, (b"content-length", b"20")) == (200, 20)


async def test_a_body_that_says_that_it_is_too_large_is_not_read() -> None:
    assert await _upload(3, (b"content-length", b"30")) == (413, 0)


async def test_a_body_without_a_length_is_read_up_to_the_limit_and_no_further() -> None:
    assert await _upload(1_000) == (413, 20)
