"""Placement over random fleets and random stories: it never over-commits, gives back exactly, and answers the same twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.domain.fleet import Card, Node
from cluster.domain.placement import Fleet, NoPlace, Placement, Request

MODELS = ("A100", "T4")

cards = st.builds(
    lambda model, vram, slots, used: (model, vram, slots, used),
    st.sampled_from(MODELS),
    st.integers(1_024, 81_559),
    st.integers(1, 16),
    st.integers(0, 500),
)
nodes = st.lists(
    st.tuples(
        st.integers(1_000, 64_000), st.integers(1_024, 262_144), st.integers(0, 500), st.lists(cards, max_size=4)
    ),
    min_size=1,
    max_size=4,
)
requests = st.builds(
    Request,
    models=st.sampled_from([None, ("A100",), ("T4",), MODELS]),
    cards=st.integers(0, 3),
    exclusive=st.booleans(),
    vram_mib=st.integers(0, 60_000),
    core_percent=st.sampled_from([0, 6, 12, 25, 50, 100]),
    cpu_milli=st.integers(1, 16_000),
    memory_mib=st.integers(1, 65_536),
    scratch_gib=st.integers(0, 100),
)
stories = st.lists(st.one_of(requests, st.integers(0, 20)), max_size=40)


def fleet_of(described: list[tuple[int, int, int, list[tuple[str, int, int, int]]]], policy: str) -> Fleet:
    """Nodes with cards, some of them partly in use by others."""
    return Fleet(
        [
            Node(
                name=f"node-{number}",
                cpu_milli=cpu,
                memory_mib=memory,
                scratch_gib=scratch,
                cards=tuple(
                    Card(f"GPU-{number}-{place}", model, vram, slots=slots, foreign_milli=foreign)
                    for place, (model, vram, slots, foreign) in enumerate(of_node)
                ),
            )
            for number, (cpu, memory, scratch, of_node) in enumerate(described)
        ],
        policy=policy,
    )


def check_within(fleet: Fleet) -> None:
    """No node and no card gives more than it has."""
    for node in fleet.nodes():
        assert 0 <= node.used_cpu_milli <= node.cpu_milli
        assert 0 <= node.used_memory_mib <= node.memory_mib
        assert 0 <= node.used_scratch_gib <= node.scratch_gib
        for card in node.cards:
            assert 0 <= card.used_vram_mib + card.foreign_vram_mib <= card.vram_mib
            assert 0 <= card.used_milli + card.foreign_milli <= card.core_percent * 10
            assert 0 <= card.used_slots + card.foreign_slots <= card.slots


@settings(max_examples=150, deadline=None)
@given(nodes, stories, st.sampled_from(["best_fit", "spread"]))
def test_no_story_of_claims_and_releases_over_commits(described, story, policy):
    fleet = fleet_of(described, policy)
    start = fleet.nodes()
    held: list[Placement] = []
    for step in story:
        if isinstance(step, int):
            if held:
                fleet.release(held.pop(step % len(held)))
        else:
            found = fleet.place(step)
            if isinstance(found, NoPlace):
                assert found.detail
                assert found.kind in {"not_now", "never"}
            else:
                fleet.claim(found)
                held.append(found)
        check_within(fleet)
    for placement in held:
        fleet.release(placement)
    assert fleet.nodes() == start, "what was taken came back exactly"


@settings(max_examples=100, deadline=None)
@given(nodes, st.lists(requests, max_size=25), st.sampled_from(["best_fit", "spread"]))
def test_a_fleet_rebuilt_from_its_figures_answers_the_same(described, story, policy):
    fleet = fleet_of(described, policy)
    for request in story:
        rebuilt = Fleet(fleet.nodes(), policy=policy)
        found, again = fleet.place(request), rebuilt.place(request)
        assert found == again
        if isinstance(found, Placement):
            fleet.claim(found)


@settings(max_examples=100, deadline=None)
@given(nodes, requests)
def test_what_fits_an_empty_fleet_is_never_called_never(described, request):
    fleet = fleet_of(
        [(cpu, memory, scratch, [(m, v, s, 0) for m, v, s, _ in of]) for cpu, memory, scratch, of in described],
        "best_fit",
    )
    found = fleet.place(request)
    if isinstance(found, NoPlace):
        assert found.kind == "never"
