"""Access through an ingress: a real nginx, configured from the operator's own Ingress objects, before real applications.

JupyterLab and ttyd run as the session's image would run them; where code-server would be, an application that says what it was
asked. The control plane's two listeners are real processes; https ends at nginx, and sessions have a domain of their own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.hashers import Argon2PasswordHasher
from websockets.exceptions import ConnectionClosed

from accounts.models import Membership, User
from cluster.operator.manifests import Manifests, ManifestSettings, Owner, manifests_of, nginx_profile
from gshare_core.contract import NAMESPACE_SESSIONS, session_name
from sessions_app import access
from sessions_app.models import Run, Session
from sessions_app.spec import desired_spec
from tests.builders import a_group, a_running_session, a_user
from tests.door import http
from tests.door.browser import chromium
from tests.door.certificates import make_certificate
from tests.door.fixtures import Gate, Listeners, Names, Visitor, cookie_of, running_listeners, token_of
from tests.door.processes import echo_app, free_port
from tests.door.talking import executed, terminal_credential, typed
from tests.kube.containers import Container, running
from tests.kube.ingress_nginx import Listener
from tests.kube.nginx import Nginx
from tests.kube.rest import JSON
from tests.services import Addresses
from tests.waiting import until, until_async

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

PUBLIC = Names("https", "console.gshare.test", "gshare-sessions.test")
PASSWORD = "correct horse battery"
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}


def path_to(service: str) -> JSON:
    """Everything on a host leads to a service."""
    return {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}}


#: As the chart has it: the console on its own host, without a question before it.
CONSOLE: JSON = {
    "metadata": {"name": "gshare", "namespace": "gshare-system"},
    "spec": {"rules": [{"host": PUBLIC.console, "http": {"paths": [path_to("gshare-web")]}}]},
}


@dataclass
class Ingress:
    """What an ingress controller knows: sessions' objects, and where their pods are."""

    nginx: Nginx
    listeners: Listeners
    folder: Path
    auth: str = ""  # where the controller asks, if not the internal listener

    def __post_init__(self) -> None:
        self.objects: list[JSON] = [CONSOLE]
        web = f"127.0.0.1:{self.listeners.web.port}"
        self.endpoints = {("gshare-system", "gshare-web", 80): [web], (NAMESPACE_SESSIONS, "gshare-edge", 80): [web]}

    def objects_of(self, session: Session) -> Manifests:
        """What the operator makes of the session's document."""
        profile = nginx_profile(self.auth or self.listeners.inside(""), self.listeners.console)
        owner = Owner(session_name(session.pk), str(uuid4()))
        spec = desired_spec(session, Run.objects.get(session=session, number=session.run_number))
        return manifests_of(spec, owner, token_of(session), ManifestSettings(ingress=profile))

    def add(self, session: Session, ip: str = "") -> Manifests:
        """Take the session's objects, as an ingress controller does when they appear; `ip` is its ready pod's."""
        made = self.objects_of(session)
        self.objects += made.ways
        (service,) = (each for each in made.around if each["kind"] == "Service")
        for port in service["spec"]["ports"] if ip else ():
            backend = (NAMESPACE_SESSIONS, service["metadata"]["name"], port["port"])
            self.endpoints[backend] = [f"{ip}:{port['targetPort']}"]
        self.nginx.serve(self.objects, self.endpoints)
        return made

    def container_of(self, session: Session) -> Container:
        """The session's pod with an address, not started."""
        name = session.pk.hex
        return Container(self.objects_of(session).pod, self.folder / f"{name}.pod", self.folder / name)


@pytest.fixture(scope="module")
def _listeners(
    services: Addresses, database_name: str, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listeners]:
    home = tmp_path_factory.mktemp("home")
    with running_listeners(services, database_name, home, PUBLIC, in_front=free_port()) as made:
        yield made


@pytest.fixture
def listeners(_listeners: Listeners, transactional_db: None, gshare: Any) -> Listeners:
    gshare(port=_listeners.port, public_url=_listeners.console, sessions_domain=PUBLIC.sessions)
    return _listeners


