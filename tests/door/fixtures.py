"""What tests of a session's door and of open pages stand on: GShare's own listeners as real processes.

listeners        both listeners of this worker's database, with short periods; `listeners.console` is the address
app              the echo application on a unix socket; `app.endpoints` is what a run reports of it
gate             `gate.enter(user, session, "lab")`: mint a link and redeem it as a browser would → `Visitor`
sign_in          function: a console session for a user → the cookie
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx
import pytest
from channels.layers import channel_layers
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from websockets.asyncio.client import connect

from accounts.models import User
from accounts.session_store import SessionStore
from gshare_core.contract import app_token
from sessions_app import access
from sessions_app.models import Session
from tests.door import http
from tests.door.certificates import make_certificate
from tests.door.processes import Served, echo_app, free_port, serving
from tests.services import Addresses, environment

T = TypeVar("T")

ACCESS_COOKIE = "__Host-gshare-access"
CONSOLE_COOKIE = "__Host-sessionid"
PERIODS = {
    "GSHARE_ACCESS_RECHECK": "500ms",
    "GSHARE_ACCESS_CACHE_TTL": "500ms",
    "GSHARE_LIVE_PING_PERIOD": "300ms",
    "GSHARE_LIVE_RECHECK_PERIOD": "1s",
}


class Shared(Generic[T]):
    """Something that runs as long as anybody holds it: a fixture that two folders import is two fixtures for pytest."""

    def __init__(self) -> None:
        self._holders = 0
        self._open = ExitStack()
        self._running: T | None = None

    @contextmanager
    def held(self, start: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
        if self._running is None:
            self._running = self._open.enter_context(start())
        self._holders += 1
        try:
            yield self._running
        finally:
            self._holders -= 1
            if not self._holders:
                self._running = None
                self._open.close()


@dataclass(frozen=True)
class Names:
    """How the public listener is called."""

    scheme: str
    console: str
    sessions: str


LOCALHOST = Names("http", "localhost", "localhost")


@dataclass(frozen=True)
class Listeners:
    """The running listeners."""

    web: Served
    internal: Served
    names: Names = LOCALHOST
    in_front: int = 0  # the port of a proxy in front, whose address is the public one

    @property
    def port(self) -> int:
        """The port that browsers ask."""
        return self.in_front or self.web.port

    @property
    def console(self) -> str:
        return f"{self.names.scheme}://{self.names.console}:{self.port}"

    def host_of(self, session: Session) -> str:
        return f"{session.pk}.{self.names.sessions}:{self.port}"

    def origin_of(self, session: Session) -> str:
        return f"{self.names.scheme}://{self.host_of(session)}"

    def at(self, path: str) -> str:
        """The public listener by its address; what it serves is said by Host."""
        return f"{self.names.scheme}://127.0.0.1:{self.port}{path}"

    def dial(self, host: str, path: str, headers: dict[str, str], **options: Any) -> connect:
        """A websocket to the public listener under a host's name."""
        given = {name: value for name, value in headers.items() if name != "Host"}
        if self.names.scheme == "https":
            options["ssl"] = ssl._create_unverified_context()
        return connect(
            f"{self.names.scheme.replace('http', 'ws')}://{host}{path}",
            host="127.0.0.1",
            port=self.port,
            proxy=None,
            compression=None,
            additional_headers=given,
            **options,
        )

    def inside(self, path: str) -> str:
        return f"http://127.0.0.1:{self.internal.port}{path}"


def certificate_flags(home: Path, names: Names) -> tuple[str, ...]:
    certificate, key = make_certificate(home, names.console, f"*.{names.sessions}")
    return (f"--ssl-certfile={certificate}", f"--ssl-keyfile={key}")


@contextmanager
def running_listeners(
    services: Addresses, database_name: str, home: Path, names: Names = LOCALHOST, *, in_front: int = 0
) -> Iterator[Listeners]:
    """Both listeners on free ports, for a console host and a sessions domain.

    `in_front`: the port of a proxy on this machine, at which https ends where the names say https.
    """
    port, internal_port = free_port(), free_port()
    env = {
        **environment(services, database_name),
        **PERIODS,
        "GSHARE_PORT": str(port),
        "GSHARE_PUBLIC_URL": f"{names.scheme}://{names.console}:{in_front or port}",
        "GSHARE_SESSIONS_DOMAIN": names.sessions,
        "GSHARE_INTERNAL_BIND": f"127.0.0.1:{internal_port}",
        "GSHARE_HOME": str(home),
        "GSHARE_LOG_LEVEL": "WARNING",
        "GSHARE_TRUSTED_PROXIES": "127.0.0.1" if in_front else "",
    }
    # One stamp at the start only: these processes outlive the test that started them, on a database that others look at too.
    inner = {**env, "DJANGO_SETTINGS_MODULE": "gshare_site.settings.internal", "GSHARE_HEARTBEAT_PERIOD": "365d"}
    is_secure = names.scheme == "https" and not in_front
    flags = ("--ws-ping-interval=1", *(certificate_flags(home, names) if is_secure else ()))
    with (
        serving("gshare_site.asgi:application", port=port, env=env, flags=flags) as web,
        serving("gshare_site.asgi_internal:application", port=internal_port, env=inner) as internal,
    ):
        yield Listeners(web, internal, names, in_front)


