"""Counts anew what limits count and who stands in line, compares, and repairs what differs.

Guarantees: a comparison is one statement, so it sees every transaction wholly or not at all (a session's state, its counters
and its place in line are written together): traffic makes no false differences and waits for nobody. A repair locks the
counters that differ, in their order, and counts again behind the lock; whoever moves them meanwhile has committed, or comes after.
Refuses to judge by what a session did: only by what it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import connection
from prometheus_client import Counter as Metric

from gshare_core.kit import clock, locks
from sessions_app import counters, line
from sessions_app.domain.lifecycle import LIVE, State
from sessions_app.held import lock_session
from sessions_app.models import LaneTally, QueueEntry, Session, Usage
from sessions_app.transition import back_in_line

logger = structlog.get_logger(__name__)

DIFFERENCES = Metric("gshare_recount_differences", "Counters and places in line that did not agree.", ["what"])

_COLUMNS = (
    "id",
    "owner_id",
    "group_id",
    "organisation_id",
    "state",
    "priority",
    "mode",
    "cards",
    "vram_mib",
    "core_percent",
    "cpu_milli",
    "memory_mib",
    "scratch_gib",
    "paused_by_owner",
)
_SNAPSHOT = f"""
    SELECT 'session', to_json(s)::text FROM (SELECT {", ".join(_COLUMNS)} FROM {Session._meta.db_table} WHERE state = ANY(%s)) s
    UNION ALL SELECT 'usage', to_json(u)::text FROM (SELECT scope, field, used FROM {Usage._meta.db_table} WHERE used <> 0) u
    UNION ALL SELECT 'entry', to_json(e)::text FROM (SELECT session_id, priority, lane FROM {QueueEntry._meta.db_table}) e
    UNION ALL SELECT 'tally', to_json(t)::text
        FROM (SELECT lane, sum(change)::bigint AS change FROM {LaneTally._meta.db_table} GROUP BY lane) t
"""  # noqa: S608 -- the names are the models' own


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """What is stored, and what there is: a counter (`scope`, `field`), a session's place in line (its id, `place`), or how
    many wait in a lane (`length`)."""

    what: str  # usage, queue, lane
    scope: str
    field: str
    stored: int | None
    counted: int | None


@dataclass(frozen=True, slots=True)
class _Counted:
    """A live session as it counts."""

    id: str
    owner_id: str
    group_id: str
    organisation_id: str
    state: str
    priority: int
    mode: str
    cards: int
    vram_mib: int
    core_percent: int
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    paused_by_owner: bool

    @property
    def life(self) -> State:
        return State(self.state)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Everything that is compared, as of one instant."""

    sessions: list[_Counted]
    used: Mapping[tuple[str, str], int]
    entries: Mapping[str, int]  # session → priority in line
    lanes: Mapping[str, int]  # how many wait in each
    tallies: Mapping[str, int]  # how many of them were counted


def differences() -> list[Difference]:
    """Everything that does not agree, sorted. Takes no lock."""
    snapshot = _snapshot()
    return sorted([*_usage(snapshot), *_queue(snapshot), *_lanes(snapshot)])


def repair() -> list[Difference]:
    """Put right what does not agree; answers what was found. What agrees by the time it is locked stays."""
    found = differences()
    scopes = sorted({difference.scope for difference in found if difference.what == "usage"})
    if scopes:
        _recount(tuple(scopes))
    for difference in found:
        if difference.what == "queue":
            _put_in_place(UUID(difference.scope))
    if any(difference.what == "lane" for difference in found):
        line.tally_anew()
    return found


def watch() -> int:
    """A tick: repairs, and raises the alarm for every difference, in the log and in the metrics; answers how many."""
    found = repair()
    for difference in found:
        DIFFERENCES.labels(difference.what).inc()
        logger.error(
            "recount_differs",
            what=difference.what,
            scope=difference.scope,
            field=difference.field,
            stored=difference.stored,
            counted=difference.counted,
        )
    return len(found)


def _snapshot() -> _Snapshot:
    rows: dict[str, list[dict[str, Any]]] = {"session": [], "usage": [], "entry": [], "tally": []}
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT, [[state.value for state in LIVE]])
        for kind, row in cursor.fetchall():
            rows[kind].append(json.loads(row))
    return _Snapshot(
        sessions=[_Counted(**row) for row in rows["session"]],
        used={(row["scope"], row["field"]): row["used"] for row in rows["usage"]},
        entries={row["session_id"]: row["priority"] for row in rows["entry"]},
        lanes=Counter(row["lane"] for row in rows["entry"]),
        tallies={row["lane"]: row["change"] for row in rows["tally"]},
    )


def _usage(snapshot: _Snapshot) -> Iterable[Difference]:
    counted: Counter[tuple[str, str]] = Counter()
    for session in snapshot.sessions:
        amounts = counters.amounts(session, session.life, by_owner=session.paused_by_owner)
        scopes = counters.scopes_of(
            user=UUID(session.owner_id), group=UUID(session.group_id), organisation=UUID(session.organisation_id)
        )
        for scope in scopes:
            for field, amount in amounts.items():
                counted[scope, field] += amount
    for scope, field in counted.keys() | snapshot.used.keys():
        stored, there = snapshot.used.get((scope, field), 0), counted[scope, field]
        if stored != there:
            yield Difference("usage", scope, field, stored, there)


def _queue(snapshot: _Snapshot) -> Iterable[Difference]:
    """Who waits without a place, who has one without waiting, and whose place is of another priority."""
    waiting = {session.id: session.priority for session in snapshot.sessions if session.life is State.QUEUED}
    for session in waiting.keys() | snapshot.entries.keys():
        stored, there = snapshot.entries.get(session), waiting.get(session)
        if stored != there:
            yield Difference("queue", session, "place", stored, there)


def _lanes(snapshot: _Snapshot) -> Iterable[Difference]:
    """Lanes whose tally is not how many wait in them."""
    for lane in snapshot.lanes.keys() | snapshot.tallies.keys():
        stored, there = snapshot.tallies.get(lane, 0), snapshot.lanes.get(lane, 0)
        if stored != there:
            yield Difference("lane", lane, "length", stored, there)


def _recount(scopes: tuple[str, ...]) -> None:
    counters.prepare(scopes)
    with locks.ordered():
        counters.lock(scopes)
        for difference in _usage(_snapshot()):
            if difference.scope in scopes:
                row = Usage.objects.filter(scope=difference.scope, field=difference.field)
                row.update(used=difference.counted)


def _put_in_place(session_id: UUID) -> None:
    with locks.ordered():
        session = lock_session(session_id)
        if session is None:
            return
        entry = QueueEntry.objects.filter(session=session)
        if session.life is not State.QUEUED:
            entry.delete()
        elif not entry.update(priority=session.priority):
            back_in_line(session, clock.now(), reason="not_now", detail="Its place in line was restored.")
