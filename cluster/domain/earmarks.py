"""Which node and cards to keep for a request that has waited long, and when they will be free.

Guarantees: what is chosen could hold the request once some of what runs there has ended, on top of what is kept for
others already: earmarks never promise more than a card or a node has. The node with the fewest holders that nothing makes
end wins, then the one that will be free first, then the first name. Pure.
Refuses: nodes that take nothing new, and pools and models that the request may not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from cluster.domain.fleet import Card, Node, micro_of_milli
from cluster.domain.requests import Ask, Request

_MICRO_PER_PERCENT = 10_000
_MICRO_PER_MILLI = 1_000


@dataclass(frozen=True, slots=True)
class Holding:
    """What one run holds of a node and when it will have given it back; `ends_at` None where nothing says so.

    `hard`: it must have by then. `vram_mib` and `milli` are per card of `cards`, as the claims say them.
    """

    cards: tuple[str, ...]
    vram_mib: tuple[int, ...]
    milli: tuple[int, ...]
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    ends_at: datetime | None
    hard: bool = True
    session: UUID | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The place to keep, when it must be free (None: nothing says so), and who makes way on its cards."""

    node: str
    cards: tuple[str, ...]
    ready_at: datetime | None
    leaving: tuple[Holding, ...] = ()


class Room:
    """What a node has left, while holders go one after another."""

    def __init__(self, node: Node) -> None:
        self.cpu = node.cpu_milli - node.used_cpu_milli
        self.memory = node.memory_mib - node.used_memory_mib
        self.scratch = node.scratch_gib - node.used_scratch_gib
        self._cards = node.cards
        self._left = {card.uuid: _left(card) for card in node.cards}

    def give_back(self, holding: Holding) -> None:
        """One holder has gone."""
        self._move(holding, 1)

    def left_of(self, uuid: str) -> tuple[int, int, int]:
        """MiB, millionths and slots left of a card; below zero where more is kept than there is."""
        return self._left[uuid]

    def _move(self, holding: Holding, sign: int) -> None:
        self.cpu += sign * holding.cpu_milli
        self.memory += sign * holding.memory_mib
        self.scratch += sign * holding.scratch_gib
        for uuid, vram, milli in zip(holding.cards, holding.vram_mib, holding.milli, strict=True):
            if uuid in self._left:
                left = self._left[uuid]
                self._left[uuid] = (left[0] + sign * vram, left[1] + sign * micro_of_milli(milli), left[2] + sign)

    def take(self, ask: Ask, cards: tuple[str, ...]) -> Holding:
        """Somebody takes it; answers what he will give back."""
        whole = {
            card.uuid: (card.vram_mib, card.core_percent * _MICRO_PER_PERCENT // _MICRO_PER_MILLI)
            for card in self._cards
        }
        shares = [whole[uuid] if ask.whole else (ask.vram_mib, ask.core_micro // _MICRO_PER_MILLI) for uuid in cards]
        holding = Holding(
            cards=cards,
            vram_mib=tuple(vram for vram, _ in shares),
            milli=tuple(milli for _, milli in shares),
            cpu_milli=ask.cpu_milli,
            memory_mib=ask.memory_mib,
            scratch_gib=ask.scratch_gib,
            ends_at=None,
        )
        self._move(holding, -1)
        return holding

    def cards_for(self, ask: Ask) -> tuple[str, ...] | None:
        """The cards that could hold the request now, the fullest first; None when the node cannot."""
        if self.cpu < ask.cpu_milli or self.memory < ask.memory_mib or self.scratch < ask.scratch_gib:
            return None
        fitting = [card for card in self._cards if self._fits(card, ask)]
        if len(fitting) < ask.cards:
            return None
        fitting.sort(key=lambda card: min(self._left[card.uuid][:2]))
        return tuple(card.uuid for card in fitting[: ask.cards])

    def _fits(self, card: Card, ask: Ask) -> bool:
        if not card.open or (ask.models is not None and card.model not in ask.models):
            return False
        vram, core, slots = self._left[card.uuid]
        if ask.whole:
            return (vram, core, slots) == (card.vram_mib, card.core_percent * _MICRO_PER_PERCENT, card.slots)
        return vram >= ask.vram_mib and core >= ask.core_micro and slots > 0


def soonest(
    request: Request, nodes: Iterable[Node], holdings: Mapping[str, Sequence[Holding]], now: datetime
) -> Reservation | None:
    """The place that will be free first, or None when no node could hold the request beside what is kept already.

    `nodes` carry what is used now, kept parts of others included; `holdings` are, by node, what of it will be given back.
    """
    best: tuple[_Rank, Reservation] | None = None
    for node in nodes:
        if not node.ready or node.cordoned or (request.ask.pools is not None and node.pool not in request.ask.pools):
            continue
        found = _on(node, request.ask, holdings.get(node.name, ()), now)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best[1] if best else None


_Rank = tuple[int, datetime, str]


def _on(node: Node, ask: Ask, holdings: Sequence[Holding], now: datetime) -> tuple[_Rank, Reservation] | None:
    """When this node could hold the request: holders leave in the order of their ends, those without one last."""
    if ask.models is not None and ask.cards and not any(card.model in ask.models for card in node.cards):
        return None
    room, at, unbounded = Room(node), now, 0
    leaving = sorted(holdings, key=lambda holding: (not holding.hard, holding.ends_at is None, holding.ends_at or now))
    cards = room.cards_for(ask)
    gone: list[Holding] = []
    for holding in leaving:
        if cards is not None:
            break
        room.give_back(holding)
        gone.append(holding)
        unbounded += holding.ends_at is None or not holding.hard
        at = max(at, holding.ends_at or now)
        cards = room.cards_for(ask)
    if cards is None:
        return None
    ways = tuple(holding for holding in gone if set(holding.cards) & set(cards))
    return (unbounded, at, node.name), Reservation(node.name, cards, None if unbounded else at, ways)


def _left(card: Card) -> tuple[int, int, int]:
    """MiB, millionths and slots left of a card, kept parts included: may be below zero."""
    return (
        card.vram_mib - card.used_vram_mib - card.foreign_vram_mib,
        card.core_percent * _MICRO_PER_PERCENT - micro_of_milli(card.used_milli) - micro_of_milli(card.foreign_milli),
        card.slots - card.used_slots - card.foreign_slots,
    )
