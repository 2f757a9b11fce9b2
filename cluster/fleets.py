"""The fleet of this process: every cluster's nodes in memory, following the rows.

Guarantees: before each answer it has read every change that was committed when the answer was asked for; it reads all
rows at start, every `fleet_reread_period`, and when a counter went back; what this process's own open transaction changed
is answered for, but kept out of what other threads see. Safe for threads. Decisions made on it are only proposals: the
conditional UPDATE of `cluster.services.claims` is the truth, and `reread` mends the picture after it said no.
Node names in it are `<cluster>/<node>`, so that clusters may use the same names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q

from cluster.domain import fleet as metal
from cluster.domain.placement import Fleet
from cluster.domain.requests import NoPlace, Placement, Request
from cluster.models import Card, Cluster, Node, Pool

_MANY_NEW = 16
_MILLI_PER_PERCENT = 10

# One statement tells which clusters there are, how far their counters are, and what changed since.
_FOLLOW = """
    SELECT k.id, coalesce(s.last, 0), c.seq, c.node_id,
           c.transaction = pg_current_xact_id_if_assigned()::text::bigint AS own
    FROM cluster_cluster k
    LEFT JOIN cluster_sequence s ON s.cluster_id = k.id
    LEFT JOIN unnest(%s::uuid[], %s::bigint[]) AS seen (cluster_id, seq) ON seen.cluster_id = k.id
    LEFT JOIN cluster_fleetchange c ON c.cluster_id = k.id AND c.seq > coalesce(seen.seq, 0)
    WHERE k.removed_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class Seat:
    """Which row a node of the fleet is, and which rows its cards are."""

    node_id: UUID
    cluster_id: UUID
    name: str
    cards: Mapping[str, Card]


@dataclass(frozen=True, slots=True)
class Placed:
    """A proposal: the placement and the rows it means."""

    placement: Placement
    seat: Seat


@dataclass
class _View:
    """A fleet with the rows behind its names."""

    fleet: Fleet
    seats: dict[str, Seat]
    nodes: dict[str, metal.Node]
    tiers: dict[UUID, int]

    def place(self, request: Request, *, noted: bool) -> Placed | NoPlace:
        ask = self.fleet.place if noted else self.fleet.look
        for tier in self._tiers(request):
            found = ask(tier)
            ask = self.fleet.look
            if isinstance(found, Placement):
                return Placed(found, self.seats[found.node])
        whole = self.fleet.look(request)
        return whole if isinstance(whole, NoPlace) else Placed(whole, self.seats[whole.node])

    def _tiers(self, request: Request) -> Iterator[Request]:
        """The request for the group's own pools, then the organisation's, then the shared ones."""
        if request.pools is None:
            yield request
            return
        ranks = {pool: self.tiers.get(pool, 0) for pool in request.pools if isinstance(pool, UUID)}
        for rank in sorted(set(ranks.values())):
            yield replace(request, pools=frozenset(pool for pool in ranks if ranks[pool] == rank))


@dataclass
class _Changes:
    """What one look at the change log said."""

    marks: dict[UUID, int] = field(default_factory=dict)
    nodes: set[UUID] = field(default_factory=set)
    everything: bool = False
    own: bool = False


class Follower:
    """One process's fleet; there is one instance, used through the functions below."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._view: _View | None = None
        self._marks: dict[UUID, int] = {}
        self._read_at = 0.0

    @contextmanager
    def current(self) -> Iterator[_View]:
        """The fleet as of now. Reads happen under the lock, so a newer picture is never replaced by an older one."""
        with self._lock:
            changes = self._look()
            if changes.own:
                yield _read_all()
                return
            view = self._view
            aged = time.monotonic() - self._read_at > settings.GSHARE.fleet_reread_period.total_seconds()
            if view is None or aged or changes.everything:
                self._view = view = _merged(view, _rows(Q()))
                self._read_at = time.monotonic()
            elif changes.nodes:
                self._view = view = _refreshed(view, changes.nodes)
            self._marks = changes.marks
            yield view

    def reread(self, node_id: UUID) -> None:
        """Read one node's rows again, whatever the change log says."""
        with self._lock:
            if not self._look().own and self._view is not None:
                self._view = _refreshed(self._view, {node_id})

    def forget(self) -> None:
        """Start anew at the next question."""
        with self._lock:
            self._view, self._marks = None, {}

    def _look(self) -> _Changes:
        seen = list(self._marks.items())
        with connection.cursor() as cursor:
            cursor.execute(_FOLLOW, [[cluster for cluster, _ in seen], [mark for _, mark in seen]])
            rows = cursor.fetchall()
        changes = _Changes()
        for cluster_id, last, seq, node_id, own in rows:
            changes.marks[cluster_id] = last
            changes.everything |= last < self._marks.get(cluster_id, 0) or cluster_id not in self._marks
            if seq is None:
                continue
            changes.own |= bool(own)
            if node_id is None:
                changes.everything = True
            else:
                changes.nodes.add(node_id)
        changes.everything |= self._marks.keys() != changes.marks.keys()
        return changes


