"""The fleet of this process: every cluster's nodes in memory, following the rows.

Guarantees: before each answer it has read every change that was committed when the answer was asked for; it reads all
rows at start, every `fleet_reread_period`, and when a counter went back; what this process's own open transaction changed
is answered for, but kept out of what other threads see. Safe for threads. Decisions made on it are only proposals: the
conditional UPDATE of `cluster.services.claims` is the truth, and `reread` mends the picture after it said no.
Node names in it are `<cluster>/<node>`, so that clusters may use the same names. What is kept for somebody who has waited
long counts as used, except for himself and for who must have ended before it is ready (`Passage`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from django.conf import settings

from cluster.domain import fleet as metal
from cluster.domain.placement import Fleet
from cluster.domain.requests import NoPlace, Placement, Request
from cluster.fleet_rows import Kept, Rows, Seat, keeping, read_rows, read_tiers
from gshare_core.kit.rows import prepared

_MANY_NEW = 16

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
class Placed:
    """A proposal: the placement and the rows it means."""

    placement: Placement
    seat: Seat


@dataclass(frozen=True, slots=True)
class Passage:
    """Who asks, where something is kept for somebody: his session, and when it must have ended (None: nothing says so)."""

    session_id: UUID | None = None
    ends_by: datetime | None = None

    def lifts(self, mark: Kept) -> bool:
        """Whether the mark does not bind him: it is his own, or he is gone before it is ready."""
        if mark.session_id == self.session_id:
            return True
        return mark.ready_at is not None and self.ends_by is not None and self.ends_by <= mark.ready_at


@dataclass
class _View:
    """A fleet with the rows behind its names."""

    fleet: Fleet
    seats: dict[str, Seat]
    nodes: dict[str, metal.Node]
    tiers: dict[UUID, int]
    kept: dict[str, tuple[Kept, ...]]

    def place(self, request: Request, passage: Passage | None, *, noted: bool) -> Placed | NoPlace:
        found = self.find(request, passage, noted=noted)
        whole = self.fleet.look(request) if found is None else found
        return whole if isinstance(whole, NoPlace) else Placed(whole, self.seats[whole.node])

    def find(self, request: Request, passage: Passage | None, *, noted: bool) -> Placement | None:
        """The same for who does not ask why not."""
        for tier in self._tiers(request):
            if noted:
                self.fleet.note(tier)
                noted = False
            found = self.fleet.find(tier)
            if found is not None:
                return found
        return self._pass(request, passage) if passage is not None and self.kept else None

    def _pass(self, request: Request, passage: Passage) -> Placement | None:
        """A place among what is kept for others, for who does not delay them, or for himself."""
        lifted = {
            name: tuple(mark for mark in marks if passage.lifts(mark)) for name, marks in sorted(self.kept.items())
        }
        nodes = [keeping(self.fleet.node(name), marks, sign=-1) for name, marks in lifted.items() if marks]
        return self.fleet.sibling(nodes).find(request) if nodes else None

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
            pin = _pin.get()
            if pin is not None and pin.followed and self._view is not None:
                yield self._view
                return
            changes = self._look()
            if changes.own:
                yield _anew(read_rows())
                return
            view = self._view
            aged = time.monotonic() - self._read_at > settings.GSHARE.fleet_reread_period.total_seconds()
            if view is None or aged or changes.everything:
                self._view = view = _all_read(view)
                self._read_at = time.monotonic()
            elif changes.nodes:
                self._view = view = _some_read(view, changes.nodes)
            self._marks = changes.marks
            if pin is not None:
                pin.followed = True
            yield view

    def reread(self, node_id: UUID) -> None:
        """Read one node's rows again, whatever the change log says."""
        with self._lock:
            if not self._look().own and self._view is not None:
                self._view = _some_read(self._view, {node_id})

    def forget(self) -> None:
        """Start anew at the next question."""
        with self._lock:
            self._view, self._marks = None, {}

    def _look(self) -> _Changes:
        seen = list(self._marks.items())
        with prepared() as cursor:
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


@dataclass
class _Pin:
    """Whether a block that asks several times has followed the rows once."""

    followed: bool = False


_pin: ContextVar[_Pin | None] = ContextVar("fleet_pin", default=None)


