"""When those who wait would be placed, if what runs ends when it must, or when its like usually does.

Guarantees: who waits is placed in the order of the line, each as soon as it fits; nothing is placed on what another holds.
An answer is `hard` when everything it rests on must have ended by then. Pure. It is an outlook, never a promise: who
comes later with a better place in line, or ends sooner, changes it.
Refuses to guess: whoever waits for something without an end gets no answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple
from uuid import UUID

from cluster.domain.earmarks import Holding, Room
from cluster.domain.fleet import Node
from cluster.domain.requests import Request


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody in line: what he asks for, and how long he would hold it (None: nothing says so)."""

    session: UUID
    request: Request
    lasts: timedelta | None
    hard: bool


class Start(NamedTuple):
    """When somebody would be placed; `hard` when it rests on what must end only."""

    at: datetime
    hard: bool


class _Plan:
    """The metal as time goes on."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        usable = [node for node in nodes if node.ready and not node.cordoned]
        self.nodes = {node.name: node for node in usable}
        self.rooms = {node.name: Room(node) for node in usable}
        self.soft: set[str] = set()
        self._events: list[tuple[datetime, int, str, Holding]] = []
        self._numbers = count()

    def ends(self, at: datetime, node: str, holding: Holding) -> None:
        """Something on a node ends then."""
        heapq.heappush(self._events, (at, next(self._numbers), node, holding))

    def next_ending(self) -> tuple[datetime, set[str]] | None:
        """Go to the next moment at which something ends: that time, and the nodes that have more room then."""
        if not self._events:
            return None
        at, freed = self._events[0][0], set()
        while self._events and self._events[0][0] == at:
            _at, _number, node, holding = heapq.heappop(self._events)
            self.rooms[node].give_back(holding)
            if not holding.hard:
                self.soft.add(node)
            freed.add(node)
        return at, freed

    def place(self, waiter: Waiter, names: Iterable[str], at: datetime) -> Start | None:
        """Put somebody on the first of these nodes that can hold him."""
        ask = waiter.request.ask
        for name in names:
            if ask.pools is not None and self.nodes[name].pool not in ask.pools:
                continue
            cards = self.rooms[name].cards_for(ask)
            if cards is None:
                continue
            holding = self.rooms[name].take(ask, cards)
            if waiter.lasts is not None:
                self.ends(at + waiter.lasts, name, replace(holding, hard=waiter.hard))
            return Start(at, name not in self.soft)
        return None


def outlook(
    nodes: Iterable[Node], holdings: Mapping[str, Sequence[Holding]], line: Sequence[Waiter], now: datetime
) -> dict[UUID, Start]:
    """When each of the line would be placed; those nothing says anything about are left out.

    `nodes` carry what is used now; `holdings` are, by node, what of it ends.
    """
    plan = _Plan(nodes)
    for name, on_node in holdings.items():
        for holding in on_node:
            if name in plan.rooms and holding.ends_at is not None:
                plan.ends(max(now, holding.ends_at), name, holding)
    found: dict[UUID, Start] = {}
    waiting = list(line)
    at, names = now, sorted(plan.rooms)
    while waiting:
        left, failed = [], set()
        for waiter in waiting:
            start = None if waiter.request.ask in failed else plan.place(waiter, names, at)
            if start is None:
                failed.add(waiter.request.ask)
                left.append(waiter)
            else:
                found[waiter.session] = start
        waiting = left
        ending = plan.next_ending()
        if ending is None:
            break
        at, names = ending[0], sorted(ending[1])
    return found
