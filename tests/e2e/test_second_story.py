"""Two people and one card: a pause really frees it, whoever waits starts by himself, and the files of the first are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from gshare_core.money import parse_credits
from tests.e2e import acts
from tests.e2e.acts import api
from tests.e2e.running import Demo, sign_in

GPU = "T4"  # two cards in the demo
HOURLY_MICRO = 8_000_000  # a whole one
WRITES = "print(open('kept.txt', 'w').write('it is ' + str(sum(range(100)))), 'characters')"
WRITTEN = "it is 4950"

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Seat:
    """Somebody at the page of the session that he started."""

    demo: Demo
    page: Page
    session_id: str

    def see(self) -> Any:
        """The session by REST."""
        return api(self.page, self.demo, "GET", f"/sessions/{self.session_id}")

    def at(self, state: str) -> datetime:
        """When it came into a state for the last time."""
        rows = api(self.page, self.demo, "GET", f"/sessions/{self.session_id}/timeline")
        return max(datetime.fromisoformat(row["at"]) for row in rows if row["to"] == state and row["from"] != state)

    def cards(self) -> list[str]:
        """The cards that it holds."""
        return [card["uuid"] for card in self.see()["gpu"]["cards"]]


def test_a_pause_frees_the_last_card_for_who_waits_and_the_resume_finds_the_files_and_both_bills_are_exact(
    demo: Demo, browser: Browser, page: Page, context: BrowserContext
) -> None:
    sign_in(page, demo, "bob")
    with somebody_holds_the_other_card(browser, demo), acts.somebody(browser, demo, "alice") as alices:
        had = {who: balance(who, demo) for who in (page, alices)}
        makes_a_home(demo, page)
        bob = Seat(demo, page, asks_for_a_whole_card(demo, page, "Start"))
        acts.becomes(page, "running")
        writes_a_file(page, context)
        card = bob.cards()
        alice = Seat(demo, alices, asks_for_a_whole_card(demo, alices, "Queue"))
        waits_with_place_and_reason(alice)
        with without_reload(alices):
            pauses_and_gives_everything_back(bob)
            acts.becomes(alices, "running")
        assert alice.cards() == card
        assert bob.at("paused") <= alice.at("starting"), "nobody gets a card before the pod on it is gone"
        acts.presses(page, "Resume")
        waits_with_place_and_reason(bob)
        with without_reload(page):
            acts.stop(alices)
            acts.becomes(page, "running")
        assert bob.cards() == card
        acts.reads_in_the_terminal(page, context, "cat kept.txt; echo", WRITTEN)
        acts.stop(page)
        acts.processes_end(bob.session_id)
        pays_exactly(bob, had[page], runs=2)
        pays_exactly(alice, had[alices], runs=1)
    assert acts.offering(page, demo, GPU)["tiers"]["exclusive"]["free_now"] > 0
    acts.the_books_agree(demo)


@contextmanager
def somebody_holds_the_other_card(browser: Browser, demo: Demo) -> Iterator[None]:
    """A third person has a card of the model all along, so that one is left."""
    with acts.somebody(browser, demo, "grace") as grace:
        presets = api(grace, demo, "GET", "/presets")["results"]
        images = api(grace, demo, "GET", "/images")["results"]
        wish = {
            "name": "the-other-card",
            "group": api(grace, demo, "GET", "/me")["groups"][0]["id"],
            "offering": acts.offering(grace, demo, GPU)["id"],
            "preset": next(row["id"] for row in presets if row["tier"] == "exclusive" and row["cards"] == 1),
            "image": next(row["id"] for row in images if row["cuda"]),
        }
        made = api(grace, demo, "POST", "/sessions", wish, **{"Idempotency-Key": str(uuid4())})
        assert made["state"] == "starting"
        assert acts.offering(grace, demo, GPU)["tiers"]["exclusive"]["free_now"] == 1
        yield
        api(grace, demo, "POST", f"/sessions/{made['id']}/stop", {})


def balance(page: Page, demo: Demo) -> int:
    """What is in the personal wallet, in micro-credits."""
    return parse_credits(api(page, demo, "GET", "/me")["wallet"]["balance"])


def makes_a_home(demo: Demo, page: Page) -> None:
    """A volume that the form mounts at /home/work by itself."""
    page.goto(f"{demo.url}/volumes/")
    page.get_by_label("Name").fill("home-of-bob")
    page.get_by_label("Kind").select_option("home")
    page.get_by_role("button", name="Create the volume").click()
    expect(page.locator("#volume-list")).to_contain_text("home-of-bob")


def asks_for_a_whole_card(demo: Demo, page: Page, word: str) -> str:
    """The size, the GPU, and the button that says what will become of it."""
    page.goto(f"{demo.url}/sessions/new/")
    page.locator("label.size", has_text="Cards").click()
    review = page.locator("#review")
    expect(review).to_contain_text("50.00")
    page.locator("label.offering-option", has_text=GPU).click()
    expect(review).to_contain_text("8.00")
    return acts.press_start(page, word)


def writes_a_file(page: Page, context: BrowserContext) -> None:
    """In JupyterLab, in the mounted home."""
    lab = acts.opens_jupyterlab(page, context)
    acts.runs_a_cell(lab, WRITES, f"{len(WRITTEN)} characters")
    lab.close()
    page.bring_to_front()


def waits_with_place_and_reason(who: Seat) -> None:
    """First in line, and for what: on the page and by REST."""
    acts.becomes(who.page, "queued")
    wait = who.page.locator("#session-now .wait")
    expect(wait).to_contain_text("1st")
    expect(wait).to_contain_text(f"of 1 for {GPU}")
    expect(wait).to_contain_text(re.compile(f"No {GPU} .*is entirely free"))
    place = who.see()["queue"]
    assert (place["position"], place["missing"]["cards"]) == (1, 1), place
    assert who.cards() == []


def pauses_and_gives_everything_back(who: Seat) -> None:
    """One press; then its processes are gone and it has no card, and its page says so by itself."""
    acts.presses(who.page, "Pause")
    with without_reload(who.page):
        acts.becomes(who.page, "paused", acts.END_MS)
    acts.processes_end(who.session_id)
    assert who.cards() == []


@contextmanager
def without_reload(page: Page) -> Iterator[None]:
    """The page stays the same document all the while."""
    page.evaluate("window.sameDocument = true")
    yield
    assert page.evaluate("window.sameDocument === true")


def pays_exactly(who: Seat, had: int, *, runs: int) -> None:
    """Entries and balance say to the micro-credit what the timeline says was billed, run by run."""
    cost = acts.bills(who.page, who.demo, who.session_id, hourly_micro=HOURLY_MICRO)
    assert sorted(cost) == list(range(1, runs + 1))
    assert all(cost.values())
    assert acts.charges(who.page, who.demo, who.session_id) == cost
    acts.balance_is(who.page, who.demo, had - sum(cost.values()))
