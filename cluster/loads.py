"""What sits on every card: for pictures and counts, in a constant number of queries.

Guarantees: parts are in the order in which they were claimed, shares are exact, and what foreign pods use is one part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef
from django.db.models.functions import JSONObject

from cluster.models import Card, Claim, Cluster, Earmark, ModeChange
from cluster.pools import KnownPools, PoolRow, grants, pool_row


@dataclass(frozen=True, slots=True)
class Part:
    """One holder of a part of a card; `session_id` None for pods that are not ours."""

    session_id: UUID | None
    run_id: UUID | None
    share: Fraction
    orphaned: bool = False
    vram_mib: int = 0


@dataclass(frozen=True, slots=True)
class Recut:
    """How a card shall be cut, and how far that is, in words for people."""

    target: str
    state: str


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What a card's node has beside cards, as its cluster says it may be given out, and what claims hold of it."""

    cpu_milli: int
    cpu_taken_milli: int
    memory_mib: int
    memory_taken_mib: int


@dataclass(frozen=True, slots=True)
class CardLoad:
    """A card, what it carries and the pool of its node. `look`: ready, draining, silent; `recut` while its mode changes."""

    card_id: UUID
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
    pool: PoolRow | None
    host: HostLoad
    recut: Recut | None = None

    @property
    def free(self) -> Fraction:
        """What is left of it."""
        return 1 - sum((part.share for part in self.parts), Fraction(0))


def card_loads(*, cards: Collection[UUID] | None = None, uuids: Collection[str] | None = None) -> list[CardLoad]:
    """Every registered card (of `cards`, or those the cluster calls `uuids`, if given), by cluster, node and index.

    One statement, whose rows stay rows: thousands of cards are on a page, and as many model instances took longer than it.
    """
    found = Card.objects.filter(retired_at=None, node__retired_at=None, node__cluster__removed_at=None)
    if cards is not None:
        found = found.filter(pk__in=cards)
    if uuids is not None:
        found = found.filter(uuid__in=uuids)
    claims = Claim.objects.holding().filter(card=OuterRef("pk")).order_by("id")
    parts = JSONObject(session="session_id", run="run_id", vram="vram_mib", milli="milli", state="state")
    changes = ModeChange.objects.filter(node=OuterRef("node"), closed_at=None)
    rows = found.annotate(
        held=ArraySubquery(claims.values(json=parts)),
        granted=grants("node__pool"),
        changing=ArraySubquery(changes.values(json=JSONObject(target="target", state="state"))),
    )
    pools: dict[UUID, PoolRow] = {}
    ordered = rows.order_by("node__cluster__name", "node__name", "index", "uuid")
    return [_load(_Row(*row), pools) for row in ordered.values_list(*_COLUMNS)]


def pools_of(loads: Iterable[CardLoad]) -> KnownPools:
    """The pools of these cards, for who has no other question about pools."""
    return KnownPools(tuple({load.pool.id: load.pool for load in loads if load.pool is not None}.values()))


def usable(loads: Iterable[CardLoad], pools: Collection[UUID], own: Collection[UUID]) -> list[CardLoad]:
    """The cards of these pools, and those that carry somebody's own sessions."""
    return [
        load
        for load in loads
        if (load.pool is not None and load.pool.id in pools) or any(part.session_id in own for part in load.parts)
    ]


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """What is kept for a waiting session: where, from when, and who makes way (None: nothing says when)."""

    node: str
    cards: tuple[UUID, ...]
    ready_at: datetime | None
    leaving: Mapping[UUID, datetime | None]


def kept_places(session_ids: Collection[UUID]) -> dict[UUID, KeptPlace]:
    """What is kept for each of these sessions. One statement."""
    return {
        mark.session_id: KeptPlace(
            mark.node.name,
            tuple(UUID(card) for card in mark.cards),
            mark.ready_at,
            {UUID(key): datetime.fromisoformat(at) if at else None for key, at in mark.leaving.items()},
        )
        for mark in Earmark.objects.filter(pk__in=session_ids).select_related("node")
    }


