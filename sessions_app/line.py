"""The line's rows: joining it, reading it in order, and whether somebody in it would fit now.

Guarantees: `in_order` is the one order of the line, over all lanes, read only as far as it is followed; an index serves each
lane and shape. Whoever joins later never stands before an equal who joined sooner.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import count
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q

from cluster import services as cluster
from cluster.domain.placement import Request
from cluster.domain.shapes import Shape
from gshare_core.kit import clock, live, locks
from gshare_core.kit.rows import insert, prepared
from sessions_app import plans, recent_use
from sessions_app.domain import queue as rules
from sessions_app.domain.queue import Bucket, Waiting
from sessions_app.models import QueueEntry, Session

# Reasons that are the metal's: the newest look at the lane and shape says more than the entry's own row.
OF_METAL = frozenset({"not_now", "never", "in_line", "start_failed"})
# Reasons that hold for all of one person and group that are alike.
OF_LIMITS = frozenset({"quota_exceeded", "budget_exceeded"})
_CHUNK = 50
_COLUMNS = (
    "session_id",
    "lane",
    "shape",
    "priority",
    "order_at",
    "enqueued_at",
    "session__owner_id",
    "session__group_id",
    "reason",
)

# A loose index scan: one step a lane and shape, however many wait in it.
_BUCKETS = """
    WITH RECURSIVE bucket AS (
        (SELECT lane, shape FROM sessions_app_queueentry WHERE lane >= %(from)s AND lane <= %(to)s
         ORDER BY lane, shape LIMIT 1)
        UNION ALL
        SELECT next.lane, next.shape FROM bucket
        CROSS JOIN LATERAL (
            SELECT lane, shape FROM sessions_app_queueentry
            WHERE (lane, shape) > (bucket.lane, bucket.shape) AND lane <= %(to)s
            ORDER BY lane, shape LIMIT 1
        ) next
    )
    SELECT lane, shape FROM bucket
"""
_HEADS = f"""
    SELECT session.id, session.mode, session.cards, session.vram_mib, session.core_milli, session.core_percent,
        session.occupancy_numerator, session.occupancy_denominator, session.cpu_milli, session.memory_mib, session.scratch_gib
    FROM ({_BUCKETS}) bucket
    CROSS JOIN LATERAL (
        SELECT session_id FROM sessions_app_queueentry entry
        WHERE entry.lane = bucket.lane AND entry.shape = bucket.shape
        ORDER BY entry.priority DESC, entry.order_at, entry.session_id LIMIT 1
    ) head
    JOIN sessions_app_session session ON session.id = head.session_id
"""  # noqa: S608 -- no outside text
_LOOK = """
    INSERT INTO sessions_app_lanelook AS known (lane, shape, reason, detail, missing, looked_at)
    VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (lane, shape) DO UPDATE SET reason = excluded.reason, detail = excluded.detail, missing = excluded.missing,
        looked_at = excluded.looked_at
    WHERE (known.reason, known.detail, known.missing) IS DISTINCT FROM (excluded.reason, excluded.detail, excluded.missing)
"""
_LAST_TEXT = "\U0010ffff"


def shape_key(session: Session | Shape, *, runtime_min: int) -> str:
    """A short text that is the same for requests that are alike, also in how long they may last."""
    return ":".join(
        str(part)
        for part in (
            session.mode,
            session.cards,
            session.vram_mib,
            session.core_milli,
            session.cpu_milli,
            session.memory_mib,
            session.scratch_gib,
            runtime_min,
        )
    )


@dataclass(frozen=True, slots=True)
class Joining:
    """A session that goes into a lane; `why` has its reason, detail and missing; `penalty` is read when left out."""

    session: Session
    bucket: Bucket
    why: Mapping[str, Any]
    penalty: timedelta | None = None


def whose(session: Session) -> tuple[UUID, UUID]:
    """The person and group whose recent use decides about a session's place."""
    return session.owner_id, session.group_id


def join(*new: Joining, place: datetime) -> None:
    """Put sessions in line at the place of `place`."""
    unread = {whose(one.session) for one in new if one.penalty is None}
    penalties = recent_use.penalties(sorted(unread), at=place) if unread else {}
    entries = [
        QueueEntry(
            session=one.session,
            lane=one.bucket.lane,
            shape=one.bucket.shape,
            priority=one.session.priority,
            enqueued_at=place,
            order_at=place + (penalties[whose(one.session)] if one.penalty is None else one.penalty),
            **one.why,
        )
        for one in new
    ]
    insert(*entries)


