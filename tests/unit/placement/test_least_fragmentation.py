"""The default policy: what it learns, and that it places for the fill that can still be expected."""

import numpy as np
import pytest

from cluster.domain.cutting import FULL, best_filling, effective_sizes
from cluster.domain.fragmentation import LeastFragmentation
from cluster.domain.mix import Mix
from cluster.domain.placement import Fleet, Placement, Request
from cluster.domain.tables import Metal, TableBuilder, horizon_of
from tests.unit.placement.fleets import card, fill, node, tier, whole


def share(milli, cpu_milli=1_000, **fields):
    """A request for so many thousandths of a card of 100,000 MiB."""
    return Request(vram_mib=milli * 100, core_percent=milli / 10, cpu_milli=cpu_milli, memory_mib=1, **fields)


def big(uuid, left_milli=FULL, model="X", **fields):
    used = FULL - left_milli
    return card(uuid, model, 100_000, used_vram_mib=used * 100, used_milli=used, used_slots=int(used > 0), **fields)


def learned(fleet, *requests, times=100):
    for number in range(times):
        for request in requests:
            fleet.place(Request(**{**_fields(request), "key": (number, request)}))
    fleet.tune()
    return fleet


def _fields(request):
    names = ("models", "cards", "exclusive", "vram_mib", "core_percent", "cpu_milli", "memory_mib", "scratch_gib")
    return {name: getattr(request, name) for name in names}


def tables_after(fleet_nodes, *requests, times=100, turnover=0.0):
    mix = Mix(came=1_000.0, left=1_000.0 * turnover)
    for request in requests:
        for _ in range(times):
            mix.see(request.ask)
    policy_fleet = Fleet(fleet_nodes)
    return TableBuilder().build(mix, Metal.of(policy_fleet._stock))


def test_a_remainder_that_somebody_wants_is_worth_more_than_one_that_nobody_wants():
    value = tables_after([node("a", big("c"))], share(500), share(300)).value[0]
    assert value[500] > value[499] * 1.2, "499 cannot take a half"
    assert value[299] == 0, "nobody wants less than 300"
    assert (np.diff(value[:1001]) >= 0).all(), "more is never worth less"


def test_a_remainder_that_few_requests_fill_is_worth_little_however_long_one_waits():
    value = tables_after([node("a", big("c"))], *[share(810)] * 20, share(190)).value[0]
    assert value[190] < 150_000
    assert value[810] > 900_000


def test_a_half_goes_beside_a_half_and_not_where_it_leaves_a_useless_rest():
    nodes = [node("a", big("a0", 650), big("a1", 500))]
    fleet = learned(Fleet(nodes), share(500), share(650))
    assert fleet.place(share(500)).cards == ("a1",)


def test_cpus_that_cards_still_need_are_kept_for_them():
    """Requests need 8 CPUs a card: node a could serve its card, node b has CPUs to spare."""
    nodes = [node("a", big("a0"), cpu_milli=10_000), node("b", big("b0"), cpu_milli=64_000)]
    fleet = learned(Fleet(nodes), Request(cards=1, exclusive=True, cpu_milli=8_000))
    assert fleet.place(Request(cpu_milli=4_000, memory_mib=1)).node == "b"


def test_a_request_that_could_use_any_model_leaves_the_one_that_others_must_have():
    nodes = [node("a", big("a0", model="RARE")), node("b", *(big(f"b{n}", model="COMMON") for n in range(8)))]
    fleet = learned(Fleet(nodes), share(500), share(500, models=["RARE"]))
    assert fleet.place(share(500)).node == "b"


def test_groups_of_cards_are_kept_together_when_they_are_scarce_and_asked_for():
    broken = node("a", *(big(f"a{n}", 0 if n else FULL) for n in range(8)))
    together = node("b", *(big(f"b{n}") for n in range(8)))
    eight = Request(cards=8, exclusive=True, cpu_milli=8_000, memory_mib=1)
    one = Request(cards=1, exclusive=True, cpu_milli=1_000, memory_mib=1)
    fleet = learned(Fleet([together, broken]), eight, one)
    assert fleet.place(one).node == "a"
    fleet.claim(fleet.place(one))
    assert isinstance(fleet.place(one), Placement), "what fits is never refused"


