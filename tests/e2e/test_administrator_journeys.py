"""What an administrator of each rank does in his console, from the first person to the trail: one journey each, in a browser.

Each registers somebody, hands credits down, sets a policy and a budget one level below himself, decides a request, finds out
why a session waits, stops it with a reason, and reads all of it in the trail. Only what others do on the way (asking for
credits, taking the cards) is done by REST.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e import acts
from tests.e2e.acts import api
from tests.e2e.running import Demo, sign_in
from tests.waiting import until

GPU = "T4"  # two cards in the demo, on one node
WHY = "the cards are needed for the class"

pytestmark = [pytest.mark.timeout(400), pytest.mark.parametrize("demo", ["local"], indirect=True)]


@dataclass(frozen=True)
class Rank:
    """An administrator, and whom he deals with. The newcomer's address stands for `{new}`."""

    who: str  # the first part of his address in the demo
    scope: str  # as the top of his console names it
    newcomer: str
    place: str  # where he registers, as the form offers it
    parent: str  # whose credits he hands down
    child: str  # to whom, as the page of wallets names it
    limited: str  # whose policy and budget he sets
    budget_place: str  # the same as the budget's form offers it
    asker: str  # who asks for credits
    asks_for: tuple[str, str]  # kind and name of the wallet that asks, "" for his own

    def fills(self, text: str) -> str:
        return text.format(new=self.newcomer)


RANKS = (
    Rank(
        who="grace",
        scope="Vision Lab",
        newcomer="una@gshare.example",
        place="Engineering, Vision Lab",
        parent="Vision Lab",
        child="{new}",
        limited="{new}",
        budget_place="A person",
        asker="alice",
        asks_for=("user", ""),
    ),
    Rank(
        who="olga",
        scope="Engineering",
        newcomer="ulf@gshare.example",
        place="Engineering, Robotics",
        parent="Engineering",
        child="Robotics",
        limited="Robotics",
        budget_place="Engineering, Robotics",
        asker="grace",
        asks_for=("group", "Vision Lab"),
    ),
    Rank(
        who="admin",
        scope="All organisations",
        newcomer="uma@gshare.example",
        place="Science, Astrophysics",
        parent="System",
        child="Science",
        limited="Science",
        budget_place="Science",
        asker="olga",
        asks_for=("organisation", "Engineering"),
    ),
)


@pytest.mark.parametrize("rank", RANKS, ids=("group_admin", "org_admin", "super_admin"))
def test_from_the_first_person_to_the_trail(demo: Demo, browser: Browser, page: Page, rank: Rank) -> None:
    name = f"waits-for-{rank.who}"
    with somebody_waits(browser, demo, name), acts.somebody(browser, demo, rank.asker) as asker:
        asks_for_credits(demo, asker, rank)
        sign_in(page, demo, rank.who)
        goes_over(page, rank)
        registers(page, rank)
        hands_credits_down(page, rank)
        sets_a_policy(page, rank)
        sets_a_budget(page, rank)
        decides_the_request(page, rank)
        finds_out_why_it_waits(page, name)
        stops_it_with_a_reason(page, name)
        the_trail_tells_all_of_it(page, rank, name)
    acts.the_books_agree(demo)


# What others do -------------------------------------------------------------------------------------------------------


@contextmanager
def somebody_waits(browser: Browser, demo: Demo, name: str) -> Iterator[None]:
    """Alice has both cards of a model, Bob wants one of them and waits. Whatever is left ends."""
    with acts.somebody(browser, demo, "alice") as alice, acts.somebody(browser, demo, "bob") as bob:
        held = asks_for_cards(demo, alice, "holds-both", 2)
        waiting = asks_for_cards(demo, bob, name, 1)
        try:
            assert api(bob, demo, "GET", f"/sessions/{waiting}")["state"] == "queued"
            yield
            assert api(bob, demo, "GET", f"/sessions/{waiting}")["state"] == "stopped"
        finally:
            for owner, session_id in ((alice, held), (bob, waiting)):
                if "stop" in api(owner, demo, "GET", f"/sessions/{session_id}")["allowed"]:
                    api(owner, demo, "POST", f"/sessions/{session_id}/stop", {})
            until(
                lambda: acts.offering(alice, demo, GPU)["tiers"]["exclusive"]["free_now"] == 2,
                within=90,
                what="both cards to be free again",
            )


