"""The outermost ring of the public listener: who is asked (Host), through which proxy, over which scheme.

Pure ASGI, no Django. Guarantees: a request for the console's host reaches Django, one for a session's own host reaches the
session proxy, every other gets 421 before anything reads it; `X-Forwarded-*` is believed from GSHARE_TRUSTED_PROXIES only
and removed otherwise, so that nothing behind this ring can be lied to.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

FORWARDED = frozenset(
    {b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"x-real-ip", b"forwarded"}
)
SESSION_LABEL = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CLOSE_POLICY = 1008


def header(scope: Scope, name: bytes) -> str | None:
    """The only value of a header; None when it is missing or, being ambiguous, sent more than once."""
    values = [value for key, value in scope.get("headers", []) if key.lower() == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def host_of(scope: Scope) -> str:
    """The host asked for, lower case, without port; '' when there is none or more than one."""
    host = (header(scope, b"host") or "").strip().lower()
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+?)\.?(:\d{1,5})?", host)
    return match[1] if match else ""


def is_session_host(host: str, sessions_domain: str) -> bool:
    """Whether the host is `<session id>.<sessions domain>`."""
    label, _, domain = host.partition(".")
    return domain == sessions_domain and SESSION_LABEL.fullmatch(label) is not None


async def refuse(scope: Scope, send: Send, status: int, text: str) -> None:
    """A short answer to an http request; a websocket is closed before it opens."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": CLOSE_POLICY})
        return
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class HostRouter:
    """Splits by Host between the console and the sessions."""

    def __init__(self, *, console: Application, sessions: Application, console_host: str, sessions_domain: str) -> None:
        self.console, self.sessions = console, sessions
        self.console_host, self.sessions_domain = console_host, sessions_domain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        host = host_of(scope)
        if host == self.console_host:
            await self.console(scope, receive, send)
        elif is_session_host(host, self.sessions_domain):
            await self.sessions(scope, receive, send)
        else:
            await refuse(scope, send, 421, "This server does not serve that host.\n")


class _TooLarge(Exception):
    """More body came than is taken."""


class BodyLimit:
    """Takes no more of a request's body than `most` bytes: Django writes a body to disk before anybody asks who sent it."""

    def __init__(self, application: Application, most: int) -> None:
        self.application, self.most = application, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        answered, taken = False, 0

        async def counted() -> dict[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body") or b"")
            if taken > self.most:
                raise _TooLarge
            return message

        async def noted(message: Mapping[str, Any]) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            if self._announces_more(scope):
                raise _TooLarge
            await self.application(scope, counted, noted)
        except _TooLarge:
            if not answered:
                await refuse(scope, send, 413, f"At most {self.most} bytes.\n")

    def _announces_more(self, scope: Scope) -> bool:
        length = header(scope, b"content-length") or ""
        return length.isdecimal() and int(length[:20]) > self.most


class TrustedProxies:
    """Puts what a trusted proxy says into the scope, and takes the headers away from everybody."""

    def __init__(self, application: Application, networks: tuple[str, ...]) -> None:
        self.application = application
        self.networks = tuple(ipaddress.ip_network(network, strict=False) for network in networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = self._believe(scope)
        await self.application(scope, receive, send)

    def _believe(self, scope: Scope) -> Scope:
        peer = (scope.get("client") or ("", 0))[0]
        scheme = scope.get("scheme")
        if self._is_trusted(peer):
            secure = header(scope, b"x-forwarded-proto")
            if secure in ("http", "https"):
                scheme = secure if scope["type"] == "http" else {"http": "ws", "https": "wss"}[secure]
            peer = self._client_behind(scope, peer)
        kept = [(name, value) for name, value in scope["headers"] if name.lower() not in FORWARDED]
        return {**scope, "client": (peer, 0), "scheme": scheme, "headers": kept}

    def _client_behind(self, scope: Scope, peer: str) -> str:
        """The last address of the chain that is not itself one of our proxies."""
        chain = b",".join(value for name, value in scope["headers"] if name.lower() == b"x-forwarded-for")
        for entry in reversed([part.strip() for part in chain.decode("latin-1").split(",") if part.strip()]):
            if not self._is_address(entry):
                return peer
            peer = entry
            if not self._is_trusted(entry):
                return entry
        return peer

    @staticmethod
    def _is_address(text: str) -> bool:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            return False
        return True

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self.networks)
