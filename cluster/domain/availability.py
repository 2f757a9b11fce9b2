"""How many sessions of a shape would start now: a count for people, never a promise.

Pure. Counts what cards and hosts have left; a card's room is what its VRAM, cores and slots allow, a node's also what its
CPU, memory and scratch allow.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from cluster.domain.fleet import HAMI_CORE, Card, Node
from cluster.domain.shapes import Shape


def free_now(nodes: Iterable[Node], *, model: str | None, shape: Shape, pools: Collection[Hashable] | None) -> int:
    """How many sessions of `shape` on cards of `model` would fit, each node counted by itself."""
    return sum(_room(node, model, shape) for node in nodes if _open(node, pools))


def _open(node: Node, pools: Collection[Hashable] | None) -> bool:
    return node.ready and not node.cordoned and (pools is None or node.pool in pools)


def _room(node: Node, model: str | None, shape: Shape) -> int:
    host = min(
        (node.cpu_milli - node.used_cpu_milli) // shape.cpu_milli,
        (node.memory_mib - node.used_memory_mib) // shape.memory_mib,
        (node.scratch_gib - node.used_scratch_gib) // shape.scratch_gib if shape.scratch_gib else 1_000_000,
    )
    if shape.mode == "cpu":
        return max(0, host)
    cards = [card for card in node.cards if card.open and card.mode == HAMI_CORE and card.model == model]
    if shape.mode == "exclusive":
        room = sum(_is_empty(card) for card in cards) // shape.cards
    else:
        room = sum(_shares(card, shape) for card in cards)
    return max(0, min(host, room))


def _is_empty(card: Card) -> bool:
    return not (card.used_slots or card.used_vram_mib or card.foreign_vram_mib or card.foreign_slots)


def _shares(card: Card, shape: Shape) -> int:
    vram = card.vram_mib - card.used_vram_mib - card.foreign_vram_mib
    milli = card.core_percent * 10 - card.used_milli - card.foreign_milli
    slots = card.slots - card.used_slots - card.foreign_slots
    return max(0, min(vram // shape.vram_mib, int(milli // shape.core_milli) if shape.core_milli else slots, slots))
