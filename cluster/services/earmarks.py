"""Keeping a place for a session that has waited long, so that it drains towards it.

Guarantees: a session keeps at most one place; what is kept beside what others keep fits the node (`cluster.domain.earmarks`);
every process learns of it in the same transaction. An earmark takes nothing, so giving it up needs nothing of anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from itertools import starmap
from typing import NamedTuple
from uuid import UUID

from cluster import fleets
from cluster.domain.earmarks import Holding, Reservation, soonest
from cluster.domain.preemption import Choice, Victim, choose
from cluster.domain.requests import Request
from cluster.models import Claim, Earmark
from cluster.sequence import record_change
from gshare_core.kit.locks import Rank, note, ordered

_MICRO_PER_MILLI = 1_000
_COLUMNS = (
    "run_id",
    "session_id",
    "node_id",
    "card__uuid",
    "vram_mib",
    "milli",
    "cpu_milli",
    "memory_mib",
    "scratch_gib",
)


class _Row(NamedTuple):
    """A claim's columns; `card` is the card's UUID, None for one without a card."""

    run_id: UUID
    session_id: UUID
    node_id: UUID
    card: str | None
    vram_mib: int
    milli: int
    cpu_milli: int
    memory_mib: int
    scratch_gib: int


def holdings(
    ends: Mapping[UUID, tuple[datetime, bool] | None], *, of: Collection[UUID] | None = None
) -> dict[str, list[Holding]]:
    """What runs (`of` some sessions, or all) hold, by the fleet's node names; `ends` says by session when it will have given
    it back, and if it must.

    Orphaned claims are left out: nothing says that they ever come back.
    """
    names = {seat.node_id: name for name, seat in fleets.seats().items()}
    claims: dict[UUID, list[_Row]] = defaultdict(list)
    held = Claim.objects.filter(state=Claim.State.OPEN, **({} if of is None else {"session_id__in": list(of)}))
    for row in starmap(_Row, held.order_by("run_id", "id").values_list(*_COLUMNS)):
        claims[row.run_id].append(row)
    found: dict[str, list[Holding]] = defaultdict(list)
    for of_run in claims.values():
        name = names.get(of_run[0].node_id)
        if name is not None:
            found[name].append(_holding(of_run, ends.get(of_run[0].session_id)))
    return found


def keep_place(
    session_id: UUID, request: Request, *, held: Mapping[str, list[Holding]], at: datetime
) -> Reservation | None:
    """Keep the place that will be free first for a waiting session; None when there is none beside what is kept already.

    A place that it keeps already is kept on, with its expected time brought up to date, unless it can no longer hold it.
    Locks NODE, CLUSTER_SEQUENCE.
    """
    seats = fleets.seats()
    mine = Earmark.objects.filter(pk=session_id).first()
    nodes = fleets.unkept(session_id)
    if mine is not None:
        stay = [node for node in nodes if seats[node.name].node_id == mine.node_id]
        kept = soonest(request, stay, held, at)
        if kept is not None:
            keep_this(session_id, request, kept, at=at)
            return kept
    found = soonest(request, nodes, held, at)
    if found is not None:
        _write(session_id, request, found, at)
    elif mine is not None:
        drop_earmark(session_id)
    return found


def keep_this(session_id: UUID, request: Request, place: Reservation, *, at: datetime) -> None:
    """Keep just this place for a waiting session; writes only what is new. Locks NODE, CLUSTER_SEQUENCE."""
    seats = fleets.seats()
    mine = Earmark.objects.filter(pk=session_id).first()
    said = (seats[place.node].node_id, place.ready_at, _pks(place, seats), _leaving(place))
    if mine is None or said != (mine.node_id, mine.ready_at, mine.cards, mine.leaving):
        _write(session_id, request, place, at)


def making_room(
    session_id: UUID,
    request: Request,
    *,
    going: Mapping[UUID, datetime],
    victims: Mapping[UUID, tuple[timedelta, bool]],
) -> Choice | None:
    """Whom of `victims` to ask so that a waiting session fits (`cluster.domain.preemption`). Takes and writes nothing.

    `going` says by session when what ends anyway will have given back; `victims` how long somebody has run, and whether he was
    chosen for this session before.
    """
    leaving = holdings({session: (at, True) for session, at in going.items()}, of=going)
    asked = {
        node: [Victim(held, *victims[held.session]) for held in of_node if held.session is not None and held.cards]
        for node, of_node in holdings({}, of=victims).items()
    }
    return choose(request, fleets.unkept(session_id), going=leaving, victims=asked, kept=fleets.kept_cards(session_id))


def kept_until() -> dict[UUID, datetime | None]:
    """When what is kept for each session must be free."""
    return dict(Earmark.objects.values_list("session_id", "ready_at"))


def drop_earmark(session_id: UUID) -> bool:
    """Give up what is kept for a session. Locks NODE, CLUSTER_SEQUENCE."""
    with ordered():
        mark = Earmark.objects.select_related("node").filter(pk=session_id).first()
        if mark is None:
            return False
        note(Rank.NODE, mark.node_id)
        deleted, _rows = Earmark.objects.filter(pk=session_id).delete()
        record_change(mark.node.cluster_id, mark.node_id)
    return deleted > 0


def drop_earmarks_but(keepers: Collection[UUID]) -> int:
    """Give up what is kept for anybody else; answers for how many."""
    others = Earmark.objects.exclude(pk__in=keepers).order_by("session_id").values_list("session_id", flat=True)
    return sum(drop_earmark(session_id) for session_id in list(others))


def _write(session_id: UUID, request: Request, found: Reservation, at: datetime) -> None:
    seat, ask = fleets.seats()[found.node], request.ask
    with ordered():
        old = Earmark.objects.select_related("node").filter(pk=session_id).first()
        for node_id in sorted({seat.node_id, *([old.node_id] if old else [])}, key=str):
            note(Rank.NODE, node_id)
        Earmark.objects.update_or_create(
            session_id=session_id,
            defaults={
                "node_id": seat.node_id,
                "cards": _pks(found, fleets.seats()),
                "is_whole": ask.whole,
                "vram_mib": ask.vram_mib,
                "milli": ask.core_micro // _MICRO_PER_MILLI,
                "cpu_milli": ask.cpu_milli,
                "memory_mib": ask.memory_mib,
                "scratch_gib": ask.scratch_gib,
                "made_at": old.made_at if old else at,
                "ready_at": found.ready_at,
                "leaving": _leaving(found),
            },
        )
        told: dict[UUID, set[UUID]] = defaultdict(set)
        told[seat.cluster_id].add(seat.node_id)
        if old is not None:
            told[old.node.cluster_id].add(old.node_id)
        for cluster_id in sorted(told, key=str):
            record_change(cluster_id, *told[cluster_id])


def _pks(found: Reservation, seats: Mapping[str, fleets.Seat]) -> list[str]:
    cards = seats[found.node].cards
    return [str(cards[uuid].pk) for uuid in found.cards]


def _leaving(found: Reservation) -> dict[str, str | None]:
    """Who makes way, and when he must have (None: nothing says so)."""
    return {
        str(holding.session): holding.ends_at.isoformat() if holding.ends_at and holding.hard else None
        for holding in found.leaving
    }


def _holding(claims: list[_Row], end: tuple[datetime, bool] | None) -> Holding:
    return Holding(
        cards=tuple(claim.card for claim in claims if claim.card is not None),
        vram_mib=tuple(claim.vram_mib for claim in claims if claim.card is not None),
        milli=tuple(claim.milli for claim in claims if claim.card is not None),
        cpu_milli=sum(claim.cpu_milli for claim in claims),
        memory_mib=sum(claim.memory_mib for claim in claims),
        scratch_gib=sum(claim.scratch_gib for claim in claims),
        ends_at=end[0] if end else None,
        hard=end[1] if end else False,
        session=claims[0].session_id,
    )
