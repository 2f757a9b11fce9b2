"""A request at a session's door in the rules' words, from raw headers.

Guarantees: a header that is sent twice never says more than one that is missing; a doubled Origin is a foreign one.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from sessions_app.domain.access import ACCESS_COOKIE, Asked

Header = tuple[bytes, bytes]

DEFAULT_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}


def asked_of(method: str, scheme: str, netloc: str, path: str, headers: list[Header], *, websocket: bool) -> Asked:
    """The request as the rules want it. `path` is raw, without the query."""
    origins = [value for name, value in headers if name.lower() == b"origin"]
    return Asked(
        method=method,
        host=netloc.lower().removesuffix(DEFAULT_PORTS[scheme]),
        path=path,
        websocket=websocket,
        origin=b",".join(origins).decode("latin-1") if origins else None,
        fetch_site=only(headers, b"sec-fetch-site", doubled="cross-site"),
        fetch_mode=only(headers, b"sec-fetch-mode"),
        fetch_dest=only(headers, b"sec-fetch-dest"),
        cookies=access_cookies(headers),
    )


def original_request(headers: Iterable[Header]) -> Asked | None:
    """The request that an ingress asks about (`X-Original-Method`, `X-Original-URL`); None when it is not said clearly."""
    given = list(headers)
    url, method = only(given, b"x-original-url"), only(given, b"x-original-method")
    if not url or not method or not method.isalpha():
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not parts.netloc or "@" in parts.netloc:
        return None
    path = url.split("://", 1)[1].removeprefix(parts.netloc).split("?", 1)[0].split("#", 1)[0]
    websocket = any(name.lower() == b"sec-websocket-key" for name, _ in given)
    return asked_of(method.upper(), parts.scheme, parts.netloc, path or "/", given, websocket=websocket)


def only(headers: Iterable[Header], name: bytes, *, doubled: str | None = None) -> str | None:
    """The value of a header that is there once; `doubled` when it is there more often."""
    values = [value for key, value in headers if key.lower() == name]
    if len(values) > 1:
        return doubled
    return values[0].decode("latin-1") if values else None


def access_cookies(headers: Iterable[Header]) -> tuple[str, ...]:
    """The values of the access cookie in a request, in their order."""
    wanted = ACCESS_COOKIE.encode("ascii")
    found = []
    for name, value in headers:
        if name.lower() != b"cookie":
            continue
        for pair in value.split(b";"):
            key, _, content = pair.strip().partition(b"=")
            if key == wanted:
                found.append(content.decode("latin-1"))
    return tuple(found)
