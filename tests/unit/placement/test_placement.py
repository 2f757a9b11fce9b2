"""Which node and card a request gets, on fleets small enough to work it out by hand."""

import pytest

from cluster.domain.availability import free_now
from cluster.domain.fleet import Card, Node
from cluster.domain.placement import Fleet, NoPlace, NotClaimedError, Placement, Request, StaleError
from cluster.domain.shapes import Host, Shape, tier_shape

HOST = Host(4_000, 8_192, 10)
H100 = 81_559


def node(name, *cards, **fields):
    values = {"cpu_milli": 128_000, "memory_mib": 524_288, "scratch_gib": 1_000} | fields
    return Node(name=name, cards=tuple(cards), **values)


def card(uuid, model="H100", vram=H100, **fields):
    return Card(uuid, model, vram, **({"slots": 16} | fields))


def tier(name):
    shape = tier_shape(name, offering_vram_mib=H100, host=HOST)
    assert isinstance(shape, Shape)
    return Request.for_shape(shape, models=("H100",))


def fill(fleet, request):
    placed = 0
    while isinstance(found := fleet.place(request), Placement):
        fleet.claim(found)
        placed += 1
    return placed


@pytest.mark.parametrize(("name", "count"), [("XL", 2), ("L", 4), ("M", 8), ("S", 16)])
def test_a_tier_fills_the_card_that_really_reports_81559_mib_exactly(name, count):
    fleet = Fleet([node("a", card("c0"))])
    assert fill(fleet, tier(name)) == count
    assert isinstance(fleet.place(tier("S")), NoPlace)


def test_the_eleventh_on_a_card_with_ten_slots_waits_and_is_told_about_slots():
    fleet = Fleet([node("a", card("c0", slots=10))])
    assert fill(fleet, tier("S")) == 10
    why = fleet.place(tier("S"))
    assert isinstance(why, NoPlace)
    assert (why.kind, next(iter(why.short))) == ("not_now", "slots")


def test_best_fit_takes_the_fullest_card_that_fits():
    fleet = Fleet([node("a", card("c0"), card("c1", used_vram_mib=40_000, used_milli=500, used_slots=1))])
    found = fleet.place(tier("L"))
    assert isinstance(found, Placement)
    assert found.cards == ("c1",)


def test_best_fit_takes_the_node_with_least_left_and_the_first_name_among_equals():
    fleet = Fleet([node("b", card("b0")), node("a", card("a0")), node("c", card("c0"), card("c1"))])
    found = fleet.place(tier("L"))
    assert isinstance(found, Placement)
    assert found.node == "a"


def test_spread_takes_the_emptiest():
    fleet = Fleet(
        [node("a", card("a0", used_vram_mib=40_000, used_milli=500, used_slots=1)), node("b", card("b0"))],
        policy="spread",
    )
    found = fleet.place(tier("L"))
    assert isinstance(found, Placement)
    assert found.node == "b"


def test_whole_cards_come_from_one_node_and_are_empty():
    used = card("a0", used_vram_mib=1_024, used_milli=10, used_slots=1)
    fleet = Fleet([node("a", used, card("a1")), node("b", card("b0"), card("b1"))])
    found = fleet.place(Request(models=("H100",), cards=2, exclusive=True, cpu_milli=1, memory_mib=1))
    assert isinstance(found, Placement)
    assert (found.node, set(found.cards)) == ("b", {"b0", "b1"})


def test_what_no_card_could_ever_give_is_never_and_names_the_largest():
    fleet = Fleet([node("a", card("c0", "T4", 15_360))])
    why = fleet.place(Request(models=("T4",), vram_mib=16_000, core_percent=100, cpu_milli=1, memory_mib=1))
    assert isinstance(why, NoPlace)
    assert why.kind == "never"
    assert why.largest is not None
    assert why.largest["vram_mib"] == 15_360


@pytest.mark.parametrize("state", [{"ready": False}, {"cordoned": True}])
def test_silent_and_cordoned_nodes_take_nothing_but_count_as_possible(state):
    why = Fleet([node("a", card("c0"), **state)]).place(tier("L"))
    assert isinstance(why, NoPlace)
    assert why.kind == "not_now"


def test_an_unhealthy_card_does_not_count_as_possible():
    why = Fleet([node("a", card("c0", healthy=False))]).place(tier("L"))
    assert isinstance(why, NoPlace)
    assert why.kind == "never"


def test_a_placement_that_no_longer_fits_is_stale_and_takes_nothing():
    fleet = Fleet([node("a", card("c0"))])
    first, second = fleet.place(tier("XL")), fleet.place(tier("XL"))
    third = fleet.place(tier("XL"))
    fleet.claim(first)
    fleet.claim(second)
    before = fleet.nodes()
    with pytest.raises(StaleError):
        fleet.claim(third)
    assert fleet.nodes() == before


def test_what_is_not_claimed_cannot_be_given_back():
    fleet = Fleet([node("a", card("c0"))])
    found = fleet.place(tier("L"))
    with pytest.raises(NotClaimedError):
        fleet.release(found)


def test_pools_that_are_not_ones_own_are_closed():
    fleet = Fleet([node("a", card("c0"), pool="theirs")])
    shape = tier_shape("L", offering_vram_mib=H100, host=HOST)
    assert isinstance(fleet.place(Request.for_shape(shape, models=("H100",), pools=("mine",))), NoPlace)
    assert isinstance(fleet.place(Request.for_shape(shape, models=("H100",), pools=("theirs",))), Placement)


def test_an_unknown_policy_is_refused_by_name():
    with pytest.raises(ValueError, match="best_fit"):
        Fleet([], policy="fastest")


def test_free_now_counts_what_cards_and_hosts_have_left():
    quarter = tier_shape("L", offering_vram_mib=H100, host=HOST)
    whole = tier_shape("exclusive", offering_vram_mib=H100, host=HOST, cards=2)
    nodes = [
        node("a", card("a0", used_vram_mib=20_389, used_milli=250, used_slots=1), card("a1")),
        node("b", card("b0"), card("b1"), cpu_milli=8_000),
        node("c", card("c0"), ready=False),
    ]
    assert free_now(nodes, model="H100", shape=quarter, pools=None) == 7 + 2
    assert free_now(nodes, model="H100", shape=whole, pools=None) == 1
    assert free_now(nodes, model="T4", shape=quarter, pools=None) == 0
