"""The proxy's two ways alone, without the question who may pass: for tests of what is carried and how.

`$FRONT_ENDPOINT` names the app, `$FRONT_GUARD_SECONDS` ends whatever is open after that long.
"""

import asyncio
import os
from typing import Any

from gshare_core.contract import parse_endpoint
from gshare_site.embedded.headers import request_headers
from gshare_site.embedded.sockets import Call, converse
from gshare_site.embedded.upstream import Ended, Errand, Receive, Send, Transports, Unreachable, exchange

ENDPOINT = parse_endpoint(os.environ["FRONT_ENDPOINT"])
GUARD_SECONDS = float(os.environ.get("FRONT_GUARD_SECONDS", "3600"))
transports = Transports()


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI application."""
    guard = asyncio.sleep(GUARD_SECONDS)
    query = b"?" + scope["query_string"] if scope.get("query_string") else b""
    if scope["type"] == "websocket":
        await receive()
        call = Call(
            endpoint=ENDPOINT,
            netloc="s.localhost:8000",
            target=(scope["raw_path"] + query).decode(),
            headers=scope["headers"],
            authorization="token t",
            subprotocols=tuple(scope["subprotocols"]),
        )
        try:
            await converse(call, receive, send, guard=guard)
        except Unreachable:
            await send({"type": "websocket.close"})
    elif scope["type"] == "http":
        errand = Errand(
            endpoint=ENDPOINT,
            method=scope["method"],
            target=scope["raw_path"] + query,
            headers=request_headers(scope["headers"], authorization="token t"),
            host="s.localhost",
        )
        try:
            await exchange(errand, receive, send, transports=transports, guard=guard)
        except (Unreachable, Ended) as error:
            body = type(error).__name__.encode()
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body", "body": body})
        except ConnectionError:
            return