def asks_for_cards(demo: Demo, page: Page, name: str, cards: int) -> str:
    """A session on whole cards; its id."""
    presets = api(page, demo, "GET", "/presets")["results"]
    images = api(page, demo, "GET", "/images")["results"]
    wish = {
        "name": name,
        "group": api(page, demo, "GET", "/me")["groups"][0]["id"],
        "offering": acts.offering(page, demo, GPU)["id"],
        "preset": next(row["id"] for row in presets if row["tier"] == "exclusive" and row["cards"] == cards),
        "image": next(row["id"] for row in images if row["cuda"]),
    }
    made = api(page, demo, "POST", "/sessions", wish, **{"Idempotency-Key": uuid4().hex})
    return str(made["id"])


def asks_for_credits(demo: Demo, page: Page, rank: Rank) -> None:
    """One level up, for a wallet of the asker."""
    kind, name = rank.asks_for
    wallets = api(page, demo, "GET", f"/wallets?kind={kind}&limit=200")["results"]
    mine = api(page, demo, "GET", "/me")["wallet"]["id"]
    wallet = next(row["id"] for row in wallets if (row["name"] == name if name else row["id"] == mine))
    asked = {"wallet": wallet, "amount": "7.000000", "reason": f"a second run, {rank.who} decides"}
    api(page, demo, "POST", "/credit-requests", asked)


# What the administrator does ------------------------------------------------------------------------------------------


def goes_over(page: Page, rank: Rank) -> None:
    """By the switch in the top bar."""
    page.get_by_role("navigation", name="Consoles").get_by_role("link", name="Admin").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".scope")).to_contain_text(rank.scope)


def goes_to(page: Page, name: str) -> None:
    """By the navigation at the side, whose entries may carry a count."""
    page.locator("#navigation").get_by_role("link", name=re.compile(rf"^{name}\b")).first.click()
    expect(page.get_by_role("heading", name=name, exact=True).first).to_be_visible()


def registers(page: Page, rank: Rank) -> None:
    """A form, and an initial password that is shown once."""
    goes_to(page, "Users")
    page.get_by_role("link", name="Register somebody").click()
    page.get_by_label("E-mail").fill(rank.newcomer)
    page.get_by_label("Name").fill(f"Newcomer of {rank.who}")
    page.get_by_label("Place").select_option(label=rank.place)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name=f"Initial password of {rank.newcomer}")).to_be_visible()
    page.get_by_role("link", name="Done").click()
    expect(page.get_by_role("heading", name=rank.newcomer)).to_be_visible()


def hands_credits_down(page: Page, rank: Rank) -> None:
    """In the tree of wallets: to somebody who never had any, too. The page says what comes of it before it is done."""
    child = rank.fills(rank.child)
    goes_to(page, "Credits")
    page.get_by_label("Name or e-mail").fill(child)
    page.locator("#wallets").get_by_role("link", name=child, exact=True).click()
    panel = page.locator("#move")
    panel.get_by_label("Amount").fill("5")
    panel.get_by_label("Note").fill("to begin with")
    button = panel.get_by_role("button", name=f"Allocate 5.00 cr to {child.partition('@')[0]}")
    expect(button).to_be_visible()
    button.click()
    expect(page.get_by_text(f"{child} got 5.00 cr.")).to_be_visible()


