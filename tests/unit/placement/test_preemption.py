"""Whom to ask to make room: the fewest, then the youngest, and nobody where it would not help."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from cluster.domain import preemption
from cluster.domain.earmarks import Holding
from cluster.domain.fleet import Card
from cluster.domain.preemption import Victim, choose
from tests.unit.placement.fleets import H100_MIB, card, node, tier, whole

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EIGHTH = (H100_MIB // 8, 125)


def holding(name, *cards, share=EIGHTH, ends=True, cpu_milli=1_000):
    return Holding(
        cards=cards,
        vram_mib=(share[0],) * len(cards),
        milli=(share[1],) * len(cards),
        cpu_milli=cpu_milli,
        memory_mib=1_024,
        scratch_gib=0,
        ends_at=NOW + MINUTE if ends else None,
        session=UUID(int=name),
    )


WHOLE = (H100_MIB, 1_000)
HALF = (H100_MIB // 2, 500)
QUARTER = (H100_MIB // 4, 250)


def victim(name, *cards, ran=30, chosen=False, **fields):
    return Victim(holding(name, *cards, **fields), ran * MINUTE, chosen)


def taken(uuid, *holdings, **fields):
    """A card as it is while these hold parts of it."""
    shares = [held.holding if isinstance(held, Victim) else held for held in holdings]
    on_it = [
        (held.vram_mib[held.cards.index(uuid)], held.milli[held.cards.index(uuid)])
        for held in shares
        if uuid in held.cards
    ]
    return card(
        uuid,
        used_vram_mib=sum(vram for vram, _ in on_it),
        used_milli=sum(milli for _, milli in on_it),
        used_slots=len(on_it),
        **fields,
    )


def a_node(name, uuids, victims=(), others=(), going=(), **fields):
    everybody = [*(v.holding for v in victims), *others, *going]
    cards = [taken(uuid, *everybody) for uuid in uuids]
    used = {
        "used_cpu_milli": sum(held.cpu_milli for held in everybody),
        "used_memory_mib": sum(held.memory_mib for held in everybody),
    }
    return node(name, *cards, **(used | fields))


def chosen(found):
    return None if found is None else [victim.session.int for victim in found.victims]


def test_one_that_makes_room_alone_is_asked_before_two_that_are_younger():
    big, small = victim(1, "a", share=HALF, ran=600), [victim(n, "a", share=QUARTER, ran=11) for n in (2, 3)]
    metal = a_node("n", ["a"], [big, *small])
    assert chosen(choose(tier("XL"), [metal], going={}, victims={"n": [*small, big]})) == [1]


def test_of_equals_the_youngest_is_asked_on_whichever_node_he_is():
    old, young = victim(1, "a", share=WHOLE, ran=60), victim(2, "b", share=WHOLE, ran=20)
    metal = [a_node("m", ["a"], [old]), a_node("n", ["b"], [young])]
    found = choose(tier("L"), metal, going={}, victims={"m": [old], "n": [young]})
    assert (chosen(found), found.node, found.cards) == ([2], "n", ("b",))


def test_the_youngest_of_a_card_go_first_and_only_as_many_as_it_takes():
    everybody = [victim(n, "a", ran=100 - n) for n in range(1, 9)]
    metal = a_node("n", ["a"], everybody)
    assert chosen(choose(tier("L"), [metal], going={}, victims={"n": everybody})) == [8, 7]


def test_whole_cards_take_the_cards_with_the_fewest_on_them():
    crowd = [victim(n, "a", ran=11) for n in range(1, 5)]
    pair = [victim(n, "b", ran=500) for n in (5, 6)]
    metal = a_node("n", ["a", "b"], [*crowd, *pair])
    assert chosen(choose(whole(1), [metal], going={}, victims={"n": [*crowd, *pair]})) == [5, 6]


def test_one_who_holds_two_cards_counts_once():
    singles = [victim(1, "a", share=WHOLE), victim(2, "b", share=WHOLE)]
    double = victim(3, "c", "d", share=WHOLE, ran=900)
    metal = a_node("n", ["a", "b", "c", "d"], [*singles, double])
    assert chosen(choose(whole(2), [metal], going={}, victims={"n": [*singles, double]})) == [3]


def test_nobody_is_asked_where_somebody_stays_who_is_in_the_way():
    stays, lower = holding(1, "a"), [victim(n, "a") for n in (2, 3)]
    metal = a_node("n", ["a"], lower, others=[stays])
    assert choose(whole(1), [metal], going={}, victims={"n": lower}) is None


@pytest.mark.parametrize(
    "fields", [{"ready": False}, {"cordoned": True}, {"pool": "foreign"}, {"cpu_milli": 1_000}], ids=str
)
def test_nobody_is_asked_on_a_node_that_would_not_take_the_request(fields):
    lower = victim(1, "a", share=WHOLE, cpu_milli=500)
    metal = a_node("n", ["a"], [lower], **({"pool": "own"} | fields))
    assert choose(tier("L", pools={"own"}), [metal], going={}, victims={"n": [lower]}) is None


@pytest.mark.parametrize("fields", [{"model": "T4"}, {"ready": False}, {"healthy": False}, {"mode": "mig"}], ids=str)
def test_nobody_is_asked_on_a_card_that_the_request_may_not_use(fields):
    lower = victim(1, "a", share=WHOLE)
    metal = node("n", taken("a", lower, **fields))
    assert choose(tier("L"), [metal], going={}, victims={"n": [lower]}) is None


def test_a_neighbour_is_asked_for_the_hosts_sake_only_where_the_host_is_short():
    own, beside = victim(1, "a", share=WHOLE), victim(2, "b", ran=11, cpu_milli=6_000)
    both = {"n": [own, beside]}
    assert chosen(choose(tier("L"), [a_node("n", ["a", "b"], [own, beside])], going={}, victims=both)) == []  # on b
    closed = Card("b", "T4", H100_MIB)
    roomy = node("n", taken("a", own), closed, used_cpu_milli=7_000)
    assert chosen(choose(tier("L"), [roomy], going={}, victims={"n": [own]})) == [1]
    full = a_node("n", ["a", "b"], [own, beside], cpu_milli=7_000)
    assert chosen(choose(whole(2), [full], going={}, victims=both)) == [2, 1]


def test_who_ends_anyway_makes_room_without_anybody_being_asked():
    going, lower = holding(1, "a", share=HALF), victim(2, "a", share=HALF)
    metal = a_node("n", ["a"], [lower], going=[going])
    found = choose(tier("XL"), [metal], going={"n": [going]}, victims={"n": [lower]})
    assert (chosen(found), [held.session.int for held in found.going]) == ([], [1])
    found = choose(whole(1), [metal], going={"n": [going]}, victims={"n": [lower]})
    assert chosen(found) == [2]


def test_who_was_chosen_and_not_asked_yet_stays_the_choice_among_equals():
    before, younger = victim(1, "a", share=WHOLE, ran=60, chosen=True), victim(2, "b", share=WHOLE, ran=11)
    metal = a_node("n", ["a", "b"], [before, younger])
    assert chosen(choose(tier("L"), [metal], going={}, victims={"n": [before, younger]})) == [1]


def test_a_place_that_is_kept_already_stays_the_place_among_equals():
    going = [holding(1, "a", share=WHOLE), holding(2, "b", share=WHOLE)]
    metal = a_node("n", ["a", "b"], going=going)
    for kept in ("a", "b"):
        found = choose(tier("L"), [metal], going={"n": going}, victims={}, kept=(kept,))
        assert found.cards == (kept,)


def test_what_is_kept_for_somebody_else_is_not_promised_twice():
    lower = victim(1, "a", share=WHOLE)
    promised = node("n", card("a", used_vram_mib=2 * H100_MIB, used_milli=2_000, used_slots=17))
    assert choose(tier("S"), [promised], going={}, victims={"n": [lower]}) is None


def test_where_there_are_too_many_shapes_for_an_exact_count_nobody_is_asked_who_could_be_spared(monkeypatch):
    monkeypatch.setattr(preemption, "LOOKS", 0)
    shares = [(1_000 + 97 * n, 10 + n) for n in range(40)]
    everybody = [victim(n + 1, "a", share=share, ran=10 + n) for n, share in enumerate(shares)]
    metal = node("n", taken("a", *everybody, slots=64))
    asked = tier("XL")
    found = choose(asked, [metal], going={}, victims={"n": everybody})
    room = preemption._fits(asked, metal, [victim.holding for victim in found.victims])
    spared = [
        preemption._fits(asked, metal, [other.holding for other in found.victims if other is not one])
        for one in found.victims
    ]
    assert room
    assert not any(spared)
