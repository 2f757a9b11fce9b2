"""Nouns for readers: whose sessions, what they cost, where they wait, what is free. Constant numbers of queries.

Guarantees: `visible_sessions` is the only door to sessions for a person; what it does not hold does not exist for him.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connection

from accounts import permissions
from billing import queries as billing
from billing.domain.facts import Cost
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from sessions_app import line
from sessions_app.domain.lifecycle import State
from sessions_app.domain.queue import Bucket
from sessions_app.models import LaneLook, QueueEntry, Run, RunActivity, Session, SessionQuerySet, TimelineEntry

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiting session stands."""

    entry: QueueEntry
    position: int
    length: int
    look: LaneLook | None = None

    @property
    def reason(self) -> str:
        """Why it waits, as a code."""
        return self._newest.reason

    @property
    def detail(self) -> str:
        """The same in words."""
        return self._newest.detail

    @property
    def missing(self) -> dict[str, int]:
        """What is missing, where the metal is the reason."""
        return self._newest.missing

    @property
    def _newest(self) -> QueueEntry | LaneLook:
        """The newest look at its lane and shape, unless another gate than the metal keeps it."""
        return self.look if self.look is not None and self.entry.reason in line.OF_METAL else self.entry


@dataclass(slots=True)
class Details:
    """What a page or the API shows of some sessions beside their own rows, by session."""

    runs: Mapping[UUID, Run] = field(default_factory=dict)
    costs: Mapping[UUID, Cost] = field(default_factory=dict)  # by run
    places: Mapping[UUID, Place] = field(default_factory=dict)

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


def rows() -> SessionQuerySet:
    """Every session with what a reader shows of it; for callers that have checked already."""
    return Session.objects.select_related("owner", "group", "organisation", "offering", "image", "preset")


def sessions_of(user: User) -> SessionQuerySet:
    """His own."""
    return rows().filter(owner=user)


def visible_sessions(user: User) -> SessionQuerySet:
    """His own and those of the groups and organisations that he administers."""
    reach = permissions.reach(user)
    if reach.everything:
        return rows()
    own = rows().filter(owner=user)
    return own | rows().filter(group__in=reach.groups) | rows().filter(organisation__in=reach.organisations)


def sessions_in_scope(user: User, scope: str) -> SessionQuerySet:
    """Sessions of `group:<id>`, `organisation:<id>` or `all`, for administrators of that scope.

    Raises DomainError: `not_found` for a scope that is not his.
    """
    kind, _, key = scope.partition(":")
    reach = permissions.reach(user)
    nothing = DomainError("not_found", "There is no such scope.", remedy="Use a group or organisation that you manage.")
    if kind == "all" and not key:
        if not reach.everything:
            raise nothing
        return rows()
    try:
        scope_id = UUID(key)
    except ValueError as error:
        raise nothing from error
    if kind == "group" and (reach.everything or scope_id in reach.groups):
        return rows().filter(group=scope_id)
    if kind == "organisation" and (reach.everything or scope_id in reach.organisations):
        return rows().filter(organisation=scope_id)
    raise nothing


def details(sessions: Iterable[Session]) -> Details:
    """Runs, costs and places in line of these sessions, in a constant number of queries."""
    known = list(sessions)
    ids = [session.pk for session in known]
    numbers = {session.pk: session.run_number for session in known}
    found = Run.objects.filter(session__in=ids).select_related("activity").defer("activity__memory")
    runs = {run.session_id: run for run in found if run.number == numbers[run.session_id]}
    costs = billing.cost([run.pk for run in runs.values()], at=clock.now())
    waiting = [session.pk for session in known if session.state == State.QUEUED]
    return Details(runs, costs, places(waiting) if waiting else {})


_PLACES = """
    SELECT entry.*, ranked.position, ranked.length
    FROM (
        SELECT session_id, row_number() OVER line AS position, count(*) OVER (PARTITION BY lane) AS length
        FROM sessions_app_queueentry
        WHERE lane IN (SELECT lane FROM sessions_app_queueentry WHERE session_id = ANY(%s))
        WINDOW line AS (PARTITION BY lane ORDER BY priority DESC, order_at, session_id)
    ) ranked
    JOIN sessions_app_queueentry entry ON entry.session_id = ranked.session_id
    WHERE entry.session_id = ANY(%s)
"""


def places(session_ids: list[UUID]) -> dict[UUID, Place]:
    """The positions of waiting sessions in their lanes, and why they wait. Two statements."""
    rows = list(QueueEntry.objects.raw(_PLACES, [session_ids, session_ids]))
    looks = line.looks_at([Bucket(row.lane, row.shape) for row in rows])
    return {
        row.session_id: Place(row, row.position, row.length, looks.get(Bucket(row.lane, row.shape)))  # type: ignore[attr-defined]  # the statement's
        for row in rows
    }


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
