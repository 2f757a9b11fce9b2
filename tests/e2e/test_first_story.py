"""The main job in a browser: from the first sign-in to a wallet that shows exactly what a quarter of a card cost."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import psutil
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import Demo, sign_in
from tests.waiting import until

NEW_PASSWORD = "a sentence that only Nina knows"
HOURLY_MICRO = 12_500_000  # a quarter of a card at 50 credits an hour
HOUR_US = 3_600_000_000

pytestmark = pytest.mark.timeout(400)


def api(page: Page, demo: Demo, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """A REST call as the console would make it: with the page's own cookies."""
    token = next((c["value"] for c in page.context.cookies() if c["name"].endswith("csrftoken")), "")
    sent = {"Origin": demo.url, "X-CSRFToken": token, **headers}
    answer = page.request.fetch(f"{demo.url}/api/v1{path}", method=method, data=body, headers=sent)
    assert answer.ok, f"{method} {path}: {answer.status} {answer.text()}"
    return answer.json()


def test_somebody_new_gets_a_quarter_of_a_card_works_and_pays_exactly_that(
    demo: Demo, page: Page, context: BrowserContext
) -> None:
    first_password(demo, page)
    is_refused_for_want_of_credits(demo, page)
    gets_credits(demo, context, page, "50")
    session_id = starts_a_quarter_in_three_clicks(demo, page)
    lab = opens_jupyterlab(page, context)
    runs_a_cell_that_writes_a_file(lab)
    sees_the_file_in_the_terminal(page, context)
    stops(page, session_id)
    nothing_is_left_of(demo, page, session_id)
    the_wallet_shows_exactly(demo, page, session_id, given=50_000_000)


def first_password(demo: Demo, page: Page) -> None:
    """The initial password opens nothing but its own change."""
    sign_in(page, demo, "nina")
    expect(page).to_have_url(re.compile("/password/"))
    page.goto(f"{demo.url}/")
    expect(page).to_have_url(re.compile("/password/"))
    page.locator("input[name=current]").fill(demo.people["nina"]["password"])
    page.locator("input[name=new]").fill(NEW_PASSWORD)
    page.locator("input[name=repeat]").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Change the password").click()
    expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()


def is_refused_for_want_of_credits(demo: Demo, page: Page) -> None:
    """An empty wallet: the form says so before anything is pressed, and what would help."""
    page.goto(f"{demo.url}/sessions/new/")
    review = page.locator("#review")
    expect(review).to_contain_text("Refused at gate 6")
    expect(review).to_contain_text("request 12.50 cr from your group")
    expect(review.get_by_role("button", name="Start")).to_be_disabled()


def gets_credits(demo: Demo, context: BrowserContext, page: Page, amount: str) -> None:
    """The group's administrator hands some down."""
    assert context.browser is not None
    other = context.browser.new_context()
    grace = other.new_page()
    sign_in(grace, demo, "grace")
    wallets = api(grace, demo, "GET", "/wallets")["results"]
    group = next(wallet for wallet in wallets if wallet["kind"] == "group")
    receiver = api(page, demo, "GET", "/me")["user"]["id"]
    body = {"to": f"user:{receiver}", "amount": amount, "note": "to begin with"}
    api(grace, demo, "POST", f"/wallets/{group['id']}/allocate", body, **{"Idempotency-Key": "to begin with"})
    other.close()


def starts_a_quarter_in_three_clicks(demo: Demo, page: Page) -> str:
    """New session, the size, Start; then it is live until it runs."""
    page.goto(f"{demo.url}/")
    page.get_by_role("link", name="New session").first.click()
    page.locator("label.size", has_text="19.9 GiB").click()
    page.locator("#review").get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"/sessions/[0-9a-f-]{36}/"))
    expect(page.locator(".session-title .state")).to_contain_text("running", timeout=90_000)
    return page.url.rstrip("/").rpartition("/")[2]


CODE = "print(open('answer.txt', 'w').write(str(6 * 7)), 'bytes')"


