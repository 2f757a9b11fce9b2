"""The pages of money in a real browser: axe finds nothing, no sideways scroll on a phone, targets fit a thumb."""

from __future__ import annotations

import pytest

from billing import services as billing
from tests.apps.sessions.world import World
from tests.builders import cr
from tests.web.browser import chromium, needs_browser
from tests.web.real_pages import opened, rendered
from tests.web.sessions.conftest import browser, world
from tests.web.test_accessibility import SMALL_TARGETS

__all__ = ["world"]

pytestmark = [pytest.mark.django_db, pytest.mark.e2e, needs_browser]


def faults(desk: dict[str, str], phone: dict[str, str]) -> list[str]:
    """What is wrong with these pages, light on a desk and dark on a phone."""
    found: list[str] = []
    with chromium() as started:
        with opened(started, desk) as shown:
            for path in desk:
                shown.visit(path)
                found += shown.violations()
            found += shown.complaints
        with opened(started, phone, width=390) as shown:
            for path in phone:
                shown.visit(path)
                found += shown.violations()
                if shown.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    found.append(f"{path} scrolls sideways")
                found += [f"{path}: {fault}" for fault in shown.page.evaluate(SMALL_TARGETS)]
            found += shown.complaints
    return found


def test_axe_finds_nothing_on_the_request_for_credits_and_a_phone_shows_it_whole(world: World) -> None:
    alice, client = world.alice.user, browser(world.alice.user)
    source = billing.ensure_wallet("group", world.alice.group.pk)
    first = billing.ask_for_credits(wallet=world.alice.wallet, parent=source, amount=cr(4), reason="one run", by=alice)
    billing.withdraw_request(request_id=first.pk, by=alice)
    billing.ask_for_credits(wallet=world.alice.wallet, parent=source, amount=cr(40), reason="a second run", by=alice)
    paths = ["/wallet/request/?amount=12.50"]
    found = faults(rendered(client, paths), rendered(client, paths, theme="dark"))
    assert not found, "\n".join(found)