@pytest.fixture
def ingress(listeners: Listeners, tmp_path: Path) -> Iterator[Ingress]:
    certificate = make_certificate(tmp_path, PUBLIC.console, f"*.{PUBLIC.sessions}")
    nginx = Nginx(tmp_path / "nginx", Listener(listeners.port, certificate))
    yield Ingress(nginx, listeners, tmp_path)
    nginx.stop()


@pytest.fixture
def owner() -> User:
    return a_user(a_group())


def somebodys(owner: User) -> Session:
    """A running session as its document says it to a cluster."""
    group = Membership.objects.get(user=owner).group
    assert group is not None
    return a_running_session(owner, group, generation=1)


def token_from(made: Manifests) -> Any:
    """The secrets that the operator made, as a kubelet reads them."""
    secrets = {each["metadata"]["name"]: each["data"] for each in made.around if each["kind"] == "Secret"}
    return lambda name, key: base64.b64decode(secrets[name][key]).decode()


@pytest.fixture
def session(ingress: Ingress, owner: User) -> Iterator[Session]:
    """Somebody's session behind the ingress, where code-server's port echoes and nothing else runs."""
    made = somebodys(owner)
    container = ingress.container_of(made)
    ingress.add(made, container.ip)
    with echo_app(8080, container.ip):
        yield made


@pytest.fixture
def visitor(listeners: Listeners, session: Session, owner: User) -> Visitor:
    return Gate(listeners).enter(owner, session)


@pytest.fixture
def working(ingress: Ingress, owner: User) -> Iterator[tuple[Session, Container]]:
    """Somebody's session with JupyterLab and a terminal, ready as its pod's probe says."""
    made = somebodys(owner)
    container = ingress.container_of(made)
    objects = ingress.add(made, container.ip)
    with running(container, token_from(objects)):
        until(lambda: container.is_ready, within=90, what="JupyterLab answers the probe")
        yield made, container


# Real applications ----------------------------------------------------------------------------------------------------


async def test_jupyterlab_and_the_terminal_work_through_nginx_and_what_is_open_ends_with_the_pod(
    working: tuple[Session, Container], listeners: Listeners, owner: User
) -> None:
    session, container = working
    visitor = await sync_to_async(Gate(listeners).enter)(owner, session)
    page = visitor.ask("/lab/lab", headers=NAVIGATION)
    assert (page.status_code, "jupyter-config-data" in page.text) == (200, True)
    kernel = visitor.ask("/lab/api/kernels", "POST", headers=visitor.own_origin, json={}).json()["id"]
    assert "<title>" in visitor.ask("/terminal/", headers=NAVIGATION).text
    credential = terminal_credential(await sync_to_async(token_of)(session))
    tty: Any = {"subprotocols": ["tty"]}
    async with (
        visitor.dial(f"/lab/api/kernels/{kernel}/channels") as channels,
        visitor.dial("/terminal/ws", **tty) as terminal,
    ):
        assert await executed(channels, "print(6 * 7)") == "42\n"
        assert "run-1-42" in await typed(terminal, credential, "echo run-$GSHARE_RUN-$((6 * 7))", "run-1-42")
        await sync_to_async(Session.objects.filter(pk=session.pk).update)(state="pausing")
        await until_async(lambda: _refused(visitor, "/lab/api/status"), within=3, what="requests are refused")
        await channels.ping()  # what was open stays so: an ingress asks at the handshake only
        container.ask_to_end()
        for socket in (channels, terminal):
            with pytest.raises(ConnectionClosed):
                await _drain(socket)
    until(container.is_gone, within=20, what="kernels and shells end too")


async def _refused(visitor: Visitor, path: str) -> bool:
    return (await sync_to_async(visitor.ask)(path)).status_code == 302


async def _drain(socket: Any) -> None:
    while True:
        await socket.recv()


# The way in -----------------------------------------------------------------------------------------------------------


def test_a_one_time_link_leads_through_nginx_to_the_app_once(
    listeners: Listeners, owner: User, session: Session
) -> None:
    gate = Gate(listeners)
    link = gate.link(owner, session, "code")
    assert link.startswith(f"{listeners.origin_of(session)}/.gshare/enter?t=")
    response = gate.follow(link)
    assert (response.status_code, response.headers["location"]) == (303, "/code/")
    assert Visitor(listeners, session, cookie_of(response)).ask("/code/").status_code == 200
    assert gate.follow(link).status_code == 403


