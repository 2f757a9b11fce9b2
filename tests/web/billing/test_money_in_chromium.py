"""The pages of money in a real browser: axe finds nothing, no sideways scroll on a phone, targets fit a thumb."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import SYSTEM_ID, Budget
from tests.apps.sessions.world import World
from tests.builders import cr
from tests.web.browser import chromium, needs_browser
from tests.web.real_pages import opened, rendered
from tests.web.sessions.admin_world import administered
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


def test_axe_finds_nothing_on_the_administrators_pages_of_money_and_a_phone_shows_them_whole(world: World) -> None:
    us = administered(world)
    for kind, key, limit in (("group", world.alice.group.pk, 900), ("user", world.alice.user.pk, 20)):
        scope = billing.BudgetScope(kind, key)
        billing.create_budget(scope=scope, limit=cr(limit), mode="block", rule=Rule("UTC"), by=None)
    world.time.advance(timedelta(minutes=40))
    client = browser(us.root)
    for session in (us.of_neighbour, us.of_stranger):
        client.post(f"/admin/sessions/{session.pk}/stop/", {"reason": "enough"})
        world.gone(session)
    budget = Budget.objects.get(user=world.alice.user).pk
    source = billing.ensure_wallet("group", world.alice.group.pk)
    above = billing.ensure_wallet("organisation", world.alice.group.organisation_id)
    billing.set_monthly_grant(wallet=above, parent=SYSTEM_ID, amount=cr(80), by=None)
    billing.set_monthly_grant(wallet=source, parent=above, amount=cr(80), by=None)
    world.time.advance(timedelta(days=31))
    billing.refill_due()
    paths = ["/admin/credits/issue/", "/admin/credits/refills/", "/admin/credits/refills/?short=true"]
    paths += [
        f"/admin/credits/wallets/{source}/",
        "/admin/budgets/",
        "/admin/budgets/?mode=warn",
        f"/admin/budgets/{budget}/",
        "/admin/budgets/new/",
    ]
    first = (world.time.now() - timedelta(days=40)).date()
    paths += [f"/admin/reports/?first={first}", f"/admin/reports/?by=day&first={first}", "/admin/reports/?by=colour"]
    found = faults(rendered(client, paths), rendered(client, paths, theme="dark"))
    assert not found, "\n".join(found)
