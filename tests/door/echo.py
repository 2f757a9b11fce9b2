"""A small real application in the place of JupyterLab: what it was asked, large bodies, cookies, websockets.

Served by uvicorn in its own process (`tests.door.processes.echo_app`).
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

CHUNK = bytes(range(256)) * 256  # 64 KiB
COOKIES = (
    b"own=1; Path=/lab/",
    b"parent=1; Domain=localhost",
    b"__Host-sessionid=stolen; Path=/; Secure",
    b"__Host-gshare-access=stolen; Path=/; Secure",
)
state = {"broken_off": 0, "open_sockets": 0, "sent": 0}
asked: dict[str, list[str]] = {}  # by Host: what reached this application


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application."""
    if scope["type"] in ("http", "websocket"):
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        asked.setdefault(host, []).append(f"{scope.get('method', 'WEBSOCKET')} {scope['path']}")
    if scope["type"] == "websocket":
        await websocket(scope, receive, send)
    elif scope["type"] == "http":
        name = scope["path"].rstrip("/").rpartition("/")[2]
        await HTTP.get(name, echo)(scope, receive, send)


async def answer(send: Send, body: bytes, *, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    given = (*headers, (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": list(given)})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """What arrived: method, raw path, query, headers, and the body's size and hash."""
    digest, size, parts, more = hashlib.sha256(), 0, 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body = message.get("body", b"")
        digest.update(body)
        size, parts, more = size + len(body), parts + 1, message.get("more_body", False)
    seen = {
        "method": scope["method"],
        "path": scope["raw_path"].decode("latin-1"),
        "query": scope["query_string"].decode("latin-1"),
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
        "size": size,
        "parts": parts,
        "sha256": digest.hexdigest(),
    }
    await answer(send, json.dumps(seen).encode(), headers=((b"content-type", b"application/json"),))


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    """A page of the session's owner, in whose place a hostile one stands in the browser's test."""
    await answer(send, b"<!doctype html><title>app</title><h1>app</h1>", headers=((b"content-type", b"text/html"),))


async def big(scope: Scope, receive: Receive, send: Send) -> None:
    """`?n=` bytes, without a length."""
    left = int(parse_qs(scope["query_string"].decode())["n"][0])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while left > 0:
        part = CHUNK[: min(left, len(CHUNK))]
        left -= len(part)
        await send({"type": "http.response.body", "body": part, "more_body": True})
        state["sent"] += len(part)
    await send({"type": "http.response.body", "body": b""})


async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    """A line now and then until the caller leaves; `state` counts those who left."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    leaving = asyncio.create_task(_left(receive))
    while not leaving.done():
        await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
        await asyncio.wait([leaving], timeout=0.05)
    state["broken_off"] += 1


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    """Never answers."""
    await _left(receive)
    state["broken_off"] += 1


async def cut(scope: Scope, receive: Receive, send: Send) -> None:
    """Promises more than it sends."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000000")]})
    await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
    raise ConnectionAbortedError


async def cookies(scope: Scope, receive: Receive, send: Send) -> None:
    """Sets good and bad cookies."""
    await answer(send, b"", headers=tuple((b"set-cookie", cookie) for cookie in COOKIES))


async def redirect(scope: Scope, receive: Receive, send: Send) -> None:
    """A relative redirect; nobody but the browser follows it."""
    await answer(send, b"", status=302, headers=((b"location", b"elsewhere?x=1"), (b"connection", b"close")))


async def missing(scope: Scope, receive: Receive, send: Send) -> None:
    """Nothing is here."""
    await answer(send, b"", status=404)


async def facts(scope: Scope, receive: Receive, send: Send) -> None:
    """The process's own counters."""
    await answer(send, json.dumps({**state, "asked": asked}).encode())


HTTP = {
    "missing": missing,
    "page": page,
    "big": big,
    "endless": endless,
    "silent": silent,
    "cut": cut,
    "cookies": cookies,
    "redirect": redirect,
    "facts": facts,
}


async def websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Echoes; commands: `close <code> <reason>`, `headers`, `flood <n>`, `drop`. Takes the last subprotocol offered."""
    await receive()
    if scope["path"].endswith("/closed"):
        await send({"type": "websocket.close"})
        return
    if scope["path"].endswith("/away"):
        headers = [(b"location", b"http://127.0.0.1:9/elsewhere")]
        await send({"type": "websocket.http.response.start", "status": 302, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b""})
        return
    offered = scope["subprotocols"]
    await send({"type": "websocket.accept", "subprotocol": offered[-1] if offered else None})
    state["open_sockets"] += 1
    try:
        await _talk(scope, receive, send)
    finally:
        state["open_sockets"] -= 1


async def _talk(scope: Scope, receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        if text is None:
            await send({"type": "websocket.send", "bytes": message["bytes"]})
        elif text.startswith("close "):
            _, code, reason = text.split(" ", 2)
            await send({"type": "websocket.close", "code": int(code), "reason": reason})
            return
        elif text.startswith("flood "):
            for _ in range(int(text.split(" ")[1])):
                await send({"type": "websocket.send", "bytes": CHUNK})
                state["sent"] += len(CHUNK)
        elif text == "headers":
            found = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            found["path"] = scope["raw_path"].decode() + "?" + scope["query_string"].decode()
            await send({"type": "websocket.send", "text": json.dumps(found)})
        elif text == "drop":
            raise ConnectionAbortedError
        else:
            await send({"type": "websocket.send", "text": text})
    state["closed"] = message.get("code", 0)
