"""Who may pass a running session's door: what the browser says of a request, and what the visitor's cookie grants.

Guarantees: every refusal has a reason (`Why`) with one of two statuses: 401 leads back to the console, 403 does not. A
request that another origin made is refused whatever cookie rides along; a grant opens one session, one run, one host, for
the person it was made for, as long as that person is signed in and keeps the right. Pure: no cookie is signed and no row
is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import unquote
from uuid import UUID

ACCESS_COOKIE = "__Host-gshare-access"
OWN_PREFIX = "/.gshare/"
ENTER_PATH = OWN_PREFIX + "enter"

#: App → whether its prefix is cut off before the app sees the path. An app lives below `/<its name>/`.
STRIPPED: Mapping[str, bool] = {"lab": False, "terminal": False, "code": True}

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
OWN_FETCH_SITES = frozenset({"same-origin", "none"})


class Why(StrEnum):
    """Why somebody does not get through."""

    NO_COOKIE = "no_cookie"
    EXPIRED = "expired"
    WRONG_HOST = "wrong_host"
    NOT_RUNNING = "not_running"
    RUN_CHANGED = "run_changed"
    SIGNED_OUT = "signed_out"
    RIGHT_LOST = "right_lost"
    FOREIGN_ORIGIN = "foreign_origin"
    CROSS_SITE = "cross_site"
    NO_SUCH_APP = "no_such_app"
    LINK_USED = "link_used"
    UNREADABLE = "unreadable"
    UNAVAILABLE = "unavailable"

    @property
    def status(self) -> int:
        """401 where signing in at the console and opening the session again helps, else 403."""
        return 401 if self in _CURABLE else 403


_CURABLE = frozenset({Why.NO_COOKIE, Why.EXPIRED, Why.WRONG_HOST, Why.NOT_RUNNING, Why.RUN_CHANGED, Why.SIGNED_OUT})


@dataclass(frozen=True, slots=True)
class Asked:
    """A request at a session's door, as the client sent it. `path` is raw, without the query; `cookies` are the values
    of the access cookie (a browser sends one; more than one is somebody's trick)."""

    method: str
    host: str
    path: str
    websocket: bool = False
    origin: str | None = None
    fetch_site: str | None = None
    fetch_mode: str | None = None
    fetch_dest: str | None = None
    cookies: tuple[str, ...] = ()

    @property
    def is_navigation(self) -> bool:
        """Whether the person went to this address (a tab's own GET), rather than a page fetching or embedding it."""
        return (
            not self.websocket
            and self.method in ("GET", "HEAD")
            and self.fetch_mode == "navigate"
            and self.fetch_dest == "document"
        )


def trespass(asked: Asked, own_origin: str) -> Why | None:
    """The objection to where the request comes from, if there is one.

    All sessions share a site, so SameSite cookies do not keep one session's page from another: a websocket or unsafe
    request must carry exactly the own Origin, and nothing but a top-level GET may come from another site or origin (the
    Fetch Metadata specification's "resource isolation policy").
    """
    if asked.is_navigation:
        return None
    if asked.fetch_site is not None and asked.fetch_site not in OWN_FETCH_SITES:
        return Why.CROSS_SITE
    must_say_so = asked.websocket or asked.method not in SAFE_METHODS
    if asked.origin != own_origin and (must_say_so or asked.origin is not None):
        return Why.FOREIGN_ORIGIN
    return None


def app_of(path: str) -> str | None:
    """The app that a raw path belongs to; None for a path outside the prefixes or with dot segments.

    Also with those that only show once `%2f` is decoded, as an ingress does before it looks for the app.
    """
    segments = path.split("/")
    decoded = segments
    if "%" in path:
        segments, decoded = [unquote(segment) for segment in segments], unquote(path).split("/")
    if len(segments) < 3 or segments[0] or "." in decoded or ".." in decoded:
        return None
    return segments[1] if segments[1] in STRIPPED else None


def path_for_app(app: str, path: str) -> str:
    """The raw path that the app is asked for: with its prefix, or without where the app lives at the root."""
    if not STRIPPED[app]:
        return path
    return "/" + path.split("/", 2)[2]


@dataclass(frozen=True, slots=True)
class Grant:
    """What an access cookie says. Times are whole Unix seconds; `until` is the absolute end."""

    session: UUID
    user: UUID
    run: int
    host: str
    epoch: int
    issued: int
    renewed: int
    until: int

    def is_expired(self, now: int, ttl: int) -> bool:
        """Past its absolute end, or not used for `ttl` seconds."""
        return now >= self.until or now - self.renewed >= ttl

    def is_due(self, now: int, ttl: int) -> bool:
        """Whether to hand out a younger cookie: not with every answer, but well before the sliding end."""
        return now - self.renewed >= ttl // 12

    def again(self, now: int) -> Grant:
        """The same grant, used just now."""
        return replace(self, renewed=now)

    def lifetime(self, now: int, ttl: int) -> int:
        """Seconds for which a browser keeps the cookie."""
        return max(0, min(ttl, self.until - now))


@dataclass(frozen=True, slots=True)
class Standing:
    """What the rows say about a grant's session and person at one moment."""

    state: str
    run: int
    active: bool
    epoch: int
    entitled: bool
    endpoints: Mapping[str, str]
    app_token: str

    @property
    def is_running(self) -> bool:
        return self.state == "running"


def objection(grant: Grant, standing: Standing | None) -> Why | None:
    """Why the grant does not hold (any more); None when it does. No standing: there is no such session or person."""
    if standing is None:
        return Why.RIGHT_LOST
    if not standing.active or standing.epoch != grant.epoch:
        return Why.SIGNED_OUT
    if not standing.entitled:
        return Why.RIGHT_LOST
    if standing.run != grant.run:
        return Why.RUN_CHANGED
    if not standing.is_running:
        return Why.NOT_RUNNING
    return None
