"""The main job in a browser: from the first sign-in to a wallet that shows exactly what a quarter of a card cost."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e import acts
from tests.e2e.acts import api
from tests.e2e.running import Demo, sign_in

NEW_PASSWORD = "a sentence that only Nina knows"
HOURLY_MICRO = 12_500_000  # a quarter of a card at 50 credits an hour

pytestmark = pytest.mark.timeout(400)


def test_somebody_new_gets_a_quarter_of_a_card_works_and_pays_exactly_that(
    demo: Demo, browser: Browser, page: Page, context: BrowserContext
) -> None:
    first_password(demo, page)
    is_refused_for_want_of_credits(demo, page)
    gets_credits(demo, browser, page, "50")
    session_id = starts_a_quarter_in_three_clicks(demo, page)
    lab = acts.opens_jupyterlab(page, context)
    acts.runs_a_cell(lab, "print(open('answer.txt', 'w').write(str(6 * 7)), 'bytes')", "2 bytes")
    terminal = acts.reads_in_the_terminal(page, context, "cat answer.txt; echo", "42")
    acts.reads_the_logs(page, "Jupyter Server")
    acts.stop(page)
    acts.is_cut_off(page, terminal)
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
    expect(review).to_contain_text("Request 12.50 cr from your group")
    expect(review.get_by_role("button", name="Start")).to_be_disabled()


def gets_credits(demo: Demo, browser: Browser, page: Page, amount: str) -> None:
    """The group's administrator hands some down."""
    with acts.somebody(browser, demo, "grace") as grace:
        wallets = api(grace, demo, "GET", "/wallets")["results"]
        group = next(wallet for wallet in wallets if wallet["kind"] == "group")
        receiver = api(page, demo, "GET", "/me")["user"]["id"]
        body = {"to": f"user:{receiver}", "amount": amount, "note": "to begin with"}
        api(grace, demo, "POST", f"/wallets/{group['id']}/allocate", body, **{"Idempotency-Key": "to begin with"})


def starts_a_quarter_in_three_clicks(demo: Demo, page: Page) -> str:
    """New session, the size, Start; then it is live until it runs."""
    page.goto(f"{demo.url}/")
    page.get_by_role("link", name="New session").first.click()
    page.locator("label.size", has_text="19.9 GiB").click()
    session_id = acts.press_start(page)
    acts.becomes(page, "running")
    return session_id


def nothing_is_left_of(demo: Demo, page: Page, session_id: str) -> None:
    """The processes are gone and the card is free."""
    acts.processes_end(session_id)
    tiers = acts.offering(page, demo, "A100")["tiers"]
    assert tiers["L"]["free_now"] == 4 * tiers["exclusive"]["free_now"]


def the_wallet_shows_exactly(demo: Demo, page: Page, session_id: str, *, given: int) -> None:
    """Rate times occupancy times running time, floored to the micro-credit; the books agree."""
    cost = acts.bills(page, demo, session_id, hourly_micro=HOURLY_MICRO)
    assert cost[1] > 0
    assert acts.charges(page, demo, session_id) == cost
    acts.balance_is(page, demo, given - sum(cost.values()))
    page.goto(f"{demo.url}/wallet/")
    expect(page.locator("#ledger tbody tr").first).to_contain_text("charge")
    acts.the_books_agree(demo)