@contextmanager
def one_picture() -> Iterator[None]:
    """Within the block the rows are followed once, at the first question: for previews that ask many. Writes nothing."""
    token = _pin.set(_Pin())
    try:
        yield
    finally:
        _pin.reset(token)


_follower = Follower()


def place(request: Request, passage: Passage | None = None) -> Placed | NoPlace:
    """Where a session would go now; a policy that learns notes that it was asked."""
    return place_in_turn([(request, passage)], noted=True)[0]


def place_in_turn(wishes: Sequence[tuple[Request, Passage | None]], *, noted: bool) -> list[Placed | NoPlace]:
    """Where several would go, each beside what those before it would take; ends with the first that finds no place.

    It also ends, without a word on who comes after, with one that goes where something is kept.
    """
    found: list[Placed | NoPlace] = []
    with _follower.current() as view, view.fleet.supposing() as suppose:
        for request, passage in wishes:
            found.append(one := view.place(request, passage, noted=noted))
            if isinstance(one, NoPlace) or not suppose(one.placement):
                break
    return found


def look(request: Request, passage: Passage | None = None) -> Placed | NoPlace:
    """The same for previews: not noted as demand."""
    with _follower.current() as view:
        return view.place(request, passage, noted=False)


def fits(request: Request, passage: Passage | None = None) -> bool:
    """Whether there is a place now, for who does not ask which, nor why not; not noted as demand."""
    with _follower.current() as view:
        return view.find(request, passage, noted=False) is not None


def snapshot() -> tuple[metal.Node, ...]:
    """Every node with its figures of this moment, by name; what is kept for somebody counts as used."""
    with _follower.current() as view:
        return tuple(view.nodes[name] for name in sorted(view.nodes))


def unkept(session_id: UUID | None = None) -> tuple[metal.Node, ...]:
    """The same with what is kept for this session, or for anybody, counted as left."""
    with _follower.current() as view:
        found = dict(view.nodes)
        for name, marks in view.kept.items():
            lifted = [mark for mark in marks if session_id in {None, mark.session_id}]
            found[name] = keeping(found[name], lifted, sign=-1)
        return tuple(found[name] for name in sorted(found))


def kept_cards(session_id: UUID) -> tuple[str, ...]:
    """The cards that are kept for a session."""
    with _follower.current() as view:
        marks = [mark for of_node in view.kept.values() for mark in of_node if mark.session_id == session_id]
    return marks[0].cards if marks else ()


def seats() -> dict[str, Seat]:
    """The rows behind the names of `snapshot`."""
    with _follower.current() as view:
        return dict(view.seats)


def reread(node_id: UUID) -> None:
    """Mend the picture of one node after a proposal on it was refused."""
    _follower.reread(node_id)


def forget() -> None:
    """Drop the picture; it is read again at the next question."""
    _follower.forget()


def _anew(rows: Rows) -> _View:
    return _View(Fleet(rows.nodes.values()), rows.seats, rows.nodes, read_tiers(), rows.kept)


def _put_in(view: _View, rows: Rows, gone: Iterable[str]) -> None:
    """Bring a view up to date in place, so that what its policy learned stays."""
    for name in gone:
        view.fleet.remove_node(name)
        del view.nodes[name], view.seats[name]
        view.kept.pop(name, None)
    for name, node in rows.nodes.items():
        view.kept.pop(name, None)
        if view.nodes.get(name) != node:
            view.fleet.update_node(node)
            view.nodes[name] = node
    view.seats.update(rows.seats)
    view.kept.update(rows.kept)


def _all_read(view: _View | None) -> _View:
    """The view after reading every row again; built anew when much is new, since adding one by one costs more."""
    rows = read_rows()
    if view is None or len(rows.nodes.keys() - view.nodes.keys()) > _MANY_NEW:
        return _anew(rows)
    _put_in(view, rows, sorted(view.nodes.keys() - rows.nodes.keys()))
    view.tiers = read_tiers()
    return view


def _some_read(view: _View, node_ids: set[UUID]) -> _View:
    """The view after reading these nodes again; those that are no more leave it."""
    rows = read_rows(node_ids)
    if len(rows.nodes.keys() - view.nodes.keys()) > _MANY_NEW:
        return _all_read(None)
    known = [name for name, seat in view.seats.items() if seat.node_id in node_ids]
    _put_in(view, rows, sorted(set(known) - rows.nodes.keys()))
    return view