def test_the_horizon_is_long_while_a_fleet_fills_and_short_in_balance():
    mix = Mix()
    assert horizon_of(mix) == 4
    mix.moved(came=2_000)
    assert horizon_of(mix) > 40
    for _ in range(5_000):
        mix.moved(came=1, left=1)
    assert horizon_of(mix) == 4


def test_a_retry_under_the_same_key_counts_once_and_a_preview_not_at_all():
    policy = LeastFragmentation()
    fleet = Fleet([node("a", card("c"))], policy)
    for _ in range(5):
        fleet.place(tier("L", key="session 1"))
        fleet.look(tier("L", key="session 2"))
    assert policy.mix.seen == 1
    fleet.place(tier("L", key="session 2"))
    assert policy.mix.seen == 2


def test_refused_requests_count_and_those_without_a_card_do_not():
    policy = LeastFragmentation()
    fleet = Fleet([], policy)
    fleet.place(whole(8))
    fleet.place(Request(cpu_milli=1_000))
    assert policy.mix.seen == 1


def test_what_was_seen_is_bounded_and_fades():
    mix = Mix()
    for number in range(20_000):
        mix.see(share(1 + number % 900, cpu_milli=number).ask)
    assert sum(weight for _, weight in mix.kinds()) <= 8_192
    assert mix.seen == 20_000


def test_answers_change_only_when_the_fleet_or_its_tables_do():
    """Looking notes demand, but tables are rebuilt only while claiming, releasing, or when told to."""
    fleet = Fleet([node("a", big("a0"), big("a1", 500)), node("b", big("b0", 700))], tunes_itself=False)
    first = fleet.place(share(300))
    assert all(fleet.place(share(300)) == first for _ in range(50))


def test_the_order_of_what_was_seen_does_not_matter():
    nodes = [node("a", big("c0"), big("c1"))]
    requests = [share(500), share(330, models=["X"]), whole(2, "X")]
    one, other = tables_after(nodes, *requests), tables_after(nodes, *reversed(requests))
    assert (one.value == other.value).all()
    assert (one.fit == other.fit).all()
    assert (one.groups == other.groups).all()


def test_a_sibling_rates_like_its_fleet_and_learns_for_itself():
    policy = LeastFragmentation()
    fleet = learned(Fleet([node("a", big("a0", 650), big("a1", 500))], policy), share(500), share(650))
    seen = policy.mix.seen
    sibling = fleet.sibling(fleet.nodes())
    assert sibling.place(share(500)) == fleet.look(share(500))
    assert policy.mix.seen == seen


def test_tables_follow_models_that_appear_later_and_mixed_nodes():
    fleet = Fleet([node("a", big("a0"))])
    assert fill(fleet, share(500)) == 2
    fleet.update_node(node("b", big("b0", model="X"), big("b1", model="Y"), big("b2", model="Y")))
    assert set(fleet.place(whole(2, "Y")).cards) == {"b1", "b2"}
    assert fleet.place(share(500, models=["Y"])).node == "b"


def test_more_sizes_than_the_tables_hold_are_rounded_and_still_work():
    requests = [share(milli) for milli in range(100, 1_000, 7)]
    value = tables_after([node("a", big("c"))], *requests, times=2).value[0]
    assert 0 < value[400] < value[700] < value[1000]


MIXES = [
    ([1000], [1], [1.0]),
    ([500, 250, 125], [1, 1, 1], [0.5, 0.25, 0.125]),
    ([810, 190], [9, 1], [1.0, 0.0]),
    ([810, 190], [1, 9], [None, None]),
    ([510], [1], [1.0]),
    ([700, 400, 300], [1, 1, 1], [None, None, None]),
]


@pytest.mark.parametrize(("sizes", "demand", "expected"), MIXES)
def test_effective_sizes_are_what_requests_cost_when_all_are_packed_well(sizes, demand, expected):
    found, basis = effective_sizes(np.array(sizes), np.array(demand, float))
    assert best_filling(np.array(sizes), found)[FULL] <= 1 + 1e-6
    for size, want in zip(found, expected, strict=True):
        assert want is None or size == pytest.approx(want, abs=1e-6)
    again, _ = effective_sizes(np.array(sizes), np.array(demand, float), basis)
    assert again @ np.array(demand) == pytest.approx(found @ np.array(demand))
