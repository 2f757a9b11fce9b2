"""Preemption over random nodes: never an equal or higher one, never who did not declare it, never in vain, never one too many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import TypeVar
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from cluster.domain.earmarks import Holding
from cluster.domain.fleet import Card, Node
from cluster.domain.placement import Fleet, Placement, Request
from cluster.domain.preemption import Choice, Victim, choose, without
from sessions_app.domain.preemption import Rules, Runner, may_be_asked

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)
T = TypeVar("T")
MINUTE = timedelta(minutes=1)
RULES = Rules(10 * MINUTE, 60 * MINUTE)
VRAM = 16_000
SLOTS = 4
HOST_CPU = 3_000


@dataclass(frozen=True)
class Holder:
    """A session on a node: what it holds, and what the rules see of it."""

    number: int
    node: int
    cards: tuple[int, ...]
    eighths: int
    cpu_milli: int
    runner: Runner
    is_going: bool

    @property
    def holding(self) -> Holding:
        uuids = tuple(f"GPU-{self.node}-{card}" for card in self.cards)
        return Holding(
            cards=uuids,
            vram_mib=(VRAM * self.eighths // 8,) * len(uuids),
            milli=(125 * self.eighths,) * len(uuids),
            cpu_milli=self.cpu_milli,
            memory_mib=100,
            scratch_gib=0,
            ends_at=NOW + MINUTE,
            session=UUID(int=self.number + 1),
        )

    @property
    def victim(self) -> Victim:
        assert self.runner.ran is not None
        return Victim(self.holding, self.runner.ran)


runners = st.builds(
    Runner,
    preemptible=st.sampled_from([True, True, True, False]),
    priority=st.integers(0, 3),
    ran=st.sampled_from([None, 0, 9, 10, 11, 30, 31, 500]).map(
        lambda minutes: None if minutes is None else minutes * MINUTE
    ),
    asked_at=st.sampled_from([None, None, None, 59, 60]).map(
        lambda minutes: None if minutes is None else NOW - minutes * MINUTE
    ),
)
holders = st.builds(
    Holder,
    number=st.just(0),
    node=st.integers(0, 1),
    cards=st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2)]),
    eighths=st.sampled_from([1, 2, 4, 8]),
    cpu_milli=st.sampled_from([100, 500, 900]),
    runner=runners,
    is_going=st.sampled_from([False, False, False, True]),
)
requests = st.one_of(
    st.builds(
        Request,
        models=st.just(("A",)),
        vram_mib=st.sampled_from([VRAM // 8, VRAM // 2, VRAM]),
        core_percent=st.sampled_from([10, 50, 100]),
        cpu_milli=st.sampled_from([100, 1_000]),
    ),
    st.builds(
        Request,
        models=st.just(("A",)),
        exclusive=st.just(True),
        cards=st.integers(1, 3),
        cpu_milli=st.sampled_from([100, 1_500]),
    ),
)


def fitted(drawn: list[Holder]) -> list[Holder]:
    """Those for whom the cards have room, numbered."""
    used: dict[tuple[int, int], tuple[int, int]] = {}
    cpu = [0, 0]
    placed = []
    for holder in drawn:
        keys = [(holder.node, card) for card in holder.cards]
        now = [used.get(key, (0, 0)) for key in keys]
        if any(share + holder.eighths > 8 or slots == SLOTS for share, slots in now):
            continue
        if cpu[holder.node] + holder.cpu_milli > HOST_CPU:
            continue
        used |= {key: (share + holder.eighths, slots + 1) for key, (share, slots) in zip(keys, now, strict=True)}
        cpu[holder.node] += holder.cpu_milli
        placed.append(replace(holder, number=len(placed)))
    return placed


def metal(placed: list[Holder]) -> list[Node]:
    """Two nodes of three cards with what is held; one card of the second is of another model."""
    nodes = []
    for number in (0, 1):
        here = [holder for holder in placed if holder.node == number]
        cards = []
        for at in range(3):
            on_it = [holder for holder in here if at in holder.cards]
            card = Card(f"GPU-{number}-{at}", "B" if (number, at) == (1, 2) else "A", VRAM, slots=SLOTS)
            eighths = sum(holder.eighths for holder in on_it)
            used = {"used_vram_mib": VRAM * eighths // 8, "used_milli": 125 * eighths, "used_slots": len(on_it)}
            cards.append(replace(card, **used))
        cpu = sum(holder.cpu_milli for holder in here)
        node = Node(f"node-{number}", HOST_CPU, 10_000, 100, tuple(cards), used_cpu_milli=cpu)
        nodes.append(replace(node, used_memory_mib=100 * len(here)))
    return nodes


def fits_without(request: Request, nodes: list[Node], gone: list[Holder]) -> bool:
    left = [without(node, [h.holding for h in gone if h.node == number]) for number, node in enumerate(nodes)]
    return isinstance(Fleet(left).look(request), Placement)


@given(st.lists(holders, max_size=9), requests, st.integers(0, 4))
def test_a_choice_is_allowed_enough_and_as_small_as_any(drawn: list[Holder], request: Request, priority: int) -> None:
    placed = fitted(drawn)
    nodes = metal(placed)
    going = [holder for holder in placed if holder.is_going]
    others = [holder for holder in placed if not holder.is_going]
    may = [holder for holder in others if may_be_asked(holder.runner, priority=priority, rules=RULES, now=NOW)]
    found = choose(
        request,
        nodes,
        going=_by_node(going, lambda holder: holder.holding),
        victims=_by_node(may, lambda holder: holder.victim),
    )
    smallest = next(
        (
            many
            for many in range(len(may) + 1)
            if any(fits_without(request, nodes, [*going, *some]) for some in combinations(may, many))
        ),
        None,
    )
    if smallest is None:
        assert found is None
        return
    assert found is not None
    asked = _asked(found, placed)
    assert len(asked) == smallest
    assert fits_without(request, nodes, [*going, *asked])
    for holder in asked:
        runner = holder.runner
        assert runner.preemptible
        assert runner.priority < priority
        assert runner.ran is not None
        assert runner.ran >= RULES.min_runtime
        assert runner.asked_at is None or NOW - runner.asked_at >= RULES.again_after
        assert any(card.model == "A" for card in nodes[holder.node].cards if card.uuid in holder.holding.cards)
    alternatives = [some for some in combinations(may, smallest) if fits_without(request, nodes, [*going, *some])]
    assert ran(asked) == min(ran(some) for some in alternatives)


def ran(holders: Iterable[Holder]) -> timedelta:
    """How long they have run together."""
    return sum((holder.victim.ran for holder in holders), timedelta(0))


def _asked(found: Choice, placed: list[Holder]) -> list[Holder]:
    by_session = {holder.holding.session: holder for holder in placed}
    return [by_session[victim.session] for victim in found.victims]


def _by_node(holders: list[Holder], what: Callable[[Holder], T]) -> dict[str, list[T]]:
    nodes = {holder.node for holder in holders}
    return {f"node-{number}": [what(one) for one in holders if one.node == number] for number in nodes}
