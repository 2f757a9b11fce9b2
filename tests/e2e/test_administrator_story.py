"""An administrator's day in a browser: sees what runs in his scope, registers somebody, stops a session and says why."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e import acts
from tests.e2e.acts import api
from tests.e2e.running import Demo, sign_in

WHY = "the node is needed for the class"

pytestmark = pytest.mark.timeout(400)


def test_an_administrator_sees_his_scope_registers_somebody_and_stops_a_session_with_a_reason(
    demo: Demo, browser: Browser, page: Page, context: BrowserContext
) -> None:
    with acts.somebody(browser, demo, "alice") as hers:
        session_id = starts_without_a_card(demo, hers, "alices-notes")
        hers.goto(f"{demo.url}/sessions/{session_id}/")
        sign_in(page, demo, "olga")
        goes_over_to_the_administrators_console(page)
        registers(page, "Rita Rau", "rita@gshare.example")
        stops_with_a_reason(page, "alices-notes")
        hers.reload()
        expect(hers.locator("#timeline")).to_contain_text(WHY)
        expect(hers.get_by_role("navigation", name="Consoles")).to_have_count(0)
    the_trail_tells(page, "alices-notes")


def starts_without_a_card(demo: Demo, page: Page, name: str) -> str:
    """A session without a GPU, by the page's own cookies."""
    group = api(page, demo, "GET", "/me")["groups"][0]["id"]
    preset = next(row["id"] for row in api(page, demo, "GET", "/presets")["results"] if row["tier"] == "cpu")
    image = api(page, demo, "GET", "/images")["results"][0]["id"]
    body = {"name": name, "group": group, "preset": preset, "image": image, "offering": None}
    made = api(page, demo, "POST", "/sessions", body, **{"Idempotency-Key": uuid4().hex})
    return str(made["id"])


def goes_over_to_the_administrators_console(page: Page) -> None:
    """By the switch in the top bar; the overview names the scope and draws its cards."""
    page.get_by_role("navigation", name="Consoles").get_by_role("link", name="Admin").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".scope")).to_contain_text("Engineering")
    expect(page.locator(".fleet-node").first).to_be_visible()
    page.locator(".fleet-index").first.click()
    expect(page.locator(".fleet-detail")).to_be_visible()


def registers(page: Page, name: str, email: str) -> None:
    """A form, and an initial password that is shown once."""
    page.get_by_role("link", name="Users").click()
    page.get_by_role("link", name="Register somebody").click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Place").select_option(label="Engineering, Vision Lab")
    page.get_by_label("Role in the group").select_option(label="member")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name=f"Initial password of {email}")).to_be_visible()
    page.get_by_role("link", name="Done").click()
    expect(page.get_by_role("heading", name=email)).to_be_visible()


def stops_with_a_reason(page: Page, name: str) -> None:
    """From the list to the session; the dialog asks why."""
    page.get_by_role("link", name=re.compile("^Sessions")).first.click()
    page.get_by_label("Name, owner or group").fill(name)
    page.get_by_role("link", name=name).click()
    page.locator(".session-title").get_by_text("Stop").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Reason").fill(WHY)
    dialog.locator("button.btn-danger").click()
    expect(page.locator(".session-title .state")).to_contain_text(re.compile("stopp"))


def the_trail_tells(page: Page, name: str) -> None:
    """Who stopped what, and why."""
    page.get_by_role("link", name="Audit").click()
    row = page.locator(".audit-rows tr", has_text="session.stop")
    expect(row.first).to_contain_text(name)
    expect(row.first).to_contain_text(WHY)
