"""Nouns for readers: whose sessions, what they cost, where they wait, what is free. Constant numbers of queries.

Guarantees: `visible_sessions` is the only door to sessions for a person; what it does not hold does not exist for him.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from django.db import connection
from django.db.models import F, Q

from accounts import permissions
from accounts.domain.rights import Standing
from billing import queries as billing
from billing.domain.facts import Cost
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.rows import prepared
from sessions_app import line
from sessions_app.domain.lifecycle import LIVE, State
from sessions_app.models import LaneLook, QueueEntry, Run, RunActivity, Session, SessionQuerySet, TimelineEntry

if TYPE_CHECKING:
    from accounts.models import User


PREEMPTING = "preempting"  # a reason of its own: sessions of lower priority give back what it gets


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiting session stands."""

    entry: QueueEntry
    position: int
    length: int
    look: LaneLook | None = None
    twin: QueueEntry | None = None
    """One like it of the same person and group, before it in line, whom a limit keeps: it keeps this one too."""
    making_room: int = 0
    """How many sessions of lower priority were asked to make room for it and are not gone yet."""

    @property
    def reason(self) -> str:
        """Why it waits, as a code."""
        return PREEMPTING if self._waits_for_room else self._newest.reason

    @property
    def detail(self) -> str:
        """The same in words."""
        return "Waits for preempted sessions to end." if self._waits_for_room else self._newest.detail

    @property
    def missing(self) -> dict[str, int]:
        """What is missing, where the metal is the reason."""
        return self._newest.missing

    @property
    def facts(self) -> dict[str, Any]:
        """What the gate that keeps it said; empty where the metal does."""
        newest = self._newest
        return newest.facts if isinstance(newest, QueueEntry) else {}

    @property
    def is_passed_over(self) -> bool:
        """Whether another gate than the metal keeps it."""
        return self._newest.reason not in line.OF_METAL

    @property
    def _waits_for_room(self) -> bool:
        return self.making_room > 0 and not self.is_passed_over

    @property
    def _newest(self) -> QueueEntry | LaneLook:
        """The newest look at its lane and shape, unless another gate than the metal keeps it, or one like it before it."""
        return (self.twin or self.look or self.entry) if self.entry.reason in line.OF_METAL else self.entry


@dataclass(slots=True)
class Details:
    """What a page or the API shows of some sessions beside their own rows, by session."""

    runs: Mapping[UUID, Run] = field(default_factory=dict)
    costs: Mapping[UUID, Cost] = field(default_factory=dict)  # by run
    places: Mapping[UUID, Place] = field(default_factory=dict)
    apps: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)  # where they are known already

    def apps_of(self, session: Session) -> tuple[str, ...]:
        """The applications that its image serves."""
        return self.apps[session.pk] if session.pk in self.apps else tuple(session.image.apps)

    def run_of(self, session: Session) -> Run | None:
        """The current run."""
        return self.runs.get(session.pk)

    def activity_of(self, session: Session) -> RunActivity | None:
        """What was judged of the current run's use; without what is remembered of its samples."""
        run = self.runs.get(session.pk)
        return getattr(run, "activity", None)

    def cost_of(self, session: Session) -> Cost | None:
        """What the current run costs; None for sessions without a card."""
        run = self.runs.get(session.pk)
        return self.costs.get(run.pk) if run else None

    def open_cost_of(self, session: Session) -> Cost | None:
        """The same while the run is open: what it costs is not yet in the session's own sum."""
        run = self.runs.get(session.pk)
        return self.costs.get(run.pk) if run and run.closed_at is None else None

    def cost_so_far(self, session: Session) -> int:
        """Micro-credits of all runs, posted or not."""
        current = self.open_cost_of(session)
        return session.charged + (current.total if current else 0)


SHOWN = ("owner", "group", "organisation", "offering", "image", "preset")


def rows() -> SessionQuerySet:
    """Every session with what a reader shows of it; for callers that have checked already."""
    return Session.objects.select_related(*SHOWN)


def sessions_of(user: User) -> SessionQuerySet:
    """His own."""
    return rows().filter(owner=user)


