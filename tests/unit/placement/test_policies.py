"""Which node and card a request gets under `best_fit` and `spread`."""

import pytest

from cluster.domain.placement import Fleet, NoPlace, Placement, Request
from tests.unit.placement.fleets import card, fill, half_used, node, tier, whole


def test_the_eleventh_on_a_card_with_ten_slots_waits_and_is_told_about_slots():
    fleet = Fleet([node("a", card("c0", slots=10))])
    assert fill(fleet, tier("S")) == 10
    why = fleet.place(tier("S"))
    assert isinstance(why, NoPlace)
    assert (why.kind, next(iter(why.short))) == ("not_now", "slots")


def test_best_fit_takes_the_fullest_card_that_fits():
    cards = (card("c0"), half_used("c1"), card("c2", used_vram_mib=70_000, used_milli=850, used_slots=1))
    assert Fleet([node("a", *cards)], policy="best_fit").place(tier("L")).cards == ("c1",)


def test_best_fit_takes_the_node_with_least_left_and_the_first_name_among_equals():
    fleet = Fleet([node("b", card("b0")), node("a", card("a0")), node("c", card("c0"), card("c1"))], policy="best_fit")
    assert fleet.place(tier("L")).node == "a"


@pytest.mark.parametrize(("cpu_milli", "chosen"), [(32_000 - 1, "a"), (32_000, "a"), (32_000 + 1, "b")])
def test_best_fit_weighs_a_hundred_and_twenty_eight_cpus_like_eight_cards(cpu_milli, chosen):
    """Node a has two cards more than b: as much as 32 CPUs."""
    richer = node("a", card("a0"), card("a1"), card("a2"), cpu_milli=32_000)
    poorer = node("b", card("b0"), cpu_milli=32_000 + 64_000 - cpu_milli)
    fleet = Fleet([richer, poorer], policy="best_fit")
    assert fleet.place(Request(cpu_milli=1_000, memory_mib=1)).node == chosen


def test_best_fit_places_requests_without_a_card_by_the_same_measure():
    fleet = Fleet([node("a", card("a0")), node("b", cpu_milli=130_000)], policy="best_fit")
    assert fleet.place(Request(cpu_milli=1_000, memory_mib=1)).node == "b"


def test_the_share_left_is_the_smaller_of_vram_and_cores():
    """Card c0 has more VRAM left than c1 but fewer cores: it is the fuller one."""
    cards = (
        card("c1", used_vram_mib=30_000, used_milli=100, used_slots=1),
        card("c0", used_vram_mib=10_000, used_milli=600, used_slots=1),
    )
    assert Fleet([node("a", *cards)], policy="best_fit").place(tier("M")).cards == ("c0",)


def test_spread_takes_the_emptiest_node_and_card():
    nodes = [node("a", half_used("a0"), card("a1")), node("b", half_used("b0"), card("b1"), card("b2"))]
    found = Fleet(nodes, policy="spread").place(tier("L"))
    assert (found.node, found.cards) == ("b", ("b1",))


@pytest.mark.parametrize("policy", ["best_fit", "spread", "least_fragmentation"])
def test_whole_cards_are_empty_and_of_one_node(policy):
    nodes = [node("a", half_used("a0"), card("a1")), node("b", card("b0"), half_used("b1"), card("b2"))]
    fleet = Fleet(nodes, policy=policy)
    found = fleet.place(whole(2))
    assert (found.node, set(found.cards)) == ("b", {"b0", "b2"})
    fleet.claim(found)
    assert isinstance(fleet.place(tier("S", nodes=["b"])), Placement), "b1 still has half"
    assert fleet.place(tier("S", nodes=["b"])).cards == ("b1",)


@pytest.mark.parametrize("policy", ["best_fit", "spread", "least_fragmentation"])
def test_several_cards_share_by_share_are_different_cards(policy):
    request = Request(cards=2, vram_mib=20_000, core_percent=25, cpu_milli=1_000, memory_mib=1)
    fleet = Fleet([node("a", card("a0")), node("b", card("b0"), card("b1"))], policy=policy)
    assert set(fleet.place(request).cards) == {"b0", "b1"}
    assert fill(fleet, request) == 4


@pytest.mark.parametrize("foreign", [{"foreign_vram_mib": 1}, {"foreign_milli": 1}, {"foreign_slots": 1}])
def test_a_card_that_somebody_else_uses_is_not_a_whole_card(foreign):
    fleet = Fleet([node("a", card("a0", **foreign))])
    assert isinstance(fleet.place(whole(1)), NoPlace)
    assert isinstance(fleet.place(tier("L")), Placement)


def test_models_pools_and_nodes_bound_the_choice():
    nodes = [node("a", card("a0", "T4", 15_360)), node("b", card("b0"), pool="mine"), node("c", card("c0"))]
    fleet = Fleet(nodes)
    small = {"vram_mib": 2_048, "core_percent": 10, "cpu_milli": 1_000, "memory_mib": 1}
    assert fleet.place(Request(models=["T4"], **small)).node == "a"
    assert fleet.place(Request(models="H100", pools=["mine"], **small)).node == "b"
    assert fleet.place(Request(nodes={"c"}, **small)).node == "c"
    assert isinstance(fleet.place(Request(pools=[], **small)), NoPlace)
    assert isinstance(fleet.place(Request(models=[], **small)), Placement), "no models named is any model"


def test_a_share_without_a_number_of_cards_is_one_card_and_a_number_without_a_share_is_whole_cards():
    fleet = Fleet([node("a", half_used("a0"), card("a1"))])
    assert fleet.place(Request(vram_mib=2_048, core_percent=3)).cards
    assert fleet.place(Request(cards=1)).cards == ("a1",)


@pytest.mark.parametrize("percent", [6.25, "6.25", 12.5 / 2])
def test_fractions_of_a_percent_are_exact(percent):
    assert fill(Fleet([node("a", card("a0"))]), Request(core_percent=percent)) == 16


def test_sixteen_of_a_little_more_than_a_sixteenth_do_not_fit():
    assert fill(Fleet([node("a", card("a0"))]), Request(core_percent=6.26)) == 15


def test_amounts_below_zero_are_refused():
    with pytest.raises(ValueError, match="zero or more"):
        Request(cpu_milli=-1)


def test_an_unknown_policy_is_refused_by_name():
    with pytest.raises(ValueError, match="best_fit"):
        Fleet([], policy="fastest")