def sets_a_policy(page: Page, rank: Rank) -> None:
    """From the page of whom it binds; what-if first, then for good."""
    opens_the_page_of(page, rank)
    page.get_by_role("link", name="Policy", exact=True).click()
    expect(page.get_by_role("heading", name=f"Policy of {rank.fills(rank.limited)}")).to_be_visible()
    number = page.locator("input[name=per_user-max_sessions]")
    number.fill("3")
    page.get_by_role("button", name="What if").click()
    expect(page.get_by_role("region", name="What if")).to_contain_text("3")
    page.locator("input[name=per_user-max_sessions]").fill("3")
    page.get_by_role("button", name="Set the policy").click()
    expect(page.get_by_text(f"The policy of {rank.fills(rank.limited)} is set.")).to_be_visible()
    expect(page.locator("input[name=per_user-max_sessions]")).to_have_value("3")


def opens_the_page_of(page: Page, rank: Rank) -> None:
    """Of the person, the group or the organisation that he limits."""
    lists = {"{new}": "Users", "Robotics": "Groups", "Science": "Organisations"}
    goes_to(page, lists[rank.limited])
    name = rank.fills(rank.limited)
    page.get_by_role("searchbox").fill(name)
    page.locator("main").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def sets_a_budget(page: Page, rank: Rank) -> None:
    """Of the same person or place, each calendar month."""
    goes_to(page, "Budgets")
    page.locator(".page-head").get_by_role("link", name="New budget").click()
    page.get_by_label("Whose").select_option(label=rank.budget_place)
    if rank.budget_place == "A person":
        page.get_by_label("E-mail of the person").fill(rank.newcomer)
    page.get_by_label("Limit, cr").fill("400")
    page.get_by_label("At the limit").select_option("block")
    page.get_by_role("button", name="Make the budget").click()
    expect(page.get_by_role("heading", name=f"Budget of {rank.fills(rank.limited)}")).to_be_visible()
    expect(page.locator("main")).to_contain_text("0.00 of 400.00 cr")


def decides_the_request(page: Page, rank: Rank) -> None:
    """The inbox says who asks for what; the dialog what is left afterwards."""
    goes_to(page, "Credits")
    asked = page.locator("#inbox li", has_text=f"{rank.who} decides")
    expect(asked).to_contain_text("7.00")
    asked.get_by_text("Approve").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("free afterwards")
    dialog.get_by_role("button", name="Give 7.00 cr").click()
    expect(page.get_by_text("has the credits.")).to_be_visible()
    expect(page.locator("#inbox li", has_text=f"{rank.who} decides")).to_have_count(0)


def finds_out_why_it_waits(page: Page, name: str) -> None:
    """In the line of its GPU: its place and what is missing; the same on its page."""
    goes_to(page, "Queue")
    row = page.locator(".queue-rows tr", has_text=name)
    expect(row).to_contain_text("waits for a whole card")
    expect(row).to_contain_text("nothing says when others end")
    row.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#session-now .wait")).to_contain_text("1st")
    expect(page.locator("#session-now .wait")).to_contain_text(re.compile(f"No {GPU} .*is entirely free"))


def stops_it_with_a_reason(page: Page, name: str) -> None:
    """The dialog names the consequences and asks why."""
    page.locator(".session-title").get_by_role("link", name="Cancel").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text(name)
    dialog.get_by_label("Reason").fill(WHY)
    dialog.locator("button.btn-danger").click()
    acts.becomes(page, "stopped")


def the_trail_tells_all_of_it(page: Page, rank: Rank, name: str) -> None:
    """Each act with whom or what it was about; the stop with its reason."""
    goes_to(page, "Audit")
    by_act = {
        "user.register": rank.newcomer,
        "credits.allocate": rank.fills(rank.child),
        "policy.": rank.fills(rank.limited),
        "budget.create": rank.fills(rank.limited),
        "credits.request.approved": "",
        "session.stop": name,
    }
    for act, about in by_act.items():
        row = page.locator(".audit-rows tbody > tr", has_text=act).filter(has_text=about).first
        expect(row).to_contain_text(f"{rank.who}@")
    expect(page.locator(".audit-rows tbody > tr", has_text="session.stop").filter(has_text=name)).to_contain_text(WHY)
