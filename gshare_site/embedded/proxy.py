"""The application behind every session's own host: the way in, and the session's apps.

Guarantees: nothing reaches an app that `access.verify` has not let through, neither at the start nor, for what stays open,
two seconds later; the app is asked with its own credential and never sees the visitor's. `/.gshare/` is ours. Where the
session's cluster brings its own ingress (no endpoint is known here) only `/.gshare/` is served.
Refuses: what is refused is a page for a person and a short text for a program; who is not let in is led to the console.
"""

import asyncio
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings

from gshare_core.contract import TcpEndpoint, UnixEndpoint, parse_endpoint
from gshare_site.edge import host_of
from gshare_site.embedded import pages
from gshare_site.embedded.headers import request_headers
from gshare_site.embedded.sockets import Call, converse
from gshare_site.embedded.upstream import Ended, Errand, Receive, Send, Transports, Unreachable, exchange
from gshare_site.observability import OPEN_SOCKETS
from sessions_app import access
from sessions_app.access import Answer, Entered
from sessions_app.asking import asked_of, only
from sessions_app.domain.access import ENTER_PATH, OWN_PREFIX, STRIPPED, Asked, Why, path_for_app, trespass
from sessions_app.doorkeeper import Unavailable, doorkeeper, on_rows

logger = structlog.get_logger(__name__)

Scope = dict[str, Any]

