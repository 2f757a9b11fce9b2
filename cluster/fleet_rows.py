"""The rows behind the fleet in memory: nodes and cards as the placement engine sees them, and which rows they are.

Guarantees: three statements, whatever their number; plain columns instead of model instances, since a large fleet is read
again every few minutes. Retired nodes and cards and removed clusters are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cluster.domain import fleet as metal
from cluster.models import Card, Cluster, Node, Pool

_MILLI_PER_PERCENT = 10
_NODE_COLUMNS = (
    "pk",
    "cluster_id",
    "name",
    "pool_id",
    "is_ready",
    "is_cordoned",
    "cpu_milli",
    "memory_mib",
    "scratch_gib",
    "used_cpu_milli",
    "used_memory_mib",
    "used_scratch_gib",
)
_CARD_COLUMNS = (
    "node_id",
    "pk",
    "uuid",
    "model",
    "mode",
    "vram_mib",
    "core_milli",
    "slots",
    "used_vram_mib",
    "used_milli",
    "used_slots",
    "foreign_vram_mib",
    "foreign_milli",
    "foreign_slots",
    "is_healthy",
    "is_draining",
    "missing_since",
)


@dataclass(frozen=True, slots=True)
class CardSeat:
    """Which row a card is, and its whole as it was when it was read."""

    pk: UUID
    vram_mib: int
    core_milli: int


@dataclass(frozen=True, slots=True)
class Seat:
    """Which row a node of the fleet is, and which rows its cards are."""

    node_id: UUID
    cluster_id: UUID
    name: str
    cards: Mapping[str, CardSeat]


@dataclass(frozen=True, slots=True)
class Rows:
    """Nodes by their name in the fleet, as rows and as the engine sees them."""

    seats: dict[str, Seat]
    nodes: dict[str, metal.Node]


def read_rows(node_ids: Collection[UUID] | None = None) -> Rows:
    """All registered nodes with their cards, or those among `node_ids` that still are."""
    clusters = {pk: (name, state) for pk, name, state in _clusters()}
    nodes = Node.objects.filter(retired_at=None, cluster__in=clusters)
    cards = Card.objects.filter(retired_at=None)
    if node_ids is not None:
        nodes, cards = nodes.filter(pk__in=node_ids), cards.filter(node_id__in=node_ids)
    seats: dict[UUID, dict[str, CardSeat]] = {}
    found: dict[UUID, list[metal.Card]] = {}
    for row in cards.order_by("node_id", "index", "uuid").values_list(*_CARD_COLUMNS, named=True):
        seats.setdefault(row.node_id, {})[row.uuid] = CardSeat(row.pk, row.vram_mib, row.core_milli)
        found.setdefault(row.node_id, []).append(_card(row))
    rows = Rows({}, {})
    for row in nodes.values_list(*_NODE_COLUMNS, named=True):
        cluster, state = clusters[row.cluster_id]
        name = f"{cluster}/{row.name}"
        rows.seats[name] = Seat(row.pk, row.cluster_id, row.name, seats.get(row.pk, {}))
        ready = row.is_ready and state == Cluster.State.CONNECTED
        rows.nodes[name] = _node(name, row, found.get(row.pk, ()), ready=ready)
    return rows


def read_tiers() -> dict[UUID, int]:
    """Pools in the order in which they are tried: a group's own, an organisation's, shared ones."""
    tiers = {pool.pk: 2 if pool.is_shared else 1 for pool in Pool.objects.filter(cluster__removed_at=None)}
    for pool_id in Pool.objects.filter(is_shared=False, grants__group__isnull=False).values_list("pk", flat=True):
        tiers[pool_id] = 0
    return tiers


def _clusters() -> Iterable[tuple[UUID, str, str]]:
    return Cluster.objects.present().values_list("pk", "name", "state")


def _node(name: str, row: Any, cards: Iterable[metal.Card], *, ready: bool) -> metal.Node:
    return metal.Node(
        name=name,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        scratch_gib=row.scratch_gib,
        used_cpu_milli=row.used_cpu_milli,
        used_memory_mib=row.used_memory_mib,
        used_scratch_gib=row.used_scratch_gib,
        pool=row.pool_id,
        ready=ready,
        cordoned=row.is_cordoned,
        cards=tuple(cards),
    )


def _card(row: Any) -> metal.Card:
    return metal.Card(
        uuid=row.uuid,
        model=row.model,
        vram_mib=row.vram_mib,
        core_percent=row.core_milli // _MILLI_PER_PERCENT,
        slots=row.slots,
        used_vram_mib=row.used_vram_mib,
        used_milli=row.used_milli,
        used_slots=row.used_slots,
        foreign_vram_mib=row.foreign_vram_mib,
        foreign_milli=row.foreign_milli,
        foreign_slots=row.foreign_slots,
        ready=row.missing_since is None and not row.is_draining,
        healthy=row.is_healthy,
        mode=row.mode,
    )