def live_of(user: User) -> list[tuple[Session, Run]]:
    """His own that are not over, each with its current run, newest first. One statement."""
    runs = (
        Run.objects.filter(number=F("session__run_number"), session__owner=user, session__state__in=LIVE)
        .select_related("activity", *(f"session__{name}" for name in SHOWN))
        .defer("activity__memory")
        .order_by("-session__created_at", "-session__id")
    )
    return [(run.session, run) for run in runs]


def visible_sessions(user: User, standing: Standing | None = None) -> SessionQuerySet:
    """His own and those of the groups and organisations that he administers."""
    reach = permissions.reach(user, standing)
    if reach.everything:
        return rows()
    return rows().filter(Q(owner=user) | within(reach))


def within(reach: permissions.Reach, way: str = "") -> Q:
    """Of rows that lead to a session by `way` those of the places somebody administers."""
    if reach.everything:
        return Q()
    return Q(**{f"{way}group__in": reach.groups}) | Q(**{f"{way}organisation__in": reach.organisations})


def sessions_in_scope(user: User, scope: str) -> SessionQuerySet:
    """Sessions of `group:<id>`, `organisation:<id>` or `all`, for administrators of that scope.

    Raises DomainError: `not_found` for a scope that is not his.
    """
    kind, place = administered_scope(user, scope)
    return rows() if place is None else rows().filter(**{kind: place})


def administered_scope(user: User, scope: str) -> tuple[Literal["group", "organisation", "all"], UUID | None]:
    """What `group:<id>`, `organisation:<id>` or `all` names, for administrators of that scope; `all` names no place.

    Raises DomainError: `not_found` for a scope that is not his.
    """
    kind, _, key = scope.partition(":")
    reach = permissions.reach(user)
    nothing = DomainError("not_found", "There is no such scope.", remedy="Use a group or organisation that you manage.")
    if kind == "all" and not key and reach.everything:
        return "all", None
    try:
        place = UUID(key)
    except ValueError as error:
        raise nothing from error
    if kind == "group" and (reach.everything or place in reach.groups):
        return "group", place
    if kind == "organisation" and (reach.everything or place in reach.organisations):
        return "organisation", place
    raise nothing


def details(sessions: Iterable[Session]) -> Details:
    """Runs, costs and places in line of these sessions, in a constant number of queries."""
    known = list(sessions)
    ids = [session.pk for session in known]
    numbers = {session.pk: session.run_number for session in known}
    found = Run.objects.filter(session__in=ids).select_related("activity").defer("activity__memory")
    runs = {run.session_id: run for run in found if run.number == numbers[run.session_id]}
    costs = billing.cost([run.pk for run in runs.values()], at=clock.now())
    return Details(runs, costs, _places_of(known))


def details_of(
    found: Iterable[tuple[Session, Run]], costs: Mapping[UUID, Cost], apps: Mapping[UUID, tuple[str, ...]] | None = None
) -> Details:
    """The same for who has read runs and costs, and perhaps the images' apps, already: the places only."""
    known = list(found)
    places = _places_of([session for session, _ in known])
    return Details({session.pk: run for session, run in known}, costs, places, apps or {})


def _places_of(sessions: Iterable[Session]) -> Mapping[UUID, Place]:
    waiting = [session.pk for session in sessions if session.state == State.QUEUED]
    return places(waiting) if waiting else {}


_PLACES = """
    SELECT entry.*, ranked.position, ranked.length,
           look.reason AS look_reason, look.detail AS look_detail, look.missing AS look_missing, look.looked_at AS seen_at,
           twin.session_id AS twin_id, twin.reason AS twin_reason, twin.detail AS twin_detail, twin.facts AS twin_facts,
           (SELECT count(*) FROM sessions_app_preemption asked
            JOIN sessions_app_run run ON run.session_id = asked.victim_id AND run.number = asked.victim_run
            WHERE asked.session_id = entry.session_id AND asked.asked_at IS NOT NULL AND run.closed_at IS NULL
           ) AS making_room
    FROM ({ranked}) ranked
    JOIN sessions_app_queueentry entry ON entry.session_id = ranked.session_id
    JOIN sessions_app_session own ON own.id = entry.session_id
    LEFT JOIN sessions_app_lanelook look ON look.lane = entry.lane AND look.shape = entry.shape
    LEFT JOIN LATERAL (
        SELECT other.session_id, other.reason, other.detail, other.facts
        FROM (
            -- Those whom a limit keeps are fewer than those who have much that waits: they are looked at first (OFFSET 0).
            SELECT * FROM sessions_app_queueentry limited
            WHERE limited.lane = entry.lane AND limited.shape = entry.shape AND limited.reason IN ({limits}) OFFSET 0
        ) other JOIN sessions_app_session same ON same.id = other.session_id
        WHERE same.owner_id = own.owner_id AND same.group_id = own.group_id AND same.state = 'queued'
          AND (-other.priority, other.order_at, other.session_id) < (-entry.priority, entry.order_at, entry.session_id)
        ORDER BY other.priority DESC, other.order_at, other.session_id LIMIT 1
    ) twin ON true
    WHERE entry.session_id = ANY((SELECT %(ids)s)::uuid[])
"""


