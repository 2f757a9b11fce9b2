"""How many queries every page of the console needs: the same for 3 sessions as for 30, and no more than the ratchet says.

The bar is 15. A page above it stands in `ABOVE` with its number and the reason; the number may only fall, and an entry
that is not needed any more fails. Counted as a running server counts: the fleet of the process is known already.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing import services as billing
from billing.domain.budgets import Rule
from cluster import services as metal
from cluster.services import VolumeWish
from gshare_core.kit import clock
from tests.apps.sessions.world import World, a_world, limit, manual_clock
from tests.builders import cr
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db(transaction=True)

BAR = 15
PAGES = (
    "/",
    "/sessions/",
    "/sessions/?tab=ended",
    "/sessions/new/",
    "/sessions/{running}/",
    "/sessions/{waiting}/",
    "/sessions/{running}/stop/",
    "/queue/",
    "/volumes/",
    "/wallet/",
    "/wallet/request/",
    "/account/",
    "/notifications/",
)
# Two are the sign-in (session, person), three the frame (person with his seats and notices, live sessions, wallet with costs).
ABOVE: dict[str, tuple[int, str]] = {
    "/sessions/new/": (19, "with a volume to mount: its rights and its holder are four more than the 15 of all else"),
    "/volumes/": (19, "rights, shares, holders and limits of volumes are read apart"),
}


@pytest.fixture
def big_world(transactional_db: None) -> Iterator[World]:
    """Credits for thirty sessions and room for some of them, committed."""
    time = manual_clock()
    with clock.using(time):
        world = a_world(time, cards=2, funds=10_000)
        for field in (
            "max_sessions",
            "max_queued",
            "vram_mib",
            "core_percent",
            "cpu_milli",
            "memory_mib",
            "scratch_gib",
        ):
            limit("global", field, 1_000_000)
        metal.create_volume(by=world.alice.user, wish=VolumeWish("home", "home", "rwo", 1, world.cluster.pk))
        scope = billing.BudgetScope("user", world.alice.user.pk)
        billing.create_budget(scope=scope, limit=cr(10_000), mode="block", rule=Rule("UTC"), by=None)
        yield world


def counts(client: Client, addresses: dict[str, str]) -> dict[str, int]:
    """Queries by page, each asked once before."""
    found = {}
    for page, address in addresses.items():
        assert client.get(address).status_code == 200
        with CaptureQueriesContext(connection) as captured:
            client.get(address)
        found[page] = len(captured)
    return found


def test_every_page_needs_as_many_queries_for_many_rows_as_for_few_and_keeps_the_bar(big_world: World) -> None:
    client = browser(big_world.alice.user)
    running = big_world.run("S")
    big_world.run("S")
    stopped = big_world.create("S")
    client.post(f"/sessions/{stopped.pk}/stop/")
    big_world.gone(stopped)
    big_world.run("exclusive")
    waiting = big_world.create("exclusive")
    assert waiting.state == "queued"
    addresses = {page: page.format(running=running.pk, waiting=waiting.pk) for page in PAGES}
    few = counts(client, addresses)
    for _number in range(27):
        big_world.create("S")
    many = counts(client, addresses)
    assert few == many
    over = {page: found for page, found in many.items() if found > BAR}
    # More than the ratchet says is a fault; less means that it can be tightened, or taken away.
    assert over == {page: allowed for page, (allowed, _why) in ABOVE.items()}, many
