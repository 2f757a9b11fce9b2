"""What people of the browser stories do and look at: REST with a page's cookies, applications, processes, exact bills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psutil
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, expect

from gshare_core.money import format_credits, parse_credits
from tests.e2e.running import Demo, quiet_page, sign_in
from tests.waiting import until

HOUR_US = 3_600_000_000
START_MS = 120_000
END_MS = 90_000


def api(page: Page, demo: Demo, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """A REST call as the console would make it: with the page's own cookies."""
    token = next((c["value"] for c in page.context.cookies() if c["name"].endswith("csrftoken")), "")
    sent = {"Origin": demo.url, "X-CSRFToken": token, **headers}
    answer = page.request.fetch(f"{demo.url}/api/v1{path}", method=method, data=body, headers=sent)
    assert answer.ok, f"{method} {path}: {answer.status} {answer.text()}"
    return answer.json() if answer.status != 204 else None


@contextmanager
def somebody(browser: Browser, demo: Demo, who: str) -> Iterator[Page]:
    """A page of somebody else, in a browser of their own."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        with quiet_page(context) as page:
            sign_in(page, demo, who)
            yield page
    finally:
        context.close()


# The session page -----------------------------------------------------------------------------------------------------


def press_start(page: Page, word: str = "Start") -> str:
    """Start what the form shows; the session's id, on its page. `word`: what the button begins with, Start or Queue."""
    page.locator("#review").get_by_role("button", name=word).click()
    page.wait_for_url(re.compile(r"/sessions/[0-9a-f-]{36}/"))
    return page.url.rstrip("/").rpartition("/")[2]


def becomes(page: Page, state: str, within_ms: int = START_MS) -> None:
    """The open page shows the state, by itself."""
    expect(page.locator(".session-title .state")).to_contain_text(state, timeout=within_ms)


def presses(page: Page, verb: str) -> None:
    """A verb that is not asked first: the page comes again with what became of it."""
    with page.expect_navigation():
        page.locator(".session-title").get_by_role("button", name=verb, exact=True).click()


def stop(page: Page) -> None:
    """Asks first, names the consequences, then ends."""
    page.bring_to_front()
    page.locator(".session-title").get_by_text("Stop").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("The run settles")
    dialog.locator("button.btn-danger").click()
    becomes(page, "stopped", END_MS)


# Applications ---------------------------------------------------------------------------------------------------------


def opens_jupyterlab(page: Page, context: BrowserContext) -> Page:
    """By the one-time link, on the session's own origin."""
    with context.expect_page() as opened:
        page.get_by_role("button", name="Open JupyterLab").click()
    lab = opened.value
    lab.wait_for_selector(".jp-Launcher", timeout=START_MS)
    assert "t=" not in lab.url, "the token does not stay in the address"
    return lab


def runs_a_cell(lab: Page, code: str, output: str) -> None:
    """A real kernel computes."""
    lab.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    cell = lab.locator(".jp-Notebook-cell .cm-content").first
    # JupyterLab draws the cell anew when its kernel connects: what was typed before that is lost.
    expect(lab.locator(".jp-StatusBar-Widget")).to_contain_text("| Idle", timeout=START_MS)
    cell.click()
    lab.keyboard.type(code)
    expect(cell).to_have_text(code)
    lab.keyboard.press("Shift+Enter")
    expect(lab.locator(".jp-OutputArea-output").first).to_contain_text(output, timeout=END_MS)


def reads_in_the_terminal(page: Page, context: BrowserContext, command: str, shown: str) -> WebSocket:
    """Types into the terminal, which answers over its websocket; `shown` must not be part of the command.

    Returns the websocket, open.
    """
    heard: list[str] = []
    sockets: list[WebSocket] = []

    def connected(socket: WebSocket) -> None:
        sockets.append(socket)
        socket.on("framereceived", lambda data: heard.append(_text(data)))

    def listen(opened: Page) -> None:
        opened.on("websocket", connected)

    context.on("page", listen)
    with context.expect_page() as coming:
        page.locator("button[name=app][value=terminal]").click()
    terminal = coming.value
    terminal.wait_for_selector(".xterm-helper-textarea", state="attached", timeout=30_000)
    terminal.locator(".xterm-helper-textarea").focus()
    terminal.keyboard.type(f"{command}\n")

    def shows_it() -> bool:
        terminal.wait_for_timeout(50)  # lets the browser's events in
        return shown in "".join(heard)

    until(shows_it, within=30, what=f"the terminal to show {shown!r}")
    assert not sockets[0].is_closed()
    return sockets[0]


