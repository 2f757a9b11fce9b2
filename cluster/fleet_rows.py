"""The rows behind the fleet in memory: nodes and cards as the placement engine sees them, and which rows they are.

Guarantees: one statement, whatever their number; plain columns instead of model instances, since a large fleet is read
again every few minutes, and a node after each claim. Retired nodes and cards and removed clusters are left out. What is kept for somebody who has waited
long (an earmark) counts as used; `Rows.kept` says what and for whom, so that it can be lifted for who may pass.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import OuterRef
from django.db.models.functions import JSONObject
from psycopg import ClientCursor

from cluster.domain import fleet as metal
from cluster.models import Card, Cluster, Earmark, Node, Pool
from gshare_core.kit.rows import prepared

_MILLI_PER_PERCENT = 10
_NODE_COLUMNS = (
    "pk",
    "cluster_id",
    "name",
    "pool_id",
    "is_ready",
    "is_cordoned",
    "is_unschedulable",
    "cpu_milli",
    "memory_mib",
    "scratch_gib",
    "used_cpu_milli",
    "used_memory_mib",
    "used_scratch_gib",
    "cluster__name",
    "cluster__state",
)
_CARD_COLUMNS = (
    "pk",
    "index",
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
_CardRow = namedtuple("_CardRow", _CARD_COLUMNS)  # type: ignore[misc]  # the columns are the fields
_NodeRow = namedtuple("_NodeRow", (*_NODE_COLUMNS, "found", "kept"))  # type: ignore[misc]  # likewise
_KEPT_AMOUNTS = ("vram_mib", "milli", "cpu_milli", "memory_mib", "scratch_gib")
_CARDS = ArraySubquery(
    Card.objects.filter(node=OuterRef("pk"), retired_at=None).values(json=JSONObject(**{n: n for n in _CARD_COLUMNS}))
)
_KEPT = ArraySubquery(
    Earmark.objects.filter(node=OuterRef("pk")).values(
        json=JSONObject(**{n: n for n in ("session_id", "cards", "is_whole", "ready_at", *_KEPT_AMOUNTS)})
    )
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
class Kept:
    """A part of a node that drains towards one session: host figures, and what of which cards (by UUID)."""

    session_id: UUID
    cards: tuple[str, ...]
    whole: bool
    vram_mib: int
    milli: int
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    ready_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Nodes by their name in the fleet, as rows and as the engine sees them, and what is kept on them."""

    seats: dict[str, Seat]
    nodes: dict[str, metal.Node]
    kept: dict[str, tuple[Kept, ...]] = field(default_factory=dict)


def keeping(node: metal.Node, kept: Iterable[Kept], *, sign: int = 1) -> metal.Node:
    """The node with what is kept counted as used (`sign` 1), or no longer (-1). It may be more than is left now."""
    for mark in kept:
        node = replace(
            node,
            used_cpu_milli=node.used_cpu_milli + sign * mark.cpu_milli,
            used_memory_mib=node.used_memory_mib + sign * mark.memory_mib,
            used_scratch_gib=node.used_scratch_gib + sign * mark.scratch_gib,
            cards=tuple(_keeping(card, mark, sign) if card.uuid in mark.cards else card for card in node.cards),
        )
    return node


def _keeping(card: metal.Card, mark: Kept, sign: int) -> metal.Card:
    return replace(
        card,
        used_vram_mib=card.used_vram_mib + sign * (card.vram_mib if mark.whole else mark.vram_mib),
        used_milli=card.used_milli + sign * (card.core_percent * _MILLI_PER_PERCENT if mark.whole else mark.milli),
        used_slots=card.used_slots + sign * (card.slots if mark.whole else 1),
    )


def read_rows(node_ids: Collection[UUID] | None = None) -> Rows:
    """All registered nodes with their cards and what is kept on them, or those among `node_ids` that still are."""
    rows = Rows({}, {})
    with prepared() as cursor:
        cursor.execute(_statement(some=node_ids is not None), None if node_ids is None else [list(node_ids)])
        found: list[Any] = [_NodeRow(*row) for row in cursor.fetchall()]
    for row in found:
        known = (json.loads(card) for card in row.found)
        cards: list[Any] = [_CardRow(*(card[name] for name in _CARD_COLUMNS)) for card in known]
        cards.sort(key=lambda card: (card.index, card.uuid))
        name = f"{row.cluster__name}/{row.name}"
        seats = {card.uuid: CardSeat(UUID(card.pk), card.vram_mib, card.core_milli) for card in cards}
        rows.seats[name] = Seat(row.pk, row.cluster_id, row.name, seats)
        node = _node(name, row, map(_card, cards), ready=row.is_ready and row.cluster__state == Cluster.State.CONNECTED)
        if row.kept:
            kept = sorted((json.loads(mark) for mark in row.kept), key=lambda mark: mark["session_id"])
            marks = tuple(_mark(mark, seats) for mark in kept)
            rows.kept[name] = marks
            node = keeping(node, marks)
        rows.nodes[name] = node
    return rows


@lru_cache(maxsize=2)
def _statement(*, some: bool) -> str:
    """All nodes, or those of a list, with their cards and what is kept as JSON; put together once."""
    nodes = Node.objects.filter(retired_at=None, cluster__removed_at=None).annotate(found=_CARDS, kept=_KEPT)
    sql, parameters = nodes.values_list(*_NODE_COLUMNS, "found", "kept").query.sql_with_params()
    table = connection.ops.quote_name(Node._meta.db_table)
    connection.ensure_connection()
    whole = ClientCursor(connection.connection).mogrify(sql, parameters)
    return f"{whole.replace('%', '%%')} AND {table}.id = ANY((SELECT %s)::uuid[])" if some else whole


def _mark(mark: Mapping[str, Any], seats: Mapping[str, CardSeat]) -> Kept:
    """What is kept; cards that are no more are left out."""
    uuids = {str(seat.pk): uuid for uuid, seat in seats.items()}
    return Kept(
        session_id=UUID(mark["session_id"]),
        cards=tuple(uuids[card] for card in mark["cards"] if card in uuids),
        whole=mark["is_whole"],
        ready_at=datetime.fromisoformat(mark["ready_at"]) if mark["ready_at"] else None,
        **{name: mark[name] for name in _KEPT_AMOUNTS},
    )


def read_tiers() -> dict[UUID, int]:
    """Pools in the order in which they are tried: a group's own, an organisation's, shared ones."""
    tiers = {pool.pk: 2 if pool.is_shared else 1 for pool in Pool.objects.filter(cluster__removed_at=None)}
    for pool_id in Pool.objects.filter(is_shared=False, grants__group__isnull=False).values_list("pk", flat=True):
        tiers[pool_id] = 0
    return tiers


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
        cordoned=row.is_cordoned or row.is_unschedulable,
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
