"""`GET /internal/v1/access/verify`: what an ingress asks before it passes a request to a session.

Plain ASGI, because it is asked for every request of every session. Guarantees: answers 200, 401 or 403 and nothing else;
the request that is judged is the one of `X-Original-Method` and `X-Original-URL`, which are believed here only, where only
an ingress can ask; a websocket is known by `Sec-WebSocket-Key`, because a subrequest has no Upgrade. Every answer carries
an Authorization header (empty for an app without a credential), so that an ingress that copies it drops the client's own.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from sessions_app.access import Answer
from sessions_app.asking import Header, original_request
from sessions_app.domain.access import Why
from sessions_app.doorkeeper import Unavailable, doorkeeper

logger = structlog.get_logger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def verify(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI application."""
    asked = original_request(scope["headers"])
    if asked is None:
        answer = Answer(Why.UNREADABLE)
    else:
        try:
            answer = await doorkeeper().verify(asked)
        except Unavailable as error:
            logger.warning("access_unavailable", error=str(error))
            answer = Answer(Why.UNAVAILABLE)
    headers: list[Header] = [(b"content-length", b"0"), (b"cache-control", b"no-store")]
    headers.append((b"authorization", (answer.authorization or "").encode("ascii")))
    if answer.why is not None:
        headers.append((b"x-gshare-refused", answer.why.value.encode("ascii")))
    if answer.set_cookie is not None:
        headers.append((b"set-cookie", answer.set_cookie.encode("ascii")))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
