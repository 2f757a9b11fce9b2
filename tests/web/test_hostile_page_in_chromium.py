"""Trap 54 in a browser: where it is hardest (console and sessions are one site, so every cookie rides along), and at home.

The hostile page is served by a real application behind the session proxy, over https, and does what such a page can do.
Names below `gshare.test` lead to this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher
from playwright.sync_api import BrowserContext, Page, Response

from accounts.models import User
from sessions_app.models import Session
from tests.builders import a_group, a_running_session, a_user
from tests.door.browser import chromium
from tests.door.fixtures import App, Gate, Listeners, Names, running_listeners
from tests.services import Addresses
from tests.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.e2e]

PASSWORD = "correct horse battery"
ATTACK = """
async ({console, other, key}) => {
  const outcome = {};
  const attempt = async (name, act) => {
    try { outcome[name] = await act(); } catch (error) { outcome[name] = `refused: ${error.name}`; }
  };
  const form = new URLSearchParams({csrfmiddlewaretoken: "x", app: "lab"});
  for (const [target, base] of [["console", console], ["other", other]]) {
    const path = target === "console" ? "/api/v1/me" : "/lab/api/contents";
    await attempt(`${target} read`, async () => (await fetch(base + path, {credentials: "include"})).text());
    await attempt(`${target} blind read`, async () => (await fetch(base + path, {credentials: "include", mode: "no-cors"})).type);
    await attempt(`${target} blind post`, async () =>
      (await fetch(base + path, {credentials: "include", mode: "no-cors", method: "POST", body: form})).type);
    await attempt(`${target} put`, async () =>
      (await fetch(base + path, {credentials: "include", method: "PUT", body: "{}", headers: {"X-CSRFToken": "x"}})).status);
    await attempt(`${target} beacon`, async () => navigator.sendBeacon(base + path, form));
    await attempt(`${target} image`, () => new Promise((resolve) => {
      const image = new Image();
      image.onload = () => resolve("loaded"); image.onerror = () => resolve("failed");
      image.src = base + path;
    }));
    await attempt(`${target} script`, () => new Promise((resolve) => {
      const script = document.createElement("script");
      script.onload = () => resolve("loaded"); script.onerror = () => resolve("failed");
      script.src = base + path; document.head.append(script);
    }));
    await attempt(`${target} frame`, () => new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.onload = () => { try { resolve(frame.contentDocument ? "readable" : "sealed"); } catch { resolve("sealed"); } };
      frame.src = base + "/"; document.body.append(frame);
    }));
    await attempt(`${target} posted frame`, () => new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.name = `${target}-frame`; document.body.append(frame);
      const posted = document.createElement("form");
      posted.method = "POST"; posted.target = frame.name;
      posted.action = base + (target === "console" ? "/logout/" : path);
      document.body.append(posted);
      frame.onload = () => resolve("answered");
      posted.submit();
    }));
    await attempt(`${target} websocket`, () => new Promise((resolve) => {
      const socket = new WebSocket(base.replace("http", "ws") + (target === "console" ? "/ws/live/" : "/lab/ws"));
      socket.onopen = () => resolve("open"); socket.onerror = () => resolve("failed");
    }));
  }
  await attempt("cookies", async () => {
    for (const name of ["__Host-sessionid", "__Host-csrftoken", "__Host-gshare-access"]) {
      document.cookie = `${name}=${key}; Domain=gshare.test; Path=/; Secure`;
      document.cookie = `${name}=${key}; Path=/; Secure`;
    }
    document.cookie = `tossed=1; Domain=gshare.test; Path=/`;
    return document.cookie;
  });
  return outcome;
}
"""

WINDOW = """
async ({console}) => {
  const opened = window.open(console + "/");
  for (let tries = 0; tries < 80 && !opened.closed; tries++) await new Promise((resolve) => setTimeout(resolve, 100));
  return {opener: window.opener === null, handle: opened.closed ? "severed" : "attached"};
}
"""


@pytest.fixture(scope="module")
def _one_site(
    services: Addresses, database_name: str, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listeners]:
    home = tmp_path_factory.mktemp("home")
    with running_listeners(
        services, database_name, home, Names("https", "console.gshare.test", "s.gshare.test")
    ) as running:
        yield running


@pytest.fixture
def one_site(_one_site: Listeners, transactional_db: None, redis_url: str, gshare: Callable[..., None]) -> Listeners:
    gshare(port=_one_site.web.port, public_url=_one_site.console, sessions_domain=_one_site.names.sessions)
    return _one_site


class Watch:
    """What the browser was answered, by target."""

    def __init__(self, context: BrowserContext) -> None:
        self.seen: list[tuple[str, str, int, dict[str, str]]] = []
        context.on("response", self._note)

    def _note(self, response: Response) -> None:
        request = response.request
        self.seen.append((request.method, request.url, response.status, request.all_headers()))

    def statuses(self, base: str) -> set[int]:
        return {status for _, url, status, _ in self.seen if url.startswith(base)}

    def cookies_sent(self, base: str) -> str:
        return " ".join(headers.get("cookie", "") for _, url, _, headers in self.seen if url.startswith(base))


def test_where_console_and_sessions_are_one_site_a_hostile_page_can_do_nothing_to_either(
    one_site: Listeners, app: App
) -> None:
    watch = _attack(one_site, app)
    assert watch.cookies_sent(one_site.console), "the cookies did ride along: SameSite did not help"


def test_at_localhost_a_hostile_page_can_do_nothing_to_either(listeners: Listeners, app: App) -> None:
    """The embedded default: plain http, where browsers keep `__Host-` cookies of localhost's names all the same."""
    _attack(listeners, app)


