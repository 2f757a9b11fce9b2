"""A websocket between a browser and a session's app.

Guarantees: messages, subprotocol, close codes and reasons pass in both directions; reading waits for writing, so that a slow
side slows the other down instead of filling memory; both ends are closed when either is, or when the right to be here ends
(code 1008). The app's pings are answered here; the browser is pinged by our server, every 20 s.
Refuses: redirects of a handshake (an app must not choose where the control plane connects to), messages over 64 MiB.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

from gshare_core.contract import TcpEndpoint, UnixEndpoint
from gshare_site.embedded.headers import Header, websocket_headers
from gshare_site.embedded.upstream import Receive, Send, Unreachable

OPEN_SECONDS = 10.0
CLOSE_SECONDS = 1.0
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
PING_SECONDS = 20.0

NORMAL, GOING_AWAY, ABNORMAL, POLICY, BAD_GATEWAY = 1000, 1001, 1006, 1008, 1014
REASON_BYTES_MAX = 123
ENDED = "access to this session has ended"


@dataclass(frozen=True, slots=True)
class Call:
    """A handshake for an app: where, with which headers and subprotocols. `netloc` is the session's host, with port."""

    endpoint: TcpEndpoint | UnixEndpoint
    netloc: str
    target: str
    headers: list[Header]
    authorization: str | None
    subprotocols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Closing:
    """How one side ended the conversation."""

    code: int
    reason: str = ""


class _Direct(connect):
    """The library's client without its redirects."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def converse(call: Call, receive: Receive, send: Send, *, guard: Coroutine[Any, Any, None]) -> None:
    """Open the app's side, accept the browser's, carry messages until one side closes or `guard` returns.

    Raises Unreachable when the app does not take the handshake; the browser's is then still open for an answer.
    """
    try:
        app = await _open(call)
    except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
        guard.close()
        raise Unreachable(type(error).__name__) from error
    try:
        await send({"type": "websocket.accept", "subprotocol": app.subprotocol})
        to_browser, to_app = await _until_closed(app, receive, send, guard)
        await asyncio.gather(_say_goodbye(send, to_browser), _hang_up(app, to_app))
    except OSError:
        pass  # the browser went away while it was written to
    finally:
        app.transport.abort()


async def _open(call: Call) -> ClientConnection:
    where: dict[str, Any] = (
        {"unix": True, "path": call.endpoint.path}
        if isinstance(call.endpoint, UnixEndpoint)
        else {"host": call.endpoint.host, "port": call.endpoint.port}
    )
    return await _Direct(
        f"ws://{call.netloc}{call.target}",
        subprotocols=[Subprotocol(name) for name in call.subprotocols] or None,
        additional_headers=websocket_headers(call.headers, authorization=call.authorization),
        compression=None,
        user_agent_header=None,
        proxy=None,
        open_timeout=OPEN_SECONDS,
        ping_interval=PING_SECONDS,
        ping_timeout=None,
        close_timeout=CLOSE_SECONDS,
        max_size=MESSAGE_BYTES_MAX,
        **where,
    )


async def _until_closed(
    app: ClientConnection, receive: Receive, send: Send, guard: Coroutine[Any, Any, None]
) -> tuple[Closing | None, Closing | None]:
    """Carry messages; returns what to tell the browser and what to tell the app, None for who closed by itself."""
    from_browser = asyncio.create_task(_browser_to_app(app, receive))
    from_app = asyncio.create_task(_app_to_browser(app, send))
    ending = asyncio.create_task(guard)
    tasks = (from_browser, from_app, ending)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if (left := _result(from_browser)) is not None:
        return None, left
    if (ended := _result(from_app)) is not None:
        return ended, None
    if ending.done() and not ending.cancelled():
        return Closing(POLICY, ENDED), Closing(GOING_AWAY)
    return Closing(GOING_AWAY), Closing(GOING_AWAY)


def _result(task: asyncio.Task[Closing]) -> Closing | None:
    return task.result() if task.done() and not task.cancelled() and task.exception() is None else None


async def _browser_to_app(app: ClientConnection, receive: Receive) -> Closing:
    """Until the browser closes; says how."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return Closing(message.get("code") or NORMAL, message.get("reason") or "")
        if message["type"] != "websocket.receive":
            continue
        try:
            text = message.get("text")
            await app.send(text if text is not None else message["bytes"])
        except ConnectionClosed:
            await asyncio.Event().wait()  # the other direction knows how the app closed, and ends this one


async def _app_to_browser(app: ClientConnection, send: Send) -> Closing:
    """Until the app closes; says how."""
    try:
        while True:
            message = await app.recv()
            if isinstance(message, str):
                await send({"type": "websocket.send", "text": message})
            else:
                await send({"type": "websocket.send", "bytes": message})
    except ConnectionClosed:
        return Closing(app.close_code or ABNORMAL, app.close_reason or "")


async def _say_goodbye(send: Send, closing: Closing | None) -> None:
    """Close the browser's side, unless it did so itself; one that does not read is not waited for."""
    if closing is None:
        return
    message = {"type": "websocket.close", "code": _code(closing.code), "reason": _reason(closing.reason)}
    with suppress(OSError, TimeoutError):
        await asyncio.wait_for(send(message), CLOSE_SECONDS)


async def _hang_up(app: ClientConnection, closing: Closing | None) -> None:
    """The same for the app's side."""
    if closing is None:
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(app.close(_code(closing.code), _reason(closing.reason)), CLOSE_SECONDS)


def _code(code: int) -> int:
    """A code that may stand in a close frame (RFC 6455, section 7.4): what only describes an end is translated."""
    if code == 1005:
        return NORMAL
    if code in (ABNORMAL, 1015):
        return BAD_GATEWAY
    allowed = code in (1000, 1001, 1002, 1003) or 1007 <= code <= 1014 or 3000 <= code <= 4999
    return code if allowed else NORMAL


def _reason(reason: str) -> str:
    return reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
