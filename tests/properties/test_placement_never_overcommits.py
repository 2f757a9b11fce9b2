"""Placement over random fleets and random stories: it never over-commits, gives back exactly, and answers the same twice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.domain.fleet import Card, Node
from cluster.domain.fragmentation import LeastFragmentation
from cluster.domain.placement import POLICIES, Fleet, NoPlace, Placement, Request

MODELS = ("A100", "T4")
policies = st.sampled_from(sorted(POLICIES))

cards = st.builds(
    Card,
    uuid=st.just(""),
    model=st.sampled_from(MODELS),
    vram_mib=st.integers(1_024, 81_559),
    core_percent=st.sampled_from([100, 100, 100, 200]),
    slots=st.integers(1, 16),
    foreign_milli=st.integers(0, 500),
    foreign_vram_mib=st.integers(0, 1_024),
    ready=st.sampled_from([True, True, True, False]),
    healthy=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from(["hami-core"] * 5 + ["draining", "mig"]),
)
nodes = st.builds(
    Node,
    name=st.just(""),
    cpu_milli=st.integers(1_000, 64_000),
    memory_mib=st.integers(1_024, 262_144),
    scratch_gib=st.integers(0, 500),
    cards=st.lists(cards, max_size=4).map(tuple),
    pool=st.sampled_from([None, "p"]),
    ready=st.sampled_from([True, True, True, False]),
    cordoned=st.sampled_from([False, False, False, True]),
)


def numbered(drawn: list[Node]) -> list[Node]:
    return [
        replace(
            node,
            name=f"node-{number}",
            cards=tuple(replace(card, uuid=f"GPU-{number}-{at}") for at, card in enumerate(node.cards)),
        )
        for number, node in enumerate(drawn)
    ]


fleets = st.lists(nodes, min_size=1, max_size=4).map(numbered)
requests = st.builds(
    Request,
    models=st.sampled_from([None, ("A100",), ("T4",), MODELS]),
    cards=st.integers(0, 3),
    exclusive=st.booleans(),
    vram_mib=st.integers(0, 60_000),
    core_percent=st.sampled_from([0, 6, 6.25, 12.5, Fraction(100, 3), 25, 50, 100]),
    cpu_milli=st.integers(1, 16_000),
    memory_mib=st.integers(1, 65_536),
    scratch_gib=st.integers(0, 100),
    pools=st.sampled_from([None, None, ("p",), ()]),
)
stories = st.lists(st.one_of(requests, requests, st.integers(0, 20)), max_size=40)


def check_within(fleet: Fleet) -> None:
    """No node and no card gives more than it has."""
    for node in fleet.nodes():
        assert 0 <= node.used_cpu_milli <= node.cpu_milli
        assert 0 <= node.used_memory_mib <= node.memory_mib
        assert 0 <= node.used_scratch_gib <= node.scratch_gib
        for card in node.cards:
            assert 0 <= card.used_vram_mib <= card.vram_mib - card.foreign_vram_mib
            assert 0 <= card.used_milli <= card.core_percent * 10 - card.foreign_milli
            assert 0 <= card.used_slots <= card.slots - card.foreign_slots


def check_allowed(fleet: Fleet, request: Request, found: Placement) -> None:
    """Before the claim: open, of the right model and pool, as many different cards as asked for, whole ones empty."""
    node = fleet.node(found.node)
    assert node.ready
    assert not node.cordoned
    assert request.pools is None or node.pool in request.pools
    chosen = [card for card in node.cards if card.uuid in found.cards]
    assert len(chosen) == len(found.cards) == request.ask.cards
    for card in chosen:
        assert card.open
        assert request.models is None or card.model in request.models
        if request.ask.whole:
            assert not (card.used_slots or card.used_vram_mib or card.used_milli or card.foreign_vram_mib)


def room_somewhere(fleet: Fleet, request: Request) -> bool:
    """By brute force: whether any node could take it now."""
    return any(_has_room(node, request) for node in fleet.nodes())


def _has_room(node: Node, request: Request) -> bool:
    if not node.ready or node.cordoned or (request.pools is not None and node.pool not in request.pools):
        return False
    if (
        node.cpu_milli - node.used_cpu_milli < request.cpu_milli
        or node.memory_mib - node.used_memory_mib < request.memory_mib
        or node.scratch_gib - node.used_scratch_gib < request.scratch_gib
    ):
        return False
    return sum(_fits(card, request) for card in node.cards) >= request.ask.cards


def _fits(card: Card, request: Request) -> bool:
    if not card.open or (request.models is not None and card.model not in request.models):
        return False
    vram = card.vram_mib - card.used_vram_mib - card.foreign_vram_mib
    micro = (card.core_percent * 10 - card.used_milli - card.foreign_milli) * 1_000
    slots = card.slots - card.used_slots - card.foreign_slots
    if request.ask.whole:
        return vram == card.vram_mib and micro == card.core_percent * 10_000 and slots == card.slots
    return vram >= request.ask.vram_mib and micro >= request.ask.core_micro and slots > 0


@settings(max_examples=200, deadline=None)
@given(fleets, stories, policies)
def test_no_story_of_claims_and_releases_over_commits(drawn, story, policy):
    fleet = Fleet(drawn, policy=policy)
    start = fleet.nodes()
    held: list[Placement] = []
    for step in story:
        if isinstance(step, int):
            if held:
                fleet.release(held.pop(step % len(held)))
            continue
        found = fleet.place(step)
        if isinstance(found, NoPlace):
            assert not room_somewhere(fleet, step)
            assert found.detail
            assert found.missing
        else:
            check_allowed(fleet, step, found)
            fleet.claim(found)
            held.append(found)
        check_within(fleet)
    for placement in held:
        fleet.release(placement)
    assert fleet.nodes() == start, "what was taken came back exactly"


@settings(max_examples=100, deadline=None)
@given(fleets, requests, policies)
def test_place_claim_release_restores_the_fleet_and_its_answer(drawn, request, policy):
    fleet = Fleet(drawn, policy=policy, tunes_itself=False)
    before, found = fleet.nodes(), fleet.place(request)
    if isinstance(found, Placement):
        fleet.claim(found)
        assert fleet.nodes() != before
        fleet.release(found)
    assert fleet.nodes() == before
    assert fleet.place(request) == found


@settings(max_examples=100, deadline=None)
@given(fleets, stories, st.randoms(use_true_random=False), policies)
def test_a_fleet_rebuilt_from_its_figures_in_any_order_answers_the_same(drawn, story, random, policy):
    fleet = Fleet(drawn, policy=policy)
    held: list[Placement] = []
    for step in story:
        if isinstance(step, int):
            if held:
                fleet.release(held.pop(step % len(held)))
            continue
        shuffled = list(fleet.nodes())
        random.shuffle(shuffled)
        rebuilt = fleet.sibling(shuffled)
        found = fleet.place(step)
        assert rebuilt.place(step) == found
        if isinstance(found, Placement):
            fleet.claim(found)
            held.append(found)


@settings(max_examples=50, deadline=None)
@given(fleets, stories)
def test_two_replicas_that_saw_the_same_answer_the_same(drawn, story):
    one, other = Fleet(drawn, LeastFragmentation()), Fleet(list(reversed(drawn)), LeastFragmentation())
    for request in (step for step in story if isinstance(step, Request)):
        found = one.place(request)
        assert other.place(request) == found
        if isinstance(found, Placement):
            one.claim(found)
            other.claim(found)


@settings(max_examples=100, deadline=None)
@given(fleets, stories, policies)
def test_a_fleet_that_follows_rows_equals_the_one_that_claimed(drawn, story, policy):
    leader, follower = Fleet(drawn, policy=policy), Fleet(drawn, policy=policy)
    for request in (step for step in story if isinstance(step, Request)):
        found = leader.place(request)
        if isinstance(found, Placement):
            leader.claim(found)
            follower.update_node(leader.node(found.node))
        assert follower.nodes() == leader.nodes()


@settings(max_examples=100, deadline=None)
@given(fleets, requests)
def test_never_means_that_no_emptied_fleet_could_hold_it_and_not_now_that_one_could(drawn, request):
    def emptied(node: Node) -> Node:
        cards = tuple(
            replace(
                card, foreign_milli=0, foreign_vram_mib=0, ready=True, mode="mig" if card.mode == "mig" else "hami-core"
            )
            for card in node.cards
        )
        return replace(node, cards=cards, ready=True, cordoned=False)

    found = Fleet(drawn).place(request)
    empty = Fleet([emptied(node) for node in drawn])
    anywhere = empty.place(replace(request, pools=None))
    if isinstance(found, NoPlace):
        assert (found.kind == "never") == isinstance(anywhere, NoPlace)
    if isinstance(anywhere, NoPlace) and anywhere.largest and (request.ask.whole or request.ask.cards <= 1):
        largest = anywhere.largest
        smaller = replace(
            request,
            pools=None,
            cards=largest.get("cards", 0),
            vram_mib=largest.get("vram_mib", 0),
            core_percent=Fraction(largest.get("cores", 0), 10),
            cpu_milli=largest.get("cpu_milli", 0),
            memory_mib=largest.get("memory_mib", 0),
            scratch_gib=largest.get("scratch_gib", 0),
        )
        if smaller.ask.cards:
            assert isinstance(empty.place(smaller), Placement), "the largest that would fit does fit"