def opens_jupyterlab(page: Page, context: BrowserContext) -> Page:
    """By the one-time link, on the session's own origin."""
    with context.expect_page() as opened:
        page.get_by_role("button", name="Open JupyterLab").click()
    lab = opened.value
    lab.wait_for_selector(".jp-Launcher", timeout=90_000)
    assert "t=" not in lab.url, "the token does not stay in the address"
    return lab


def runs_a_cell_that_writes_a_file(lab: Page) -> None:
    """A real kernel computes."""
    lab.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    cell = lab.locator(".jp-Notebook-cell .cm-content").first
    # JupyterLab draws the cell anew when its kernel connects: what was typed before that is lost.
    expect(lab.locator(".jp-StatusBar-Widget")).to_contain_text("| Idle", timeout=60_000)
    cell.click()
    lab.keyboard.type(CODE)
    expect(cell).to_have_text(CODE)
    lab.keyboard.press("Shift+Enter")
    expect(lab.locator(".jp-OutputArea-output").first).to_contain_text("2 bytes", timeout=90_000)


def sees_the_file_in_the_terminal(page: Page, context: BrowserContext) -> None:
    """The terminal echoes over its websocket, and shares the session's files."""
    heard: list[str] = []

    def listen(opened: Page) -> None:
        opened.on("websocket", lambda socket: socket.on("framereceived", lambda data: heard.append(_text(data))))

    context.on("page", listen)
    with context.expect_page() as coming:
        page.locator("button[name=app][value=terminal]").click()
    terminal = coming.value
    terminal.wait_for_selector(".xterm-helper-textarea", state="attached", timeout=30_000)
    terminal.locator(".xterm-helper-textarea").focus()
    terminal.keyboard.type("cat answer.txt; echo\n")

    def shows_it() -> bool:
        terminal.wait_for_timeout(50)  # lets the browser's events in
        return "42" in "".join(heard)

    until(shows_it, within=30, what="the terminal to show the file")


def _text(frame: str | bytes) -> str:
    return frame if isinstance(frame, str) else frame.decode(errors="replace")


def stops(page: Page, session_id: str) -> None:
    """Asks first, names the consequences, then ends."""
    page.bring_to_front()
    page.locator(".session-title").get_by_text("Stop").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("The run settles")
    dialog.locator("button.btn-danger").click()
    expect(page.locator(".session-title .state")).to_contain_text("stopped", timeout=90_000)


def nothing_is_left_of(demo: Demo, page: Page, session_id: str) -> None:
    """The processes are gone and the card is free."""
    name = session_id.replace("-", "")
    until(lambda: not _processes_of(name), within=30, what="the session's processes to end")
    offerings = api(page, demo, "GET", "/offerings")["results"]
    a100 = next(row for row in offerings if row["name"].startswith("A100"))
    assert a100["tiers"]["L"]["free_now"] == 4 * a100["tiers"]["exclusive"]["free_now"]


def _processes_of(name: str) -> list[int]:
    """Processes that were started for it or work in its folder; zombies are nobody's."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
        told = " ".join([*(process.info["cmdline"] or ()), process.info["cwd"] or ""])
        if process.info["status"] != psutil.STATUS_ZOMBIE and name in told:
            found.append(process.info["pid"])
    return found


def the_wallet_shows_exactly(demo: Demo, page: Page, session_id: str, *, given: int) -> None:
    """Rate times occupancy times running time, floored to the micro-credit; the books agree."""
    timeline = api(page, demo, "GET", f"/sessions/{session_id}/timeline")
    settled = next(row for row in timeline if row["billed_from"])
    ran = datetime.fromisoformat(settled["billed_to"]) - datetime.fromisoformat(settled["billed_from"])
    ran_us = ran.days * 86_400_000_000 + ran.seconds * 1_000_000 + ran.microseconds
    cost = HOURLY_MICRO * ran_us // HOUR_US
    assert cost > 0
    wallet = api(page, demo, "GET", "/me")["wallet"]
    assert wallet["balance"] == f"{(given - cost) // 1_000_000}.{(given - cost) % 1_000_000:06d}"
    assert wallet["held"] == "0.000000"
    page.goto(f"{demo.url}/wallet/")
    expect(page.locator("#ledger tbody tr").first).to_contain_text("charge")
    books = demo.manage("trial_balance")
    assert books.returncode == 0, books.stdout + books.stderr
