"""A session's rows, held still: itself, which covers its runs, queue entry and desired documents, and its current run.

Guarantees: rows are locked in the order of their ids and read as they are after the wait, in one statement for any number.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db.models import F, Max

from gshare_core.kit import locks
from gshare_core.kit.rows import Each, Prepared, sample
from sessions_app.models import Run, Session

_LOCKED_SESSIONS = Prepared(
    lambda sessions: (
        Session.objects.filter(pk__in=sessions).order_by("pk").select_for_update(no_key=True, of=("self",))
    ),
    Each(sample(1)),
)
_RUNS = Prepared(
    lambda sessions: Run.objects.filter(session__in=sessions, number=F("session__run_number")), Each(sample(1))
)
_RUN = Prepared(lambda session, number: Run.objects.filter(session=session, number=number), sample(1), 987_654_321)


def lock_session(session_id: UUID) -> Session | None:
    """Lock a session's row, which covers its runs, queue entry and desired document."""
    return lock_sessions([session_id]).get(session_id)


def lock_sessions(session_ids: Collection[UUID]) -> dict[UUID, Session]:
    """The same for several, by session. One statement."""
    found = locks.lock_found(locks.Rank.SESSION, _LOCKED_SESSIONS, list(session_ids))
    return {session.pk: session for session in found}


def current_run(session: Session) -> Run | None:
    """The run that the session's number names."""
    return _RUN.first(session.pk, session.run_number)


def current_runs(session_ids: Collection[UUID]) -> dict[UUID, Run]:
    """The same for several, by session. One statement."""
    return {run.session_id: run for run in _RUNS(list(session_ids))}


def next_number(session: Session) -> int:
    """The number of the session's next run: above every one that its rows or any cluster has seen."""
    newest = Run.objects.filter(session=session).aggregate(newest=Max("number"))["newest"] or 0
    return max(session.run_number, session.run_floor, newest) + 1
