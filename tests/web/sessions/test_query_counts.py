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

from gshare_core.kit import clock
from tests.apps.sessions.world import World, a_world, limit, manual_clock
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
# Two are the sign-in (session, person), six the frame (seats, counts, wallet, running cost, notices, rights).
ABOVE: dict[str, tuple[int, str]] = {
    "/": (27, "composes wallet, spend, limits, notices, sessions, places in line, cards and offers"),
    "/sessions/": (16, "the place in line is two statements"),
    "/sessions/new/": (36, "asks the real gates: their facts are a dozen and a half statements by themselves"),
    "/sessions/{running}/": (17, "timeline, the card with its claims and their names"),
    "/sessions/{waiting}/": (16, "the place in line is two statements"),
    "/queue/": (19, "offers with their lines, and the place in line"),
    "/volumes/": (16, "limits of a person without a group, and who administers what, twice"),
    "/wallet/": (22, "three charts, the ledger with its count, holds twice"),
    "/account/": (16, "limits with their use, sign-ins"),
}


@pytest.fixture
def big_world(transactional_db: None) -> Iterator[World]:
    """Room and credits for thirty sessions, committed."""
    time = manual_clock()
    with clock.using(time):
        world = a_world(time, cards=8, funds=10_000)
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
    waiting = big_world.create("exclusive", name="waits")
    addresses = {page: page.format(running=running.pk, waiting=waiting.pk) for page in PAGES}
    few = counts(client, addresses)
    for _number in range(27):
        big_world.run("S")
    many = counts(client, addresses)
    assert few == many
    over = {page: found for page, found in many.items() if found > BAR}
    assert {page: found for page, found in over.items() if found > ABOVE.get(page, (0, ""))[0]} == {}, many
    stale = {page: many[page] for page, (allowed, _why) in ABOVE.items() if many[page] < allowed}
    assert stale == {}, "the ratchet can be tightened"