def buckets(lane: str | None = None) -> list[Bucket]:
    """The lanes and shapes that somebody waits in, in a stable order; of one lane, or of all."""
    with connection.cursor() as cursor:
        cursor.execute(_BUCKETS, {"from": lane or "", "to": lane or _LAST_TEXT})
        return [Bucket(*row) for row in cursor.fetchall()]


def in_order(following: rules.Pass) -> Iterator[Waiting]:
    """Everybody in line, first come first; buckets that the pass has done with are not read on."""
    return rules.in_order([_of_bucket(bucket, following) for bucket in buckets()])


def someone_fits(lane: str, like: Request) -> bool:
    """Whether somebody in this lane would find room now: then nobody may pass. `like` has the lane's models and pools."""
    with prepared() as cursor:
        cursor.execute(_HEADS, {"from": lane, "to": lane})
        heads = [
            (session, Shape(mode, cards, vram, milli, percent, Fraction(parts, of), cpu, memory, scratch))
            for session, mode, cards, vram, milli, percent, parts, of, cpu, memory, scratch in cursor.fetchall()
        ]
    return any(_fits(session, shape, like) for session, shape in heads)


@dataclass(frozen=True, slots=True)
class Front:
    """A lane as who would join it sees it: how many wait, when the last of them will start, who is first of each shape."""

    waiting: int = 0
    last_estimate_at: datetime | None = None
    heads: tuple[Session, ...] = ()

    def fits(self, like: Request) -> bool:
        """Whether one of the first would find room now: then nobody may pass. `like` has the lane's models and pools."""
        return any(_fits(head.pk, plans.shape_of(head), like) for head in self.heads)


_FRONTS = """
    SELECT session.*, bucket.lane AS in_lane, bucket.many, bucket.last_estimate, bucket.unknown
    FROM (
        SELECT lane, shape, count(*) AS many, max(estimate_at) AS last_estimate, bool_or(estimate_at IS NULL) AS unknown
        FROM sessions_app_queueentry GROUP BY lane, shape
    ) bucket
    CROSS JOIN LATERAL (
        SELECT session_id FROM sessions_app_queueentry entry
        WHERE entry.lane = bucket.lane AND entry.shape = bucket.shape
        ORDER BY entry.priority DESC, entry.order_at, entry.session_id LIMIT 1
    ) head
    JOIN sessions_app_session session ON session.id = head.session_id
"""


def fronts() -> dict[str, Front]:
    """Every lane that somebody waits in. One statement."""
    found: dict[str, Front] = {}
    unknown: set[str] = set()
    head: Any
    for head in Session.objects.raw(_FRONTS):
        lane, known = head.in_lane, found.get(head.in_lane, Front())
        unknown |= {lane} if head.unknown else set()
        estimates = [at for at in (known.last_estimate_at, head.last_estimate) if at is not None]
        found[lane] = Front(known.waiting + head.many, max(estimates, default=None), (*known.heads, head))
    return {lane: replace(front, last_estimate_at=None) if lane in unknown else front for lane, front in found.items()}


def _fits(session: UUID, shape: Shape, like: Request) -> bool:
    request = Request.for_shape(shape, models=like.models, pools=like.pools)
    return cluster.fits(request, cluster.Passage(session))


def note_look(bucket: Bucket, why: dict[str, Any]) -> None:
    """Keep why a lane and shape finds no room, for all who wait in it. One statement, which writes only what is new."""
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, [*bucket, why["reason"], why["detail"], json.dumps(why["missing"]), clock.now()])


def forget_looks() -> int:
    """Drop the looks at lanes and shapes that nobody waits in any more; answers how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM sessions_app_lanelook look WHERE NOT EXISTS (SELECT 1 FROM sessions_app_queueentry entry"
            " WHERE entry.lane = look.lane AND entry.shape = look.shape)"
        )
        dropped: int = cursor.rowcount
    return dropped


_SUM_UP = """
    WITH gone AS (
        DELETE FROM sessions_app_lanetally WHERE id IN (
            SELECT id FROM sessions_app_lanetally WHERE lane IN (
                SELECT lane FROM sessions_app_lanetally GROUP BY lane HAVING count(*) > %s
            ) FOR UPDATE SKIP LOCKED
        ) RETURNING lane, change
    )
    INSERT INTO sessions_app_lanetally (lane, change) SELECT lane, sum(change) FROM gone GROUP BY lane HAVING sum(change) <> 0