@pytest.mark.parametrize("path", ["/lab/", "/terminal/", "/code/", "/code/a/b", "/lab/api/status"])
def test_who_has_no_cookie_is_led_to_the_sessions_page(listeners: Listeners, session: Session, path: str) -> None:
    host = {"Host": listeners.host_of(session)}
    for headers in ({}, NAVIGATION):
        response = http.get(listeners.at(path), headers={**host, **headers})
        assert response.status_code == 302
        assert response.headers["location"].startswith(f"{listeners.console}/sessions/{session.pk}/?")


def test_who_has_no_cookie_opens_no_websocket(listeners: Listeners, session: Session) -> None:
    assert handshake(Visitor(listeners, session, "none")) == 302


def test_another_sessions_cookie_opens_neither_page_nor_websocket(
    ingress: Ingress, visitor: Visitor, owner: User
) -> None:
    """Trap 51."""
    other = somebodys(owner)
    container = ingress.container_of(other)
    ingress.add(other, container.ip)
    thief = replace(visitor, session=other)
    with echo_app(8080, container.ip):
        assert (visitor.ask("/code/").status_code, thief.ask("/code/").status_code) == (200, 302)
        assert handshake(thief) == 302


async def test_a_page_of_another_origin_is_refused_and_not_led_anywhere(visitor: Visitor) -> None:
    """Trap 54."""
    for foreign in ({"Origin": "https://evil.example"}, {"Origin": visitor.listeners.console}, {}):
        assert handshake(visitor, foreign) == 403
        assert visitor.ask("/code/", "POST", headers=foreign).status_code == 403
    async with visitor.dial("/code/ws") as socket:
        await socket.send("still here")
        assert await socket.recv() == "still here"