# Numbering whole lanes costs as much for one as for many; counting who stands before each costs a little for each.
_NUMBERED = """
    SELECT session_id, row_number() OVER line AS position, count(*) OVER (PARTITION BY lane) AS length
    FROM sessions_app_queueentry
    WHERE lane IN (SELECT lane FROM sessions_app_queueentry WHERE session_id = ANY(%(ids)s))
    WINDOW line AS (PARTITION BY lane ORDER BY priority DESC, order_at, session_id)
"""
# Who came last, as who is told of it mostly did, has nobody behind him: that is counted by the index, and the lane by its tally.
_COUNTED = """
    SELECT own.session_id, counted.length - behind.many AS position, counted.length
    FROM sessions_app_queueentry own
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(change), 0)::bigint AS length FROM sessions_app_lanetally tally WHERE tally.lane = own.lane
    ) counted
    CROSS JOIN LATERAL (
        SELECT (
            SELECT count(*) FROM sessions_app_queueentry other WHERE other.lane = own.lane
                AND other.priority = own.priority AND (other.order_at, other.session_id) > (own.order_at, own.session_id)
        ) + (
            SELECT count(*) FROM sessions_app_queueentry other
            WHERE other.lane = own.lane AND other.priority < own.priority
        ) AS many
    ) behind
    WHERE own.session_id = ANY((SELECT %(ids)s)::uuid[])
"""
_FEW = 16
_LIMITS = ", ".join(f"'{reason}'" for reason in sorted(line.OF_LIMITS))
_PLACES_OF_FEW = _PLACES.format(ranked=_COUNTED, limits=_LIMITS)
_PLACES_OF_MANY = _PLACES.format(ranked=_NUMBERED, limits=_LIMITS)


def places(session_ids: list[UUID]) -> dict[UUID, Place]:
    """The positions of waiting sessions in their lanes, and why they wait. One statement."""
    with prepared() as cursor:
        cursor.execute(_PLACES_OF_FEW if len(session_ids) <= _FEW else _PLACES_OF_MANY, {"ids": session_ids})
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {row["session_id"]: _place(row) for row in rows}


_ENTRY = tuple(field.attname for field in QueueEntry._meta.concrete_fields)


def _place(row: Mapping[str, Any]) -> Place:
    look = twin = None
    entry = QueueEntry.from_db(None, _ENTRY, [row[name] for name in _ENTRY])
    entry.missing, entry.facts = json.loads(row["missing"]), json.loads(row["facts"])
    if row["look_reason"] is not None:
        missing = json.loads(row["look_missing"])
        look = LaneLook(reason=row["look_reason"], detail=row["look_detail"], missing=missing)
    if row["twin_id"] is not None:
        facts = json.loads(row["twin_facts"])
        twin = QueueEntry(reason=row["twin_reason"], detail=row["twin_detail"], facts=facts)
    return Place(entry, row["position"], row["length"], look, twin, row["making_room"])


def queue_lengths() -> dict[UUID, int]:
    """How many wait for each offering."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.offering_id, count(*) FROM sessions_app_queueentry q"
            " JOIN sessions_app_session s ON s.id = q.session_id GROUP BY s.offering_id"
        )
        return {row[0]: row[1] for row in cursor.fetchall() if row[0] is not None}


def timeline(session: Session, limit: int = 200) -> list[TimelineEntry]:
    """The newest rows first."""
    return list(TimelineEntry.objects.filter(session=session).order_by("-at", "-id")[:limit])