"""
_TALLIES = 32


def sum_up() -> None:
    """Make one row of many in each lane's tally; whoever reads meanwhile sees the rows or their sum."""
    with connection.cursor() as cursor:
        cursor.execute(_SUM_UP, [_TALLIES])


_TALLY_ANEW = """
    WITH told AS (
        SELECT lane, sum(change) AS change FROM (
            SELECT lane, change FROM sessions_app_lanetally UNION ALL SELECT lane, -1 FROM sessions_app_queueentry
        ) both_sides GROUP BY lane
    )
    INSERT INTO sessions_app_lanetally (lane, change) SELECT lane, -change FROM told WHERE change <> 0
"""


def tally_anew() -> None:
    """Add to each lane's tally what it is off by; one statement sees line and tally alike, so traffic changes nothing.

    One at a time: two who saw the same would both put it right.
    """
    with locks.ordered():
        locks.lock_name(locks.Rank.LANE, "tallies")
        with connection.cursor() as cursor:
            cursor.execute(_TALLY_ANEW)


def _rows(bucket: Bucket) -> Any:
    return QueueEntry.objects.filter(lane=bucket.lane, shape=bucket.shape).order_by(
        "-priority", "order_at", "session_id"
    )


def _of_bucket(bucket: Bucket, following: rules.Pass) -> Iterator[Waiting]:
    last: Waiting | None = None
    for _page in count():
        rows = _rows(bucket)
        if last is not None:
            rows = rows.filter(_after(last))
        page = [_waiting(row) for row in rows.values_list(*_COLUMNS)[:_CHUNK]]
        for entry in page:
            if bucket in following.dead:
                return
            yield entry
        if len(page) < _CHUNK:
            return
        last = page[-1]


def _after(entry: Waiting) -> Q:
    behind = Q(order_at__gt=entry.order_at) | Q(order_at=entry.order_at, session_id__gt=entry.session)
    return Q(priority__lt=entry.priority) | (Q(priority=entry.priority) & behind)


def _waiting(row: tuple[Any, ...]) -> Waiting:
    session, lane, shape, priority, order_at, enqueued_at, owner, group, reason = row
    return Waiting(session, Bucket(lane, shape), priority, order_at, enqueued_at, (owner, group), reason)


def tell(session_ids: Collection[UUID]) -> None:
    """Poke who may be watching these in line: place or estimate changed. One statement, none for nobody."""
    if not session_ids:
        return
    found = Session.objects.filter(pk__in=session_ids).values_list("owner_id", "organisation_id")
    watchers = {str(key) for pair in found for key in (pair[0], f"organisation:{pair[1]}")}
    for kind in ("sessions", "queue"):
        for watcher in sorted({*watchers, "all"}):
            live.poke(f"{kind}:{watcher}")


@dataclass(frozen=True, slots=True)
class Ahead:
    """One of the first in a lane, as who stands behind him may know him: what he asks for, not who he is."""

    session: UUID
    tier: str
    cards: int


_FIRST = """
    SELECT lanes.lane, first.session_id, s.tier, s.cards
    FROM unnest(%s::text[]) AS lanes (lane)
    CROSS JOIN LATERAL (
        SELECT session_id, priority, order_at FROM sessions_app_queueentry WHERE lane = lanes.lane
        ORDER BY priority DESC, order_at, session_id LIMIT %s
    ) first
    JOIN sessions_app_session s ON s.id = first.session_id
    ORDER BY lanes.lane, first.priority DESC, first.order_at, first.session_id
"""


def first_of(lanes: Iterable[str], limit: int) -> dict[str, list[Ahead]]:
    """The first of each lane, in order. One statement."""
    found: dict[str, list[Ahead]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, [sorted(set(lanes)), limit])
        for lane, session, tier, cards in cursor.fetchall():
            found.setdefault(lane, []).append(Ahead(session, tier, cards))
    return found


def entry_of(session_id: UUID) -> QueueEntry | None:
    """The row of a session that waits."""
    return QueueEntry.objects.filter(session_id=session_id).first()
