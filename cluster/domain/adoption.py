"""What an inventory means: which nodes and cards to write, which rows to leave aside.

Guarantees: unknown is unknown, never zero: a capacity that was not reported keeps its last value, cards that a silent
node does not list are not missing, and a beat with unreadable rows makes nothing missing. What pods hold of a card without
a claim of theirs counts as foreign, so that it is not given away twice. Refuses, row by row and with the reason: cards of
another cluster, cards listed twice, claimed cards that changed their node, figures that no machine has.
Pure: rows in, facts out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from gshare_core.contract import BadRow, BoundShare, CardRow, NodeRow

MAX_VRAM_MIB = 1_048_576
MAX_SLOTS = 1_000
MAX_INDEX = 255
MAX_CORE_PERCENT = 1_000
MAX_CPU_MILLI = 100_000_000
MAX_MEMORY_MIB = 134_217_728
MAX_SCRATCH_GIB = 10_485_760
_MILLI_PER_PERCENT = 10


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What there is to know of a card, claims apart. Foreign figures are what pods without a claim hold."""

    uuid: str
    index: int
    model: str
    vram_mib: int
    core_milli: int
    slots: int
    mode: str
    is_healthy: bool
    mig_profiles: tuple[Mapping[str, Any], ...] = ()
    foreign_vram_mib: int = 0
    foreign_milli: int = 0
    foreign_slots: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What there is to know of a node, claims apart. `missing` are its cards that are registered but not listed."""

    name: str
    labels: Mapping[str, str]
    is_ready: bool
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    is_yield_capable: bool
    cards: tuple[CardFacts, ...] = ()
    missing: frozenset[str] = frozenset()
    is_missing: bool = False
    is_unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """What the rows say: nodes by name, the claims on cards, and cards that other clusters have.

    `claims` is, per card, how many claims each session has on it.
    """

    nodes: Mapping[str, NodeFacts]
    claims: Mapping[str, Mapping[UUID, int]]
    elsewhere: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Adoption:
    """What to do: facts of nodes that are new or changed, nodes that are no longer listed, rows left aside."""

    changed: tuple[NodeFacts, ...]
    absent: frozenset[str]
    skipped: tuple[BadRow, ...]


def adopt(listed: Iterable[NodeRow], registered: Registered, *, complete: bool) -> Adoption:
    """Compare one beat with the rows. `complete` is false when some rows of the beat could not be read."""
    skipped: list[BadRow] = []
    seen_nodes: set[str] = set()
    seen_cards: set[str] = set()
    changed = []
    at = {card.uuid: node.name for node in registered.nodes.values() for card in node.cards}
    for row in listed:
        why = _absurd_node(row) or ("listed twice" if row.name in seen_nodes else None)
        seen_nodes.add(row.name)
        if why is not None:
            skipped.append(BadRow(f"node {row.name}", why))
            continue
        cards = _cards(row, registered, at, seen_cards, skipped)
        known = registered.nodes.get(row.name)
        facts = _node(row, cards, known, complete=complete)
        if facts != known:
            changed.append(facts)
    absent = registered.nodes.keys() - seen_nodes
    if absent and not seen_nodes:
        skipped.append(BadRow("nodes", "no node is listed at all; nothing is concluded from that"))
    concluded = frozenset(absent) if complete and seen_nodes else frozenset()
    return Adoption(tuple(changed), concluded, tuple(skipped))


def _cards(
    row: NodeRow,
    registered: Registered,
    at: Mapping[str, str],
    seen: set[str],
    skipped: list[BadRow],
) -> tuple[CardFacts, ...]:
    found = []
    for card in row.cards:
        claims = registered.claims.get(card.uuid, {})
        why = _absurd_card(card)
        if card.uuid in registered.elsewhere:
            why = "registered by another cluster"
        elif card.uuid in seen:
            why = "listed twice"
        elif claims and at.get(card.uuid, row.name) != row.name:
            why = f"claimed on node {at[card.uuid]}"
        if why is not None:
            skipped.append(BadRow(f"card {card.uuid} of node {row.name}", why))
            continue
        seen.add(card.uuid)
        found.append(_card(card, claims))
    return in_order(found)


def in_order(cards: Iterable[CardFacts]) -> tuple[CardFacts, ...]:
    """Cards by index, then UUID: the order in which facts are compared."""
    return tuple(sorted(cards, key=lambda card: (card.index, card.uuid)))


def _card(row: CardRow, claims: Mapping[UUID, int]) -> CardFacts:
    vram, percent, slots = foreign_use(row.bound, claims)
    return CardFacts(
        uuid=row.uuid,
        index=row.index,
        model=row.model,
        vram_mib=row.vram_mib,
        core_milli=row.core_percent * _MILLI_PER_PERCENT,
        slots=row.slots,
        mode=row.mode,
        is_healthy=row.healthy,
        mig_profiles=tuple(profile.model_dump(mode="json") for profile in row.mig_profiles),
        foreign_vram_mib=min(vram, MAX_VRAM_MIB),
        foreign_milli=min(percent, MAX_CORE_PERCENT) * _MILLI_PER_PERCENT,
        foreign_slots=min(slots, MAX_SLOTS),
    )


def foreign_use(bound: Iterable[BoundShare], claims: Mapping[UUID, int]) -> tuple[int, int, int]:
    """MiB, percent and slots that are held without a claim.

    As many pods of a session as it has claims are the claims'; any further one (its end is still under way), pods of
    sessions without a claim here and pods that are not ours are foreign.
    """
    vram = percent = slots = 0
    uncovered = Counter(claims)
    for share in bound:
        if share.session is not None and uncovered[share.session] > 0:
            uncovered[share.session] -= 1
            continue
        vram, percent, slots = vram + share.vram_mib, percent + share.core_percent, slots + 1
    return vram, percent, slots


def _node(row: NodeRow, cards: tuple[CardFacts, ...], known: NodeFacts | None, *, complete: bool) -> NodeFacts:
    listed = {card.uuid for card in cards}
    unlisted = tuple(card for card in known.cards if card.uuid not in listed) if known else ()
    silent = not row.ready and not row.cards
    if silent or not complete:
        missing = frozenset(card.uuid for card in unlisted if known and card.uuid in known.missing)
    else:
        missing = frozenset(card.uuid for card in unlisted)
    return NodeFacts(
        name=row.name,
        labels=dict(row.labels),
        is_ready=row.ready,
        cpu_milli=row.cpu_milli or (known.cpu_milli if known else 0),
        memory_mib=row.memory_mib or (known.memory_mib if known else 0),
        scratch_gib=row.scratch_gib or (known.scratch_gib if known else 0),
        is_yield_capable=row.yield_capable,
        cards=in_order((*cards, *unlisted)),
        missing=missing,
        is_unschedulable=row.unschedulable,
    )


def _absurd_node(row: NodeRow) -> str | None:
    for name, value, most in (
        ("cpu_milli", row.cpu_milli, MAX_CPU_MILLI),
        ("memory_mib", row.memory_mib, MAX_MEMORY_MIB),
        ("scratch_gib", row.scratch_gib, MAX_SCRATCH_GIB),
    ):
        if value > most:
            return f"{name} above {most} is no machine's"
    return None


def _absurd_card(row: CardRow) -> str | None:
    for name, value, most in (
        ("vram_mib", row.vram_mib, MAX_VRAM_MIB),
        ("slots", row.slots, MAX_SLOTS),
        ("index", row.index, MAX_INDEX),
        ("core_percent", row.core_percent, MAX_CORE_PERCENT),
    ):
        if value > most:
            return f"{name} above {most} is no card's"
    return None
