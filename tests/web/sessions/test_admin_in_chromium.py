"""The administrators' pages in a real browser: axe finds nothing, no sideways scroll on a phone, targets fit a thumb."""

from __future__ import annotations

import pytest

from billing import services as billing
from tests.apps.sessions.world import World
from tests.builders import cr
from tests.web.browser import chromium, needs_browser
from tests.web.real_pages import opened, rendered
from tests.web.sessions.admin_world import administered
from tests.web.sessions.conftest import browser
from tests.web.test_accessibility import SMALL_TARGETS

pytestmark = [pytest.mark.django_db, pytest.mark.e2e, needs_browser]

PATHS = (
    "/admin/",
    "/admin/?view=table",
    "/admin/sessions/",
    "/admin/sessions/?q=nothing-like-it",
    "/admin/sessions/{running}/",
    "/admin/sessions/{waiting}/",
    "/admin/sessions/{running}/open/",
    "/admin/sessions/bulk/?act=stop&session={running}&session={waiting}",
    "/admin/queue/",
    "/admin/organisations/",
    "/admin/organisations/{organisation}/",
    "/admin/groups/new/",
    "/admin/groups/{group}/",
    "/admin/users/",
    "/admin/users/new/",
    "/admin/users/import/",
    "/admin/users/{alice}/",
    "/admin/users/{alice}/deactivate/",
    "/admin/audit/?verify=1",
    "/admin/credits/",
    "/admin/credits/?open={organisation},{group}&wallet={wallet}",
    "/admin/credits/?wallet={wallet}&act=grant",
    "/admin/credits/wallets/{wallet}/",
    "/admin/clusters/",
    "/admin/clusters/{cluster}/",
    "/admin/nodes/{node}/drain/",
    "/admin/policies/",
    "/admin/policies/?scope=group:{group}",
)
# Parts of a card are as wide as their share; the number of the card, in the same row, opens the same and fits a thumb.
EQUIVALENT = '<a href="?card='


def test_axe_finds_nothing_and_on_a_phone_nothing_scrolls_sideways_and_every_target_fits_a_thumb(world: World) -> None:
    us = administered(world)
    client = browser(us.root)
    card = client.get("/admin/").context["nodes"][0]["cards"][0]["id"]
    alice, group = world.alice.user, world.alice.group
    client.post(f"/admin/users/{alice.pk}/", {"act": "rename", "name": "Alice Amsel"})
    names = {"running": us.running.pk, "waiting": us.waiting.pk, "alice": alice.pk, "group": group.pk}
    names |= {"organisation": group.organisation_id, "wallet": world.alice.wallet}
    names |= {"cluster": world.cluster.pk, "node": world.node.pk}
    source = billing.ensure_wallet("group", group.pk)
    billing.ask_for_credits(wallet=world.alice.wallet, parent=source, amount=cr(4), reason="a second run", by=alice)
    paths = [path.format_map(names) for path in (*PATHS, f"/admin/?card={card}")]
    desk, phone = rendered(client, paths), rendered(client, paths, theme="dark")
    found: list[str] = []
    with chromium() as started:
        with opened(started, desk) as shown:
            for path in paths:
                shown.visit(path)
                found += shown.violations()
            found += shown.complaints
        with opened(started, phone, width=390) as shown:
            for path in paths:
                shown.visit(path)
                found += shown.violations()
                if shown.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    found.append(f"{path} scrolls sideways")
                small = shown.page.evaluate(SMALL_TARGETS)
                found += [f"{path}: {fault}" for fault in small if EQUIVALENT not in fault]
            found += shown.complaints
    assert not found, "\n".join(found)


def test_by_the_keyboard_a_card_is_chosen_and_says_who_and_why_in_place(world: World) -> None:
    us = administered(world)
    client = browser(us.root)
    cards = [card for node in client.get("/admin/").context["nodes"] for card in node["cards"]]
    card = next(card for card in cards if any(row["url"] for row in card["rows"]))
    address = "/admin/" + card["url"].partition("#")[0]
    pages = rendered(client, ["/admin/", address])
    with chromium() as started, opened(started, pages) as shown:
        shown.visit("/admin/")
        page = shown.page
        assert not page.get_by_text("Nothing sits on this card.").count()
        page.locator(f"#card-{card['id']} .fleet-index").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{address}*")
        detail = page.locator(f"#card-{card['id']} .fleet-detail")
        assert us.world.alice.user.email in detail.inner_text()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement !== document.body")
        assert shown.complaints == []
