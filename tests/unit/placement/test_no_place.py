"""Why there is no place: never or not now, what is missing, in numbers and in words."""

import pytest

from cluster.domain.placement import Fleet, NoPlace, Placement, Request
from tests.unit.placement.fleets import H100_MIB, card, fill, half_used, node, tier, whole


def why(nodes, request) -> NoPlace:
    answer = Fleet(nodes).place(request)
    assert isinstance(answer, NoPlace)
    assert not answer
    assert answer.detail
    return answer


def share(vram_mib=10_000, core_percent=13, cpu_milli=4_000, memory_mib=8_192, scratch_gib=10, **where):
    return Request(
        vram_mib=vram_mib,
        core_percent=core_percent,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        scratch_gib=scratch_gib,
        **where,
    )


@pytest.mark.parametrize(
    ("a_node", "missing"),
    [
        (node("a", card("c", used_vram_mib=H100_MIB - 9_000, used_slots=1)), {"vram_mib": 1_000}),
        (node("a", card("c", used_milli=900, used_slots=1)), {"cores": 30}),
        (node("a", card("c", used_slots=16)), {"slots": 1}),
        (node("a", card("c"), used_cpu_milli=126_000), {"cpu_milli": 2_000}),
        (node("a", card("c"), used_memory_mib=524_288 - 8_000), {"memory_mib": 192}),
        (node("a", card("c"), used_scratch_gib=995), {"scratch_gib": 5}),
        (node("a", card("c", ready=False)), {"cards": 1}),
        (node("a", card("c", mode="draining")), {"cards": 1}),
        (node("a", card("c"), cordoned=True), {"cards": 1}),
        (node("a", card("c"), ready=False), {"cards": 1}),
        (node("a", card("c"), pool="theirs"), {"pool": 1}),
    ],
)
def test_what_is_missing_now_is_named_with_its_amount(a_node, missing):
    answer = why([a_node], share(pools=[None]))
    assert (answer.kind, answer.short) == ("not_now", missing)


def test_the_nearest_candidate_speaks_and_its_largest_relative_shortage_comes_first():
    far = node("a", card("c", used_vram_mib=H100_MIB, used_milli=1_000, used_slots=1))
    near = node("b", card("c", used_vram_mib=H100_MIB - 9_000, used_milli=900, used_slots=1))
    answer = why([far, near], share())
    assert answer.nearest == "b"
    assert list(answer.short.items()) == [("cores", 30), ("vram_mib", 1_000)]
    assert [lack.nodes for lack in answer.missing] == [2, 2]
    assert "b" in answer.detail
    assert "1,000 MiB of VRAM" in answer.detail


def test_whole_cards_are_missing_by_their_number():
    answer = why([node("a", half_used("c0"), half_used("c1"), card("c2"))], whole(3))
    assert (answer.kind, answer.short) == ("not_now", {"cards": 2})
    assert "2 cards" in answer.detail


def test_a_full_fleet_is_not_now():
    fleet = Fleet([node("a", card("c"))])
    fill(fleet, tier("XL"))
    assert fleet.place(tier("XL")).kind == "not_now"


@pytest.mark.parametrize("state", [{"ready": False}, {"cordoned": True}])
def test_silent_and_cordoned_nodes_take_nothing_but_count_as_possible(state):
    assert why([node("a", card("c"), **state)], tier("L")).kind == "not_now"


@pytest.mark.parametrize("state", [{"ready": False}, {"mode": "draining"}])
def test_closed_and_draining_cards_take_nothing_but_count_as_possible(state):
    assert why([node("a", card("c", **state))], tier("L")).kind == "not_now"


@pytest.mark.parametrize("state", [{"healthy": False}, {"mode": "mig"}])
def test_unhealthy_and_mig_cards_do_not_count_as_possible(state):
    answer = why([node("a", card("c", **state))], tier("L"))
    assert answer.kind == "never"
    assert answer.largest == {}


def test_other_peoples_use_of_a_card_is_no_reason_for_never():
    assert why([node("a", card("c", foreign_vram_mib=H100_MIB, foreign_slots=1))], tier("L")).kind == "not_now"


@pytest.mark.parametrize(
    ("request_", "largest"),
    [
        (share(vram_mib=90_000), {"vram_mib": H100_MIB}),
        (share(cpu_milli=200_000), {"cpu_milli": 128_000}),
        (share(memory_mib=600_000, scratch_gib=2_000), {"memory_mib": 524_288, "scratch_gib": 1_000}),
        (whole(4), {"cards": 2}),
        (Request(cpu_milli=200_000, memory_mib=1), {"cpu_milli": 128_000}),
    ],
)
def test_what_no_node_could_ever_hold_is_never_and_names_the_largest_that_would(request_, largest):
    nodes = [node("a", card("a0", "T4", 15_360)), node("b", card("b0"), card("b1"))]
    answer = why(nodes, request_)
    assert answer.kind == "never"
    assert largest.items() <= answer.largest.items()


def test_a_request_of_the_largest_size_named_fits():
    nodes = [node("a", card("a0", "T4", 15_360)), node("b", card("b0"), cpu_milli=16_000)]
    largest = why(nodes, share(vram_mib=90_000, cpu_milli=64_000)).largest
    smaller = share(vram_mib=largest["vram_mib"], cpu_milli=largest["cpu_milli"])
    assert isinstance(Fleet(nodes).place(smaller), Placement)


def test_models_that_are_not_registered_are_never():
    answer = why([node("a", card("c"))], share(models=["B200"]))
    assert (answer.kind, answer.largest) == ("never", {})


def test_an_empty_fleet_answers():
    assert why([], tier("L")).kind == "never"
    assert why([], Request(cpu_milli=1)).kind == "never"


def test_why_not_follows_every_change_although_it_is_told_again_while_nothing_changes():
    fleet = Fleet([node("a", card("c", used_slots=15, used_vram_mib=0))])
    asked = share(vram_mib=1_000)
    placed = fleet.look(asked)
    assert isinstance(placed, Placement)
    fleet.claim(placed)
    first = fleet.look(asked)
    assert first.short == {"slots": 1}
    assert fleet.look(asked) == first
    fleet.update_node(node("a", card("c", used_vram_mib=H100_MIB - 400, used_slots=1)))
    assert fleet.look(asked).short == {"vram_mib": 600}
    fleet.update_node(node("b", card("c", used_vram_mib=H100_MIB - 900, used_slots=1)))
    assert (fleet.look(asked).nearest, fleet.look(asked).short) == ("b", {"vram_mib": 100})
    fleet.remove_node("b")
    assert fleet.look(asked).nearest == "a"
    with fleet.supposing() as suppose:
        fleet.update_node(node("b", card("d")))
        assert fleet.find(asked) is not None
        assert suppose(fleet.look(asked))
    assert isinstance(fleet.look(asked), Placement)


def test_find_says_what_look_says_without_the_reason():
    fleet = Fleet([node("a", card("c"))])
    assert fleet.find(share()) == fleet.look(share())
    assert fleet.find(share(vram_mib=H100_MIB * 2)) is None