_listeners: Shared[Listeners] = Shared()


@pytest.fixture(scope="session")
def _processes(
    services: Addresses, database_name: str, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listeners]:
    with _listeners.held(
        lambda: running_listeners(services, database_name, tmp_path_factory.mktemp("home"))
    ) as running:
        yield running


@pytest.fixture
def listeners(
    _processes: Listeners,
    transactional_db: None,
    redis_url: str,
    gshare: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> Listeners:
    """The processes, and this process's settings agreeing with theirs."""
    gshare(port=_processes.web.port, public_url=_processes.console)
    layer = {"BACKEND": "gshare_core.kit.live_layer.LiveLayer"}
    layer["CONFIG"] = {"hosts": [redis_url], "prefix": "gshare-live"}  # type: ignore[assignment]
    monkeypatch.setattr(settings, "CHANNEL_LAYERS", {"default": layer})
    monkeypatch.setattr(channel_layers, "backends", {})
    return _processes


@dataclass(frozen=True)
class App:
    """The echo application."""

    socket: Path

    @property
    def endpoints(self) -> dict[str, str]:
        return dict.fromkeys(("lab", "terminal", "code"), f"unix:{self.socket}")


@contextmanager
def served_app(socket: Path) -> Iterator[App]:
    with echo_app(socket):
        yield App(socket)


_app: Shared[App] = Shared()


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with _app.held(lambda: served_app(tmp_path_factory.mktemp("a") / "app.sock")) as running:
        yield running


@dataclass(frozen=True)
class Visitor:
    """A browser that was let into a session: asks by hand-made headers."""

    listeners: Listeners
    session: Session
    cookie: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Host": self.listeners.host_of(self.session), "Cookie": f"{ACCESS_COOKIE}={self.cookie}"}

    @property
    def own_origin(self) -> dict[str, str]:
        return {"Origin": self.listeners.origin_of(self.session), "Sec-Fetch-Site": "same-origin"}

    def dial(self, path: str = "/lab/ws", headers: dict[str, str] | None = None, **options: Any) -> connect:
        """A websocket of the session's own page, unless the headers say otherwise."""
        given = {**self.headers, **(self.own_origin if headers is None else headers)}
        return self.listeners.dial(self.listeners.host_of(self.session), path, given, **options)

    def ask(
        self, path: str, method: str = "GET", *, headers: dict[str, str] | None = None, **options: Any
    ) -> httpx.Response:
        return http.request(
            method, self.listeners.at(path), headers={**self.headers, **(headers or {})}, timeout=20, **options
        )


@dataclass(frozen=True)
class Gate:
    """The way in."""

    listeners: Listeners

    def link(self, user: User, session: Session, app: str = "lab", reason: str | None = None) -> str:
        return access.mint(session_id=session.pk, by=user, app=app, reason=reason).url

    def follow(self, link: str, headers: dict[str, str] | None = None) -> httpx.Response:
        """What a browser gets for a link; the name is resolved here, as *.localhost is in browsers."""
        url = httpx.URL(link)
        host = url.netloc.decode()
        return http.get(url.copy_with(host="127.0.0.1"), headers={"Host": host, **(headers or {})})

    def enter(self, user: User, session: Session, app: str = "lab", reason: str | None = None) -> Visitor:
        response = self.follow(self.link(user, session, app, reason))
        assert response.status_code == 303, response.text
        assert response.headers["location"] == f"/{app}/"
        return Visitor(self.listeners, session, cookie_of(response))


@pytest.fixture
def gate(listeners: Listeners) -> Gate:
    return Gate(listeners)


def cookie_of(response: httpx.Response) -> str:
    """The access cookie that a response sets."""
    found = [value for value in response.headers.get_list("set-cookie") if value.startswith(f"{ACCESS_COOKIE}=")]
    assert len(found) == 1, response.headers
    return found[0].partition("=")[2].partition(";")[0]


def token_of(session: Session) -> str:
    """What the session's apps demand."""
    from cluster.tokens import cluster_key

    assert session.cluster_id is not None
    return app_token(cluster_key(session.cluster_id), session.pk, session.run_number)


@dataclass
class SignedIn:
    """Somebody's console session, and the keys of all that were made."""

    made: list[str] = field(default_factory=list)

    def __call__(self, user: User) -> str:
        store = SessionStore()
        store[SESSION_KEY] = str(user.pk)
        store[BACKEND_SESSION_KEY] = "accounts.backends.AccountBackend"
        store[HASH_SESSION_KEY] = user.get_session_auth_hash()
        store.save()
        assert store.session_key is not None
        self.made.append(store.session_key)
        return f"{CONSOLE_COOKIE}={store.session_key}"


@pytest.fixture
def sign_in() -> SignedIn:
    return SignedIn()