def _attack(listeners: Listeners, app: App) -> Watch:
    group = a_group()
    victim = a_user(group)
    User.objects.filter(pk=victim.pk).update(password=Argon2PasswordHasher().encode(PASSWORD, "salt-of-tests"))
    hostile, other = (a_running_session(victim, group, endpoints=app.endpoints) for _ in range(2))
    gate = Gate(listeners)
    links = [gate.link(victim, session) for session in (hostile, other)]
    with chromium("--host-resolver-rules=MAP *.gshare.test 127.0.0.1") as browser:
        context = browser.new_context(ignore_https_errors=True)
        key = _sign_in(context, listeners, victim)
        page = _enter_both(context, links)
        own = page.evaluate("async () => (await fetch('/lab/echo', {method: 'POST', body: 'x'})).status")
        assert own == 200, "a session's own page works"
        before = _asked(page, listeners.host_of(other))
        watch = Watch(context)
        outcome = page.evaluate(
            ATTACK, {"console": listeners.console, "other": listeners.origin_of(other), "key": "evil"}
        )
        _judge(outcome)
        assert watch.statuses(listeners.console) <= {403}
        assert watch.statuses(listeners.origin_of(other)) <= {403, 405}
        assert _asked(page, listeners.host_of(other)) == before, "nothing reached the other session's application"
        windows = page.evaluate(WINDOW, {"console": listeners.console})
        assert windows == {"opener": True, "handle": "severed"}, "no window of the console is in the page's hand"
        _console_is_as_before(context, listeners, key)
    assert Session.objects.get(pk=other.pk).state == "running"
    assert User.objects.get(pk=victim.pk).sign_in_epoch == 0
    return watch


def _sign_in(context: BrowserContext, one_site: Listeners, victim: User) -> str:
    """By the console's own form; the key of the session that it made."""
    page = context.new_page()
    page.goto(f"{one_site.console}/login/")
    page.fill("input[name=email]", victim.email)
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(lambda url: "/login/" not in url)
    return next(cookie["value"] for cookie in context.cookies() if cookie["name"] == "__Host-sessionid")


def _enter_both(context: BrowserContext, links: list[str]) -> Page:
    """The victim's tabs: the other session is open too; the page that stays is the hostile one."""
    pages = []
    for link in reversed(links):
        page = context.new_page()
        page.goto(link)
        assert page.title() == "" or page.url.endswith("/lab/")
        page.goto(page.url.replace("/lab/", "/lab/page"))
        assert page.title() == "app", page.content()
        pages.append(page)
    return pages[-1]


def _asked(page: Page, host: str) -> list[str]:
    text = page.evaluate("async () => (await fetch('/lab/facts')).text()")
    return list(json.loads(text)["asked"].get(host, []))


def _judge(outcome: dict[str, Any]) -> None:
    """Nothing was read, nothing opened, nothing embedded; what a page sends blindly was refused (see the statuses)."""
    for target in ("console", "other"):
        assert outcome[f"{target} read"] == "refused: TypeError"
        assert outcome[f"{target} put"] == "refused: TypeError"
        assert outcome[f"{target} blind read"] in ("opaque", "refused: TypeError")
        assert outcome[f"{target} blind post"] in ("opaque", "refused: TypeError")
        assert outcome[f"{target} image"] == "failed"
        assert outcome[f"{target} script"] == "failed"
        assert outcome[f"{target} frame"] == "sealed"
        assert outcome[f"{target} websocket"] == "failed"
    assert "__Host-gshare-access" not in outcome["cookies"], "the access cookie is out of scripts' reach"


def _console_is_as_before(context: BrowserContext, one_site: Listeners, key: str) -> None:
    """The victim is still signed in as himself, with his own cookies and no tossed one that the console would read."""
    kept = {cookie["name"]: cookie["value"] for cookie in context.cookies(one_site.console)}
    assert kept["__Host-sessionid"] == key
    assert kept.get("__Host-csrftoken") != "evil"
    page = context.new_page()
    answer = page.goto(f"{one_site.console}/api/v1/me")
    assert answer is not None
    assert answer.status == 200
    until(lambda: page.evaluate("document.readyState") == "complete", what="the console answers its own visitor")