def handshake(visitor: Visitor, headers: dict[str, str] | None = None) -> int:
    """How a websocket's handshake, of the session's own page unless the headers say otherwise, is refused."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}
    own = visitor.own_origin if headers is None else headers
    return visitor.ask("/code/ws", headers={**upgrade, **key, **own}).status_code


# What is asked and what is believed -------------------------------------------------------------------------------------


def lies(visitor: Visitor, victim: Session) -> dict[str, str]:
    """Everything that a client could say to look like an ingress, a proxy or somebody else."""
    own = visitor.listeners.origin_of(visitor.session)
    return {
        "Authorization": "Bearer mine",
        "X-Original-Method": "GET",
        "X-Original-URL": f"{own}/code/",
        "X-Original-URI": "/code/",
        "X_Original_URL": f"{own}/code/",
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Host": visitor.listeners.host_of(visitor.session),
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Port": "80",
        "X-Real-IP": "203.0.113.7",
        "X-Scheme": "http",
        "Forwarded": "for=203.0.113.7;proto=http",
        "X-Auth-Request-Redirect": "https://evil.example/",
        "X-GShare-Session": str(victim.pk),
    }


def test_what_a_client_says_of_itself_changes_nothing(ingress: Ingress, visitor: Visitor, owner: User) -> None:
    other = somebodys(owner)
    container = ingress.container_of(other)
    ingress.add(other, container.ip)
    with echo_app(8080, container.ip):
        thief = replace(visitor, session=other)
        assert thief.ask("/code/", headers=lies(visitor, other)).status_code == 302
        stranger = Visitor(visitor.listeners, other, "")
        refused = stranger.ask("/code/", headers=lies(visitor, other))
        assert refused.headers["location"].startswith(f"{visitor.listeners.console}/sessions/{other.pk}/?")
        link = Gate(visitor.listeners).link(owner, other, "code")
        entered = Gate(visitor.listeners).follow(link, lies(visitor, other))
        assert cookie_of(entered)
    seen = dict(visitor.ask("/code/", headers=lies(visitor, other)).json()["headers"])
    assert (seen["x-forwarded-for"], seen["x-real-ip"], seen["x-forwarded-proto"]) == (
        "127.0.0.1",
        "127.0.0.1",
        "https",
    )
    assert (seen["host"], seen["x-forwarded-host"]) == (visitor.headers["Host"], visitor.headers["Host"])
    assert "authorization" not in seen, "code-server has no credential, and the client's own does not reach it"


def test_the_prefix_of_code_server_is_cut_off_and_what_is_no_app_is_nobodys(visitor: Visitor) -> None:
    seen = visitor.ask("/code/a/b?c=%2Fd").json()
    assert (seen["path"], seen["query"]) == ("/a/b", "c=%2Fd")
    for path in ("/", "/other/", "/code", "/internal/v1/access/verify"):
        assert visitor.ask(path).status_code == 404
    for path in ("/CODE/", "/.gshare/..%2fcode/", "/code/..%2flab/"):
        with httpx.Client(trust_env=False, verify=False) as client:
            request = client.build_request("GET", visitor.listeners.at("/"), headers=visitor.headers)
            request.extensions = {"target": path.encode()}
            assert client.send(request).status_code == 403, path


def test_every_request_is_asked_for_and_an_answer_is_kept_by_nobody(visitor: Visitor, session: Session) -> None:
    assert visitor.ask("/code/").status_code == 200
    Membership.objects.filter(user=session.owner).update(role="guest")
    until(lambda: visitor.ask("/code/").status_code == 403, within=3, what="the right ends")
    Membership.objects.filter(user=session.owner).update(role="member")
    assert visitor.ask("/code/").status_code == 200, "a no is not remembered"
    for state, status in (("pausing", 302), ("paused", 302), ("running", 200)):
        Session.objects.filter(pk=session.pk).update(state=state)
        until(partial(answers, visitor, status), within=3, what=f"{status} as {state}")


def answers(visitor: Visitor, status: int) -> bool:
    """Whether a page is answered with a status."""
    return visitor.ask("/code/").status_code == status


def test_a_younger_cookie_rides_on_whatever_the_app_answers(visitor: Visitor) -> None:
    grant = access.read_cookie(visitor.cookie)
    assert grant is not None
    assert "set-cookie" not in visitor.ask("/code/").headers
    old = replace(visitor, cookie=access.write_cookie(replace(grant, renewed=grant.renewed - 1800)))
    for path, status in (("/code/", 200), ("/code/missing", 404)):
        response = old.ask(path)
        assert response.status_code == status
        younger = access.read_cookie(cookie_of(response))
        assert younger is not None
        assert younger.renewed > grant.renewed - 60


def test_where_nobody_can_be_asked_nobody_gets_in(ingress: Ingress, owner: User, listeners: Listeners) -> None:
    ingress.auth = f"http://127.0.0.1:{free_port()}"
    session = somebodys(owner)
    container = ingress.container_of(session)
    ingress.add(session, container.ip)
    with ExitStack() as ends:
        ends.enter_context(echo_app(8080, container.ip))
        assert Gate(listeners).enter(owner, session).ask("/code/").status_code == 500


def test_a_session_without_a_ready_pod_is_unavailable(ingress: Ingress, owner: User, listeners: Listeners) -> None:
    session = somebodys(owner)
    ingress.add(session)
    assert Gate(listeners).enter(owner, session).ask("/code/").status_code == 503


# A browser ------------------------------------------------------------------------------------------------------------


def test_no_cookie_of_the_console_reaches_an_app(listeners: Listeners, owner: User, session: Session) -> None:
    User.objects.filter(pk=owner.pk).update(password=Argon2PasswordHasher().encode(PASSWORD, "salt-of-tests"))
    link = Gate(listeners).link(owner, session, "code")
    with chromium("--host-resolver-rules=MAP *.test 127.0.0.1") as browser:
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(f"{listeners.console}/login/")
        page.get_by_label("E-mail").fill(owner.email)
        page.locator("input[name=password]").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{listeners.console}/")
        assert "__Host-sessionid" in {cookie["name"] for cookie in context.cookies()}
        page.goto(link)
        seen = dict(json.loads(page.inner_text("body"))["headers"])
    assert [each.partition("=")[0] for each in seen["cookie"].split("; ")] == ["__Host-gshare-access"]
