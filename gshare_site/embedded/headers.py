"""Which headers cross the session proxy, in both directions. Pure.

Guarantees: hop-by-hop headers stop here (RFC 9110, section 7.6.1); the app sees neither the access cookie nor the client's
own Authorization nor what the client claims about proxies before us; the browser gets no cookie that reaches beyond the
session's host, none of the names that GShare keeps, and no order to clear cookies (that would clear a whole site's).
"""

from collections.abc import Iterable

from sessions_app.domain.access import ACCESS_COOKIE

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
NOT_FOR_THE_APP = frozenset({b"authorization", b"expect", b"forwarded", b"x-real-ip", b"via"})
NOT_FOR_THE_APP_PREFIXES = (b"x-forwarded-", b"x-original-", b"x-auth-request-")
NOT_FOR_THE_BROWSER = frozenset({b"clear-site-data", b"alt-svc", b"date"})  # our own server dates every answer
WEBSOCKET_OWN = (b"sec-websocket-",)
KEPT_COOKIE_PREFIX = b"__host-"


def request_headers(headers: Iterable[Header], *, authorization: str | None) -> list[Header]:
    """What the app is sent: the client's headers less what is ours, with the credential that the app demands."""
    given = [(name.lower(), value) for name, value in headers]
    dropped = HOP_BY_HOP | NOT_FOR_THE_APP | _named_by_connection(given)
    chunked = any(name == b"transfer-encoding" for name, _ in given)
    if chunked:
        dropped |= {b"content-length"}
    passed: list[Header] = []
    for name, value in given:
        if name in dropped or name.startswith(NOT_FOR_THE_APP_PREFIXES):
            continue
        shown = without_access_cookie(value) if name == b"cookie" else value
        if shown or name != b"cookie":
            passed.append((name, shown))
    if authorization is not None:
        passed.append((b"authorization", authorization.encode("ascii")))
    if chunked:
        passed.append((b"transfer-encoding", b"chunked"))  # the framing of the next hop
    return passed


def websocket_headers(headers: Iterable[Header], *, authorization: str | None) -> list[tuple[str, str]]:
    """The same for a websocket's handshake; its own headers are made anew by the client library."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in request_headers(headers, authorization=authorization)
        if not name.startswith(WEBSOCKET_OWN) and name not in (b"host", b"content-length")
    ]


def response_headers(headers: Iterable[Header], *, host: str) -> list[Header]:
    """What the browser is sent of the app's answer on `host` (without port)."""
    given = [(name.lower(), value) for name, value in headers]
    dropped = HOP_BY_HOP | NOT_FOR_THE_BROWSER | _named_by_connection(given)
    return [
        (name, value)
        for name, value in given
        if name not in dropped and not (name == b"set-cookie" and not is_own_cookie(value, host))
    ]


def is_own_cookie(value: bytes, host: str) -> bool:
    """Whether a Set-Cookie stays on `host` and takes none of the names that GShare keeps (`__Host-…`)."""
    name, *attributes = value.split(b";")
    if name.split(b"=", 1)[0].strip().lower().startswith(KEPT_COOKIE_PREFIX):
        return False
    for attribute in attributes:
        key, _, domain = attribute.partition(b"=")
        if key.strip().lower() == b"domain" and domain.strip().lstrip(b".").lower() not in (b"", host.encode("ascii")):
            return False
    return True


def without_access_cookie(value: bytes) -> bytes:
    """A Cookie header's value less the access cookie."""
    wanted = ACCESS_COOKIE.encode("ascii")
    pairs = [pair.strip() for pair in value.split(b";")]
    return b"; ".join(pair for pair in pairs if pair and pair.partition(b"=")[0] != wanted)


def _named_by_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    return frozenset(
        token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")
    )
