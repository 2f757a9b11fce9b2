"""The fleet in memory: how it is built, followed, claimed and given back."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from cluster.domain.fleet import Node
from cluster.domain.placement import Fleet, NoPlace, NotClaimedError, Placement, StaleError
from tests.unit.placement.fleets import H100_MIB, card, fill, half_used, node, tier, whole

POLICIES = ["best_fit", "spread", "least_fragmentation"]


def test_nodes_may_be_mappings_or_any_objects_with_the_fields():
    fields = {"name": "a", "cpu_milli": 64_000, "memory_mib": 65_536, "scratch_gib": 100}
    card_fields = {"uuid": "c0", "model": "H100", "vram_mib": H100_MIB, "core_percent": 100, "slots": 10}
    by_mapping = Fleet([{**fields, "cards": [card_fields]}])
    by_object = Fleet([SimpleNamespace(**fields, cards=[SimpleNamespace(**card_fields, colour="green")])])
    assert by_mapping.nodes() == by_object.nodes() == (Node.of({**fields, "cards": [card_fields]}),)
    assert by_object.place(tier("L")).cards == ("c0",)


def test_names_and_cards_are_unique():
    with pytest.raises(ValueError, match="same name"):
        Fleet([node("a"), node("a")])
    with pytest.raises(ValueError, match="twice"):
        Fleet([node("a", card("c"), card("c"))])


def test_looking_takes_nothing():
    fleet = Fleet([node("a", card("c"))])
    before = fleet.nodes()
    assert fleet.place(tier("XL")) == fleet.place(tier("XL")) == fleet.look(tier("XL"))
    assert fleet.nodes() == before


def test_a_claim_takes_what_was_asked_for_and_a_release_gives_it_back():
    fleet = Fleet([node("a", card("c"))])
    found = fleet.place(tier("M"))
    fleet.claim(found)
    taken = fleet.node("a")
    assert (taken.used_cpu_milli, taken.used_memory_mib, taken.used_scratch_gib) == (4_000, 8_192, 10)
    assert (taken.cards[0].used_vram_mib, taken.cards[0].used_milli, taken.cards[0].used_slots) == (10_194, 125, 1)
    fleet.release(found)
    assert fleet.nodes() == (node("a", card("c")),)


def test_half_a_thousandth_is_kept_exactly():
    fleet = Fleet([node("a", card("c", used_milli=Fraction(125, 2), used_slots=1))])
    assert fleet.node("a").cards[0].used_milli == Fraction(125, 2)


def test_a_placement_that_no_longer_fits_is_stale_and_takes_nothing():
    fleet = Fleet([node("a", card("c"))])
    found = [fleet.place(tier("XL")) for _ in range(3)]
    fleet.claim(found[0])
    fleet.claim(found[1])
    before = fleet.nodes()
    with pytest.raises(StaleError):
        fleet.claim(found[2])
    assert fleet.nodes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda fleet: fleet.update_node(node("a", card("c"), cordoned=True)),
        lambda fleet: fleet.update_card("a", card("c", ready=False)),
        lambda fleet: fleet.update_card("a", card("c", foreign_vram_mib=1)),
        lambda fleet: fleet.update_node(node("a", card("other"))),
        lambda fleet: fleet.remove_node("a"),
    ],
)
def test_a_placement_whose_card_was_closed_used_or_lost_is_stale(change):
    fleet = Fleet([node("a", card("c"))])
    found = fleet.place(whole(1))
    change(fleet)
    with pytest.raises(StaleError):
        fleet.claim(found)


def test_what_is_not_claimed_cannot_be_given_back_and_nothing_twice():
    fleet = Fleet([node("a", card("c", used_vram_mib=40_779, used_milli=500, used_slots=4))])
    found = fleet.place(tier("L"))
    with pytest.raises(NotClaimedError):
        fleet.release(found)
    fleet.claim(found)
    fleet.release(found)
    before = fleet.nodes()
    with pytest.raises(NotClaimedError):
        fleet.release(found)
    assert fleet.nodes() == before


def test_equal_placements_are_claimed_and_released_one_by_one():
    fleet = Fleet([node("a", card("c"))])
    assert fill(fleet, tier("L")) == 4
    found = Placement("a", ("c",), tier("L"))
    for _ in range(4):
        fleet.release(found)
    with pytest.raises(NotClaimedError):
        fleet.release(found)


def test_figures_that_rows_say_win_over_what_was_claimed_here():
    fleet = Fleet([node("a", card("c"))])
    found = fleet.place(tier("L"))
    fleet.claim(found)
    fleet.update_card("a", half_used("c"))
    assert fleet.node("a").cards[0] == half_used("c")
    assert fleet.node("a").used_cpu_milli == 4_000, "a card's row says nothing about the host"
    with pytest.raises(NotClaimedError):
        fleet.release(found)


@pytest.mark.parametrize("policy", POLICIES)
def test_updates_are_followed_by_the_next_answer(policy):
    fleet = Fleet([node("a", card("a0")), node("b", card("b0"))], policy=policy)
    first = fleet.place(tier("XL"))
    other = "b" if first.node == "a" else "a"
    fleet.update_node(node(first.node, card(f"{first.node}0"), ready=False))
    assert fleet.place(tier("XL")).node == other
    fleet.update_card(other, card(f"{other}0", healthy=False))
    assert isinstance(fleet.place(tier("XL")), NoPlace)
    fleet.update_node(node("c", card("c0", "H100"), card("c1", "H100"), card("c2", "H100")))
    assert fleet.place(tier("XL")).node == "c"
    fleet.remove_node("c")
    assert isinstance(fleet.place(tier("XL")), NoPlace)
    fleet.update_card(other, card("new"))
    assert fleet.place(tier("XL")).cards == ("new",)


def test_cards_keep_their_order_when_one_is_updated():
    fleet = Fleet([node("a", card("c0"), card("c1"), card("c2"))])
    fleet.update_card("a", half_used("c1"))
    assert [known.uuid for known in fleet.node("a").cards] == ["c0", "c1", "c2"]


def test_unknown_nodes_are_errors():
    fleet = Fleet([])
    with pytest.raises(KeyError):
        fleet.update_card("a", card("c"))
    with pytest.raises(KeyError):
        fleet.remove_node("a")


def test_more_kinds_of_requests_than_are_kept_still_get_right_answers():
    fleet = Fleet([node("a", card("c"))])
    for cpu_milli in range(1, 600):
        request = whole(1)
        found = fleet.place(type(request)(cards=1, exclusive=True, cpu_milli=cpu_milli))
        assert found.cards == ("c",)
    fleet.claim(fleet.place(whole(1)))
    assert all(isinstance(fleet.place(type(request)(cards=1, exclusive=True, cpu_milli=n)), NoPlace) for n in (1, 599))


def test_a_long_story_does_not_outgrow_the_change_log():
    fleet = Fleet([node(f"n{number:02}", card(f"c{number}")) for number in range(20)], policy="best_fit")
    rare = fleet.place(whole(1))
    for _ in range(3_000):
        found = fleet.place(tier("L"))
        fleet.claim(found)
        fleet.release(found)
    assert fleet.place(whole(1)) == rare
    fleet.claim(rare)
    assert fleet.place(whole(1)).node != rare.node