def reads_the_logs(page: Page, written: str) -> None:
    """What the session's applications wrote, from its page and back; no credential is in it."""
    page.bring_to_front()
    page.get_by_role("link", name="Logs", exact=True).click()
    lines = page.get_by_role("region", name="Log lines")
    expect(lines).to_contain_text(written)
    assert not re.search("[0-9a-f]{64}", lines.inner_text())
    page.go_back()


def is_cut_off(page: Page, socket: WebSocket) -> None:
    """What was open to a session that ended is closed."""

    def closed() -> bool:
        page.wait_for_timeout(50)  # lets the browser's events in
        return socket.is_closed()

    until(closed, within=10, what="the open websocket to end")


def _text(frame: str | bytes) -> str:
    return frame if isinstance(frame, str) else frame.decode(errors="replace")


# What is left, and what it cost ---------------------------------------------------------------------------------------


def processes_end(session_id: str) -> None:
    """Nothing runs any more that was started for a session or works in its folder."""
    name = session_id.replace("-", "")
    until(lambda: not _processes_of(session_id, name), within=30, what="the session's processes to end")


def _processes_of(session_id: str, name: str) -> list[int]:
    """What has the session's environment, or its name in its command or folder. Zombies are nobody's."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "environ", "status"]):
        told = " ".join([*(process.info["cmdline"] or ()), process.info["cwd"] or ""])
        is_its = name in told or (process.info["environ"] or {}).get("GSHARE_SESSION") == session_id
        if process.info["status"] != psutil.STATUS_ZOMBIE and is_its:
            found.append(process.info["pid"])
    return found


def offering(page: Page, demo: Demo, name: str) -> Any:
    """What REST says of the offering whose name begins so."""
    return next(row for row in api(page, demo, "GET", "/offerings")["results"] if row["name"].startswith(name))


def bills(page: Page, demo: Demo, session_id: str, *, hourly_micro: int) -> dict[int, int]:
    """What each run of a session must have cost by its timeline, in micro-credits: floor(hourly × what was billed)."""
    timeline = api(page, demo, "GET", f"/sessions/{session_id}/timeline")
    ran_us: dict[int, int] = {}
    for row in timeline:
        if row["billed_from"]:
            ran_us[row["run"]] = ran_us.get(row["run"], 0) + _microseconds(row["billed_from"], row["billed_to"])
    return {run: hourly_micro * span // HOUR_US for run, span in ran_us.items()}


def charges(page: Page, demo: Demo, session_id: str) -> dict[int, int]:
    """What the personal wallet's entries say that each run of a session cost, in micro-credits."""
    wallet = api(page, demo, "GET", "/me")["wallet"]["id"]
    entries = api(page, demo, "GET", f"/wallets/{wallet}/entries?kind=charge&reference={session_id}&limit=100")
    paid: dict[int, int] = {}
    for row in entries["results"]:
        paid[row["run"]] = paid.get(row["run"], 0) - parse_credits(row["change"])
    return paid


def balance_is(page: Page, demo: Demo, micro: int) -> None:
    """The personal wallet has exactly that, and nothing is held."""
    wallet = api(page, demo, "GET", "/me")["wallet"]
    assert (wallet["balance"], wallet["held"]) == (format_credits(micro), "0.000000")


def the_books_agree(demo: Demo) -> None:
    """`manage.py trial_balance --full` recounts everything."""
    books = demo.manage("trial_balance", "--full")
    assert books.returncode == 0, books.stdout + books.stderr


def _microseconds(since: str, to: str) -> int:
    span = datetime.fromisoformat(to) - datetime.fromisoformat(since)
    return span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds
