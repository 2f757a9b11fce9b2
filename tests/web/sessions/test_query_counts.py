"""How many queries every page of the console needs: the same for 3 sessions as for 30, and no more than the bar.

Two of them are the sign-in (session, person), three the frame (person with his seats and notices, live sessions, wallet with
costs). Counted as a running server counts: the fleet of the process is known already.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import audit
from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import Budget
from cluster import services as metal
from cluster.services import ShareWish, VolumeWish
from gshare_core.kit import clock
from sessions_app.domain.facts import MountAsk
from tests.apps.sessions.world import World, a_world, limit, manual_clock
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db(transaction=True)

BAR = 15
PAGES = (
    "/",
    "/sessions/",
    "/sessions/?tab=ended",
    "/sessions/new/",
    "/sessions/new/?{both_volumes}",
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
ADMIN_PAGES = (
    "/admin/",
    "/admin/?view=table",
    "/admin/sessions/",
    "/admin/sessions/?tab=ended",
    "/admin/sessions/{running}/",
    "/admin/sessions/{waiting}/",
    "/admin/sessions/{running}/stop/",
    "/admin/sessions/bulk/?act=stop&session={running}&session={waiting}",
    "/admin/queue/",
    "/admin/groups/",
    "/admin/groups/{group}/",
    "/admin/users/",
    "/admin/users/new/",
    "/admin/users/import/",
    "/admin/users/{alice}/",
    "/admin/audit/",
    "/admin/audit/?verify=1",
    "/admin/credits/",
    "/admin/credits/?wallet={wallet}",
    "/admin/credits/?q=vi",
    "/admin/credits/refills/",
    "/admin/credits/wallets/{wallet}/",
    "/admin/budgets/",
    "/admin/budgets/new/",
    "/admin/budgets/{budget}/",
    "/admin/reports/",
    "/admin/reports/?by=offering",
    "/admin/reports/?by=day",
    "/admin/policies/",
    "/admin/policies/?scope=global",
    "/admin/policies/?scope=group:{group}",
    "/admin/policies/?scope=user:{alice}",
)
ORGANISATION_PAGES = ("/admin/organisations/", "/admin/organisations/{organisation}/", "/admin/groups/new/")
METAL_PAGES = ("/admin/clusters/", "/admin/clusters/{cluster}/", "/admin/nodes/{node}/drain/")
FURTHER = {"super_admin": (*ORGANISATION_PAGES, *METAL_PAGES), "org_admin": ORGANISATION_PAGES, "group_admin": ()}


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
        a_volume(world, world.alice, "home")
        scope = billing.BudgetScope("user", world.alice.user.pk)
        billing.create_budget(scope=scope, limit=cr(10_000), mode="block", rule=Rule("UTC"), by=None)
        yield world


def a_volume(world: World, who: Customer, name: str) -> UUID:
    """A volume of somebody that one session at a time may mount."""
    return metal.create_volume(by=who.user, wish=VolumeWish(name, "home", "rwo", 1, world.cluster.pk)).pk


def held_volumes(world: World) -> str:
    """Somebody's volume, shared with alice, and one of hers, both held by sessions; the form that asks for both."""
    other = a_customer(100, group=world.alice.group)
    theirs, hers = a_volume(world, other, "theirs"), a_volume(world, world.alice, "hers")
    metal.share_volume(by=other.user, volume_id=theirs, wish=ShareWish("rw", user_id=world.alice.user.pk))
    world.run("S", customer=other, mounts=(MountAsk(theirs, "/data/theirs", "rw"),))
    world.run("S", mounts=(MountAsk(hers, "/data/hers", "rw"),))
    mounts = [("volume", theirs), ("path", "/data/theirs"), ("mode", "rw")]
    return urlencode([*mounts, ("volume", hers), ("path", "/data/hers"), ("mode", "rw")])


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
    both = held_volumes(big_world)
    addresses = {page: page.format(running=running.pk, waiting=waiting.pk, both_volumes=both) for page in PAGES}
    few = counts(client, addresses)
    for _number in range(27):
        big_world.create("S")
    many = counts(client, addresses)
    assert few == many
    assert {page: found for page, found in many.items() if found > BAR} == {}, many


def test_every_page_of_administrators_needs_as_many_queries_for_a_full_house_as_for_two_and_keeps_the_bar(
    big_world: World,
) -> None:
    group = big_world.alice.group
    who = {
        "super_admin": a_super_admin(),
        "org_admin": an_org_admin(group.organisation),
        "group_admin": a_user(group, role="group_admin"),
    }
    running, _other_card = big_world.run("S"), big_world.run("exclusive")
    waiting = big_world.create("exclusive")
    assert waiting.state == "queued"
    names = {"group": group.pk, "organisation": group.organisation_id, "alice": big_world.alice.user.pk}
    names |= {"running": running.pk, "waiting": waiting.pk, "wallet": big_world.alice.wallet}
    names |= {"cluster": big_world.cluster.pk, "node": big_world.node.pk}
    for scope in (billing.BudgetScope("group", group.pk), billing.BudgetScope("organisation", group.organisation_id)):
        billing.create_budget(scope=scope, limit=cr(10_000), mode="warn", rule=Rule("UTC"), by=None)
    names["budget"] = Budget.objects.get(group=group).pk
    addresses = {role: {page: page.format_map(names) for page in (*ADMIN_PAGES, *FURTHER[role])} for role in who}
    clients = {role: browser(user) for role, user in who.items()}
    few = {role: counts(client, addresses[role]) for role, client in clients.items()}
    other = a_customer(1_000, group=a_group(group.organisation))
    for _number in range(10):
        a_user(group)
        scope = billing.BudgetScope("group", a_group(group.organisation).pk)
        billing.create_budget(scope=scope, limit=cr(10_000), mode="warn", rule=Rule("UTC"), by=None)
    for number in range(20):
        big_world.create("S", customer=other if number % 2 else None)
        big_world.create("exclusive", customer=None if number % 2 else other)
    audit.seal_entries()
    many = {role: counts(client, addresses[role]) for role, client in clients.items()}
    assert few == many
    over = {(role, page): n for role, found in many.items() for page, n in found.items() if n > BAR}
    assert over == {}, many