_follower = Follower()


def place(request: Request) -> Placed | NoPlace:
    """Where a session would go now; a policy that learns notes that it was asked."""
    with _follower.current() as view:
        return view.place(request, noted=True)


def look(request: Request) -> Placed | NoPlace:
    """The same for previews: not noted as demand."""
    with _follower.current() as view:
        return view.place(request, noted=False)


def snapshot() -> tuple[metal.Node, ...]:
    """Every node with its figures of this moment, by name."""
    with _follower.current() as view:
        return view.fleet.nodes()


def reread(node_id: UUID) -> None:
    """Mend the picture of one node after a proposal on it was refused."""
    _follower.reread(node_id)


def forget() -> None:
    """Drop the picture; it is read again at the next question."""
    _follower.forget()


@dataclass(frozen=True, slots=True)
class _Rows:
    """Nodes as rows and as the fleet sees them."""

    seats: dict[str, Seat]
    nodes: dict[str, metal.Node]


def _rows(condition: Q) -> _Rows:
    found = Node.objects.filter(condition, retired_at=None, cluster__removed_at=None).select_related("cluster")
    nodes = list(found)
    cards: dict[UUID, list[Card]] = {node.pk: [] for node in nodes}
    wanted = Card.objects.filter(retired_at=None).order_by("node_id", "index", "uuid")
    wanted = wanted.filter(node__retired_at=None) if not condition else wanted.filter(node_id__in=cards)
    for card in wanted:
        cards.get(card.node_id, []).append(card)
    rows = _Rows({}, {})
    for node in nodes:
        name = f"{node.cluster.name}/{node.name}"
        rows.seats[name] = Seat(node.pk, node.cluster_id, node.name, {card.uuid: card for card in cards[node.pk]})
        rows.nodes[name] = _node(name, node, cards[node.pk])
    return rows


def _node(name: str, node: Node, cards: Iterable[Card]) -> metal.Node:
    return metal.Node(
        name=name,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        scratch_gib=node.scratch_gib,
        used_cpu_milli=node.used_cpu_milli,
        used_memory_mib=node.used_memory_mib,
        used_scratch_gib=node.used_scratch_gib,
        pool=node.pool_id,
        ready=node.is_ready and node.cluster.state == Cluster.State.CONNECTED,
        cordoned=node.is_cordoned,
        cards=tuple(_card(card) for card in cards),
    )


def _card(card: Card) -> metal.Card:
    return metal.Card(
        uuid=card.uuid,
        model=card.model,
        vram_mib=card.vram_mib,
        core_percent=card.core_milli // _MILLI_PER_PERCENT,
        slots=card.slots,
        used_vram_mib=card.used_vram_mib,
        used_milli=card.used_milli,
        used_slots=card.used_slots,
        foreign_vram_mib=card.foreign_vram_mib,
        foreign_milli=card.foreign_milli,
        foreign_slots=card.foreign_slots,
        ready=card.missing_since is None and not card.is_draining,
        healthy=card.is_healthy,
        mode=card.mode,
    )


def _tiers() -> dict[UUID, int]:
    """Pools in the order in which they are tried: a group's own, an organisation's, shared ones."""
    tiers = {pool.pk: 2 if pool.is_shared else 1 for pool in Pool.objects.filter(cluster__removed_at=None)}
    for pool_id in Pool.objects.filter(is_shared=False, grants__group__isnull=False).values_list("pk", flat=True):
        tiers[pool_id] = 0
    return tiers


def _read_all() -> _View:
    rows = _rows(Q())
    return _View(Fleet(rows.nodes.values()), rows.seats, rows.nodes, _tiers())


def _merged(view: _View | None, rows: _Rows) -> _View:
    """The view with what was read put in: kept where little changed, so that what its policy learned stays."""
    if view is None or len(rows.nodes.keys() - view.nodes.keys()) > _MANY_NEW:
        return _View(Fleet(rows.nodes.values()), rows.seats, rows.nodes, _tiers())
    for name in sorted(view.nodes.keys() - rows.nodes.keys()):
        view.fleet.remove_node(name)
    for name, node in rows.nodes.items():
        if view.nodes.get(name) != node:
            view.fleet.update_node(node)
    view.nodes, view.seats, view.tiers = rows.nodes, rows.seats, _tiers()
    return view


def _refreshed(view: _View, node_ids: set[UUID]) -> _View:
    """The view after reading these nodes again; those that are no more leave it."""
    rows = _rows(Q(pk__in=node_ids))
    kept = [name for name, seat in view.seats.items() if seat.node_id not in node_ids]
    seats = {name: view.seats[name] for name in kept} | rows.seats
    nodes = {name: view.nodes[name] for name in kept} | rows.nodes
    return _merged(view, _Rows(seats, nodes))
