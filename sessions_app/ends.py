"""When the sessions that hold metal will have given it back: what must end, and what usually does.

Guarantees: an end is hard only where something enforces it (a maximum runtime, a deadline); others say how long sessions of
the same offering and size lasted lately. Constant numbers of statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import starmap
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from accounts import queries as accounts
from sessions_app.domain.lifecycle import OCCUPYING, State
from sessions_app.models import Run, Session

_LATELY = timedelta(days=14)
_ENOUGH = 5  # ended runs, before their median says anything
_SHORTEST = timedelta(minutes=5)  # how soon what has outlasted its like is expected to end

Kind = tuple[UUID | None, str]  # (offering, tier)


class End(NamedTuple):
    """When a session will have given its metal back, and whether it must."""

    at: datetime
    hard: bool


def ends(at: datetime) -> dict[UUID, End | None]:
    """By session that holds metal: when it will have given it back; None where nothing says so."""
    sessions = list(starmap(_Holder, Session.objects.occupying().values_list(*_COLUMNS)))
    open_runs = Run.objects.filter(closed_at=None, session__state__in=OCCUPYING)
    runs = {
        session: run for session, *run in open_runs.values_list("session_id", "ready_at", "activity__runtime_ends_at")
    }
    bounds = runtime_bounds((session.owner_id, session.group_id) for session in sessions)
    usual = usual_runtimes(at)
    return {
        session.pk: _end(session, runs.get(session.pk, _NO_RUN), bounds[session.owner_id, session.group_id], usual, at)
        for session in sessions
    }


_COLUMNS = ("pk", "state", "deadline_at", "owner_id", "group_id", "offering_id", "tier")


class _Holder(NamedTuple):
    """The columns of a session that say when it ends."""

    pk: UUID
    state: str
    deadline_at: datetime | None
    owner_id: UUID
    group_id: UUID
    offering_id: UUID | None
    tier: str


_OpenRun = Sequence[datetime | None]
"""When it was ready, and when its maximum runtime ends it."""
_NO_RUN: _OpenRun = (None, None)


def _end(
    session: _Holder, run: _OpenRun, bound: timedelta | None, usual: dict[Kind, timedelta], at: datetime
) -> End | None:
    limits, (began, runtime_ends_at) = settings.GSHARE, run
    if session.state in {State.PAUSING, State.STOPPING}:
        return End(session.deadline_at, hard=True) if session.deadline_at else None
    if session.state not in {State.STARTING, State.RUNNING}:
        return None
    if session.state == State.RUNNING and runtime_ends_at is not None:
        return End(max(at, runtime_ends_at) + limits.end_timeout, hard=True)
    if bound is not None:
        start = began or at + limits.pull_timeout + limits.start_timeout
        return End(max(at, start + bound) + limits.end_timeout, hard=True)
    typical = usual.get((session.offering_id, session.tier))
    if typical is None:
        return None
    return End(max(at + _SHORTEST, (began or at) + typical), hard=False)


def runtime_bounds(pairs: Iterable[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], timedelta | None]:
    """By (owner, group): the longest that a run of theirs may last; None without a bound."""
    found = {}
    for pair, values in accounts.effective_of(pairs, ("max_runtime_min",)).items():
        minutes = values["max_runtime_min"].value
        found[pair] = timedelta(minutes=minutes) if minutes else None
    return found


_USUAL = """
    SELECT s.offering_id, s.tier, percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM r.closed_at - r.ready_at))
    FROM sessions_app_run r JOIN sessions_app_session s ON s.id = r.session_id
    WHERE r.closed_at > %s AND r.ready_at < r.closed_at AND s.offering_id IS NOT NULL
    GROUP BY s.offering_id, s.tier
    HAVING count(*) >= %s
"""


def usual_runtimes(at: datetime) -> dict[Kind, timedelta]:
    """By offering and tier: how long half of the runs that ended in the last 14 days lasted at most."""
    with connection.cursor() as cursor:
        cursor.execute(_USUAL, [at - _LATELY, _ENOUGH])
        return {(offering, tier): timedelta(seconds=float(median)) for offering, tier, median in cursor.fetchall()}