_COLUMNS = (
    "id",
    "uuid",
    "index",
    "model",
    "vram_mib",
    "core_milli",
    "slots",
    "mode",
    "is_draining",
    "foreign_vram_mib",
    "foreign_milli",
    "held",
    "changing",
    "node__cpu_milli",
    "node__used_cpu_milli",
    "node__memory_mib",
    "node__used_memory_mib",
    "node__name",
    "node__is_ready",
    "node__is_cordoned",
    "node__is_unschedulable",
    "node__cluster_id",
    "node__cluster__name",
    "node__cluster__state",
    "node__pool_id",
    "node__pool__cluster_id",
    "node__pool__is_shared",
    "granted",
)


class _Row(NamedTuple):
    """A card as `_COLUMNS` tells it."""

    id: UUID
    uuid: str
    place: int
    model: str
    vram_mib: int
    core_milli: int
    slots: int
    mode: str
    is_draining: bool
    foreign_vram_mib: int
    foreign_milli: int
    held: list[dict[str, Any]]
    changing: list[dict[str, str]]
    cpu_milli: int
    used_cpu_milli: int
    memory_mib: int
    used_memory_mib: int
    node: str
    node_is_ready: bool
    node_is_cordoned: bool
    node_is_unschedulable: bool
    cluster_id: UUID
    cluster: str
    cluster_state: str
    pool_id: UUID | None
    pool_cluster_id: UUID | None
    pool_is_shared: bool | None
    granted: list[dict[str, str | None]]


def _load(card: _Row, pools: dict[UUID, PoolRow]) -> CardLoad:
    parts = [
        Part(
            UUID(claim["session"]),
            UUID(claim["run"]),
            _share(card, claim["vram"], claim["milli"]),
            claim["state"] == Claim.State.ORPHANED,
            claim["vram"],
        )
        for claim in card.held
    ]
    if card.foreign_vram_mib or card.foreign_milli:
        foreign = _share(card, card.foreign_vram_mib, card.foreign_milli)
        parts.append(Part(None, None, min(foreign, 1 - sum((part.share for part in parts), Fraction(0)))))
    silent = card.cluster_state != Cluster.State.CONNECTED or not card.node_is_ready
    closed = card.is_draining or card.node_is_cordoned or card.node_is_unschedulable
    look = "silent" if silent else "draining" if closed else "ready"
    return CardLoad(
        card_id=card.id,
        cluster_id=card.cluster_id,
        cluster_name=card.cluster,
        node=card.node,
        index=card.place,
        uuid=card.uuid,
        model=card.model,
        vram_mib=card.vram_mib,
        slots=card.slots,
        look=look,
        mig=card.mode == Card.Mode.MIG,
        parts=tuple(part for part in parts if part.share > 0),
        pool=_pool(card, pools),
        host=HostLoad(card.cpu_milli, card.used_cpu_milli, card.memory_mib, card.used_memory_mib),
        recut=_recut(card.changing),
    )


def _pool(card: _Row, pools: dict[UUID, PoolRow]) -> PoolRow | None:
    """The card's pool, made once for all of its cards."""
    if card.pool_id is None:
        return None
    if card.pool_id not in pools:
        assert card.pool_cluster_id is not None
        pools[card.pool_id] = pool_row(card.pool_id, card.pool_cluster_id, bool(card.pool_is_shared), card.granted)
    return pools[card.pool_id]


def _recut(changing: list[dict[str, str]]) -> Recut | None:
    for change in changing:
        target, state = ModeChange.Target(change["target"]), ModeChange.State(change["state"])
        return Recut(str(target.label), str(state.label))
    return None


def _share(card: _Row, vram_mib: int, milli: int) -> Fraction:
    """The larger of both shares: what the card can give no one else."""
    return min(Fraction(1), max(Fraction(vram_mib, card.vram_mib), Fraction(milli, card.core_milli)))
