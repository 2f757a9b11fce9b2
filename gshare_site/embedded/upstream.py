"""Plain HTTP between a browser and a session's app, streamed both ways.

Guarantees: neither a request's nor an answer's body is ever held whole; the target is passed on byte for byte; when the
browser leaves, or the right to be here ends, the app's connection is closed. A connection to the app is made per request
(loopback costs microseconds), so that a restarted app never meets a stale one.
Refuses: an app that cannot be reached raises `Unreachable`, as long as nothing was answered yet.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from gshare_core.contract import TcpEndpoint, UnixEndpoint
from gshare_site.embedded.headers import Header, response_headers

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

CONNECT_SECONDS = 5.0
TRANSPORTS_MAX = 256
PARTS_AHEAD = 2


class Ended(Exception):
    """The right to be here ended before the app answered."""


class Unreachable(Exception):
    """The app does not take connections, or broke off before it answered."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One request for an app: where, what, with which headers; `host` is the session's (without port)."""

    endpoint: TcpEndpoint | UnixEndpoint
    method: str
    target: bytes
    headers: list[Header]
    host: str
    extra_headers: tuple[Header, ...] = ()


class Transports:
    """httpx transports by endpoint, for one event loop. All are plain HTTP: the TLS context is never used."""

    def __init__(self) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._of: OrderedDict[str, httpx.AsyncHTTPTransport] = OrderedDict()

    def to(self, endpoint: TcpEndpoint | UnixEndpoint) -> httpx.AsyncHTTPTransport:
        """The transport for an endpoint. Nothing is kept alive, so dropping an old one breaks no connection."""
        key = str(endpoint) if isinstance(endpoint, UnixEndpoint) else "tcp"
        found = self._of.pop(key, None)
        if found is None:
            found = httpx.AsyncHTTPTransport(
                verify=self._tls,
                trust_env=False,
                limits=self._limits,
                uds=endpoint.path if isinstance(endpoint, UnixEndpoint) else None,
            )
            while len(self._of) >= TRANSPORTS_MAX:
                self._of.popitem(last=False)
        self._of[key] = found
        return found


class Inbox(httpx.AsyncByteStream):
    """The client's side of one exchange: its body in parts, and the moment it leaves."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(PARTS_AHEAD)

    async def run(self) -> None:
        """Read until the client is gone; waits while the app has not taken what was read."""
        finished = False
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            if finished:
                continue
            if message.get("body"):
                await self._parts.put(message["body"])
            if not message.get("more_body", False):
                finished = True
                await self._parts.put(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part


async def exchange(
    errand: Errand, receive: Receive, send: Send, *, transports: Transports, guard: Coroutine[Any, Any, None]
) -> None:
    """Carry one request to the app and its answer back. Ends early when the client leaves or `guard` returns.

    Raises Unreachable when the app gave no answer, Ended when `guard` returned before it did; ConnectionError when the app
    broke off in the middle of its answer. An answer that is cut off is never finished, so that nobody takes it for whole.
    """
    inbox, started = Inbox(receive), asyncio.Event()
    answer = asyncio.create_task(_carry(errand, inbox, _noting(send, started), transports))
    leaving, ending = asyncio.create_task(inbox.run()), asyncio.create_task(guard)
    try:
        await asyncio.wait([answer, leaving, ending], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            answer.result()
        elif ending.done() and not started.is_set():
            raise Ended
    finally:
        for task in (answer, leaving, ending):
            task.cancel()
        await asyncio.gather(answer, leaving, ending, return_exceptions=True)


def _noting(send: Send, started: asyncio.Event) -> Send:
    async def noted(message: dict[str, Any]) -> None:
        started.set()
        await send(message)

    return noted


async def _carry(errand: Errand, inbox: Inbox, send: Send, transports: Transports) -> None:
    request = httpx.Request(
        errand.method, _address(errand), headers=errand.headers, stream=inbox, extensions=_extensions(errand)
    )
    try:
        response = await transports.to(errand.endpoint).handle_async_request(request)
    except (httpx.TransportError, OSError) as error:
        raise Unreachable(type(error).__name__) from error
    try:
        headers = response_headers(response.headers.raw, host=errand.host) + list(errand.extra_headers)
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        async for part in response.stream:  # type: ignore[union-attr]  # a transport's answer is always asynchronous
            if part:
                await send({"type": "http.response.body", "body": part, "more_body": True})
    except httpx.TransportError as error:
        raise ConnectionError(f"the app broke off its answer ({type(error).__name__})") from error
    finally:
        with suppress(httpx.TransportError, OSError):
            await response.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _address(errand: Errand) -> str:
    if isinstance(errand.endpoint, TcpEndpoint):
        return f"http://{errand.endpoint}/"
    return "http://app/"


def _extensions(errand: Errand) -> dict[str, Any]:
    never = {"read": None, "write": None, "pool": None}
    return {"target": errand.target, "timeout": {"connect": CONNECT_SECONDS, **never}}
