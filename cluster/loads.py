"""What sits on every card: for pictures and counts, in a constant number of queries.

Guarantees: parts are in the order in which they were claimed, shares are exact, and what foreign pods use is one part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from cluster.models import Card, Claim, Cluster


@dataclass(frozen=True, slots=True)
class Part:
    """One holder of a part of a card; `session_id` None for pods that are not ours."""

    session_id: UUID | None
    run_id: UUID | None
    share: Fraction
    orphaned: bool = False


@dataclass(frozen=True, slots=True)
class CardLoad:
    """A card and what it carries. `look`: ready, draining, silent."""

    cluster_id: UUID
    cluster_name: str
    node: str
    index: int
    uuid: str
    model: str
    vram_mib: int
    slots: int
    look: str
    mig: bool
    parts: tuple[Part, ...]

    @property
    def free(self) -> Fraction:
        """What is left of it."""
        return 1 - sum((part.share for part in self.parts), Fraction(0))


def card_loads(models: Collection[str] | None = None) -> list[CardLoad]:
    """Every registered card (of `models`, if given), by cluster, node and index."""
    cards = Card.objects.filter(retired_at=None, node__retired_at=None, node__cluster__removed_at=None)
    if models is not None:
        cards = cards.filter(model__in=models)
    found = list(cards.select_related("node__cluster").order_by("node__cluster__name", "node__name", "index", "uuid"))
    claims: dict[UUID, list[Claim]] = defaultdict(list)
    for claim in Claim.objects.holding().filter(card__in=[card.pk for card in found]).order_by("id"):
        if claim.card_id is not None:
            claims[claim.card_id].append(claim)
    return [_load(card, claims[card.pk]) for card in found]


def _load(card: Card, claims: list[Claim]) -> CardLoad:
    parts = [
        Part(claim.session_id, claim.run_id, _share(card, claim.vram_mib, claim.milli), claim.state == "orphaned")
        for claim in claims
    ]
    foreign = _share(card, card.foreign_vram_mib, card.foreign_milli)
    if foreign:
        parts.append(Part(None, None, min(foreign, 1 - sum((part.share for part in parts), Fraction(0)))))
    cluster = card.node.cluster
    silent = cluster.state != Cluster.State.CONNECTED or not card.node.is_ready
    look = "silent" if silent else "draining" if card.is_draining or card.node.is_cordoned else "ready"
    return CardLoad(
        cluster_id=cluster.pk,
        cluster_name=cluster.name,
        node=card.node.name,
        index=card.index,
        uuid=card.uuid,
        model=card.model,
        vram_mib=card.vram_mib,
        slots=card.slots,
        look=look,
        mig=card.mode == Card.Mode.MIG,
        parts=tuple(part for part in parts if part.share > 0),
    )


def _share(card: Card, vram_mib: int, milli: int) -> Fraction:
    """The larger of both shares: what the card can give no one else."""
    return min(Fraction(1), max(Fraction(vram_mib, card.vram_mib), Fraction(milli, card.core_milli)))