OUTAGE_SECONDS = 60.0
_transports: WeakKeyDictionary[asyncio.AbstractEventLoop, Transports] = WeakKeyDictionary()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application for `<session>.<sessions domain>`."""
    if scope["type"] == "websocket":
        await _websocket(scope, receive, send)
    elif scope["type"] == "http":
        await _http(scope, receive, send)


async def _http(scope: Scope, receive: Receive, send: Send) -> None:
    asked = _asked(scope)
    reply = pages.Reply(scope, send, console=settings.GSHARE.public_url, session=_session_of(scope))
    if asked.path.startswith(OWN_PREFIX):
        await _own(scope, asked, reply)
        return
    try:
        answer = await doorkeeper().verify(asked)
    except Unavailable:
        await reply.notice(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable")
        return
    if answer.why is Why.NO_SUCH_APP and (app := _entrance(asked.path)):
        await reply.redirect(f"/{app}/")
    elif answer.why is not None:
        await reply.refused(answer.why, asked)
    elif answer.endpoint is None:
        await reply.notice(HTTPStatus.BAD_GATEWAY, "app_away")
    else:
        await _pass_on(scope, receive, send, asked=asked, answer=answer, reply=reply)


async def _own(scope: Scope, asked: Asked, reply: pages.Reply) -> None:
    """`/.gshare/`: the way in, and what the pages here look like."""
    if asked.path == pages.STYLE_PATH:
        await reply.style()
    elif asked.path != ENTER_PATH:
        await reply.notice(HTTPStatus.NOT_FOUND, "no_such_app")
    elif asked.method != "GET":
        await reply.text(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET.\n", [(b"allow", b"GET")])
    elif (why := _objection_to_enter(scope, asked)) is not None:
        await reply.refused(why, asked)
    else:
        token = parse_qs(scope["query_string"].decode("ascii", "replace")).get("t", [""])[0]
        try:
            outcome = await on_rows(access.redeem, token, asked.host)
        except Unavailable:
            await reply.notice(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable")
            return
        if isinstance(outcome, Entered):
            await reply.redirect(outcome.location, set_cookie=outcome.set_cookie)
        else:
            await reply.refused(outcome, asked)


def _objection_to_enter(scope: Scope, asked: Asked) -> Why | None:
    """A link is for a tab: nothing embeds it, fetches it, or spends it ahead of time."""
    if "prefetch" in (only(scope["headers"], b"sec-purpose", doubled="prefetch") or ""):
        return Why.CROSS_SITE
    return trespass(asked, settings.GSHARE.session_origin(str(_session_of(scope))))


async def _pass_on(
    scope: Scope, receive: Receive, send: Send, *, asked: Asked, answer: Answer, reply: pages.Reply
) -> None:
    assert answer.app is not None
    errand = Errand(
        endpoint=_endpoint(answer),
        method=scope["method"],
        target=_target(scope, answer.app, asked.path),
        headers=request_headers(scope["headers"], authorization=answer.authorization),
        host=host_of(scope),
        extra_headers=((b"set-cookie", answer.set_cookie.encode("ascii")),) if answer.set_cookie else (),
    )
    try:
        await exchange(errand, receive, send, transports=_transports_here(), guard=_until_lost(asked))
    except Unreachable as error:
        logger.info("session_app_away", app=answer.app, error=str(error))
        await reply.notice(HTTPStatus.BAD_GATEWAY, "app_away")
    except Ended:
        await reply.refused(Why.NOT_RUNNING, asked)
    except ConnectionError as error:
        logger.info("session_answer_cut", app=answer.app, error=str(error))


async def _websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """A handshake that is not let through is refused with 403, which is all that a page can tell from any other status."""
    asked = _asked(scope)
    await receive()  # websocket.connect
    why = "app_away"
    try:
        answer = await doorkeeper().verify(asked)
        if answer.why is not None:
            why = answer.why.value
        elif answer.endpoint is not None:
            with OPEN_SOCKETS.labels("session").track_inprogress():
                await converse(_call(scope, asked, answer), receive, send, guard=_until_lost(asked))
            return
    except Unavailable:
        why = Why.UNAVAILABLE.value
    except Unreachable as error:
        why = f"app_away ({error})"
    logger.info("session_websocket_refused", why=why, path=asked.path)
    await send({"type": "websocket.close"})


def _call(scope: Scope, asked: Asked, answer: Answer) -> Call:
    assert answer.app is not None
    return Call(
        endpoint=_endpoint(answer),
        netloc=asked.host,
        target=_target(scope, answer.app, asked.path).decode("ascii"),
        headers=scope["headers"],
        authorization=answer.authorization,
        subprotocols=tuple(scope.get("subprotocols") or ()),
    )


async def _until_lost(asked: Asked) -> None:
    """Returns when the visitor may not be here any more. A database that is away for a moment is not an answer."""
    loop = asyncio.get_running_loop()
    answered_at = loop.time()
    while True:
        await asyncio.sleep(settings.GSHARE.access_recheck.total_seconds())
        try:
            answer = await doorkeeper().verify(asked)
        except Unavailable:
            if loop.time() - answered_at > OUTAGE_SECONDS:
                return
            continue
        answered_at = loop.time()
        if answer.why is not None:
            return


def _asked(scope: Scope) -> Asked:
    host = only(scope["headers"], b"host") or ""
    websocket = scope["type"] == "websocket"
    raw_path = scope.get("raw_path") or scope["path"].encode()
    return asked_of(
        "GET" if websocket else scope["method"].upper(),
        scope.get("scheme") or "http",
        host,
        raw_path.split(b"?", 1)[0].decode("latin-1"),
        list(scope["headers"]),
        websocket=websocket,
    )


def _session_of(scope: Scope) -> UUID:
    """The session in the host's first label; the host router let nothing else through."""
    return UUID(host_of(scope).partition(".")[0])


def _entrance(path: str) -> str | None:
    """The app of a path that lacks only the slash at its end (`/lab`)."""
    name = path.removeprefix("/")
    return name if name in STRIPPED else None


def _endpoint(answer: Answer) -> TcpEndpoint | UnixEndpoint:
    assert answer.endpoint is not None
    return parse_endpoint(answer.endpoint)


def _target(scope: Scope, app: str, path: str) -> bytes:
    query = scope.get("query_string") or b""
    return path_for_app(app, path).encode("latin-1") + (b"?" + query if query else b"")


def _transports_here() -> Transports:
    loop = asyncio.get_running_loop()
    found = _transports.get(loop)
    if found is None:
        found = _transports[loop] = Transports()
    return found
