"""What is free is what one may use: cards of other people's pools are neither counted nor drawn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client

from cluster.loads import Part, card_loads
from cluster.models import PoolGrant
from gshare_core.ids import uuid7
from sessions_app.views import cards
from tests.apps.sessions.world import MODEL, World, limit
from tests.builders import Customer, a_customer, a_node, a_user
from tests.cluster_acts import a_pool
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(world: World) -> Customer:
    """Alice's world has one card in the shared pool; a pool dedicated to this person's group has three of the same model."""
    other = a_customer()
    dedicated = a_pool(world.cluster, "theirs")
    PoolGrant.objects.create(pool=dedicated, group=other.group)
    a_node(world.cluster, "gpu-02", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}] * 3, pool=dedicated)
    return other


def dashboard(client: Client) -> dict[str, Any]:
    """The offering as the dashboard shows it: whole cards and eighths that are free, and the cards drawn."""
    context: Any = client.get("/").context
    found = {}
    for offering in context["offerings"]:
        free = dict(offering["free"])
        found[offering["name"]] = (free["Whole"], free[Fraction(1, 8)], len(offering["cards"]))
    return found


def rest(client: Client) -> tuple[int, int]:
    """The same in the REST interface: whole cards and eighths."""
    (row,) = client.get("/api/v1/offerings").json()["results"]
    return row["tiers"]["exclusive"]["free_now"], row["tiers"]["M"]["free_now"]


def test_cards_of_a_pool_that_is_dedicated_to_others_are_not_free_for_oneself(
    world: World, alice: Client, other: Customer
) -> None:
    name, theirs = world.offering.name, browser(other.user)
    assert dashboard(alice) == {name: (1, 8, 1)}
    assert rest(alice) == (1, 8)
    assert dashboard(theirs) == {name: (4, 32, 4)}
    assert rest(theirs) == (4, 32)


def test_without_the_right_to_the_shared_pools_only_ones_own_are_free(world: World, other: Customer) -> None:
    limit("group", "shared_pool", 0, target=other.group)
    theirs = browser(other.user)
    assert dashboard(theirs) == {world.offering.name: (3, 24, 3)}
    assert rest(theirs) == (3, 24)


def test_a_card_on_which_one_has_a_session_is_drawn_also_when_its_pool_was_withdrawn(
    world: World, alice: Client, other: Customer
) -> None:
    world.run("M")
    limit("group", "shared_pool", 0, target=world.alice.group)
    assert dashboard(alice) == {world.offering.name: (0, 0, 1)}


def test_who_is_in_two_groups_sees_on_his_dashboard_what_is_free_in_the_one_that_he_works_in(
    world: World, alice: Client, other: Customer
) -> None:
    a_customer(group=other.group, user=world.alice.user)
    limit("group", "shared_pool", 0, target=other.group)
    assert rest(alice) == (4, 32), "each group has its own"
    for group, seen in ((world.alice.group, (1, 8, 1)), (other.group, (3, 24, 3))):
        alice.cookies["group"] = str(group.pk)
        assert dashboard(alice) == {world.offering.name: seen}


def test_a_person_without_a_group_can_use_no_card(world: World, other: Customer) -> None:
    nobody = browser(a_user())
    assert dashboard(nobody) == {}
    assert rest(nobody) == (0, 0)


def test_the_new_session_page_draws_the_cards_that_may_be_used_also_while_the_form_is_not_complete(
    world: World, alice: Client, other: Customer
) -> None:
    for asked in ({}, {"name": "Not a name!", "preset": str(world.presets["M"].pk)}):
        context: Any = alice.get("/sessions/new/", asked).context
        assert [len(row["cards"]) for row in context["offerings"]] == [1]


def test_of_very_many_cards_some_are_drawn_the_viewers_own_among_them_and_the_rest_is_counted(world: World) -> None:
    eight = [{"model": MODEL, "vram_mib": 81_559, "slots": 16}] * 8
    for number in range(9):
        a_node(world.cluster, f"aa-{number:02d}", cards=eight)
    session = world.run("S")
    context: Any = browser(world.alice.user).get("/").context
    (offering,) = context["offerings"]
    drawn = [part.kind for card in offering["cards"] for part in card.parts]
    assert len(offering["cards"]) == 64
    assert drawn.count("mine") == 1, session
    assert offering["more"] == "and 9 more cards"
    assert offering["words"].endswith("73 cards, 72 entirely free")


def test_a_strip_of_many_cards_begins_with_ones_own_wherever_they_are(world: World) -> None:
    for number in range(9):
        a_node(world.cluster, f"zz-{number:02d}", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}] * 8)
    loads = card_loads()
    last = replace(loads[-1], parts=(Part(uuid7(), uuid7(), Fraction(1, 4)),))
    mine = last.parts[0].session_id
    assert mine is not None
    drawn = cards.strip([*loads[:-1], last], own={mine})
    assert len(drawn) == cards.SHOWN
    assert drawn[-1].parts[0].kind == "mine"
