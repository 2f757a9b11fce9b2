"""Rows that contradict each other, as after one was restored from a backup: brought back to a state that can go on.

Guarantees: an open run that is not its session's is settled once and closed, its card stays blocked until its cluster says
that it is gone; a session that says it holds or waits for something although its run has ended is paused, resumable, and
ends if it was ending. A session's next run is numbered above all that any cluster has seen of it. Nothing is charged twice.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import structlog
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from billing import services as billing
from cluster import queries as cluster_queries
from cluster import services as cluster
from gshare_core.kit import clock
from sessions_app import recounting
from sessions_app.domain.lifecycle import TERMINAL, Event, State
from sessions_app.held import current_run, lock_session
from sessions_app.models import QueueEntry, Run, Session
from sessions_app.stepping import stepped_in_order
from sessions_app.timeline import Cause, Money, record
from sessions_app.transition import free, settle_run, transition

logger = structlog.get_logger(__name__)

BATCH = 200
# A run number that jumps further is a fault of who says it, not of these rows.
FURTHEST = 1_000_000
_WITHOUT_RUN = (*TERMINAL, State.PAUSED)
_WORDS = "The rows of this session contradicted each other, as after a restore; it can be resumed."


def mend() -> int:
    """One pass over contradictions; answers how many sessions were put right."""
    loose = list(loose_runs().order_by("session_id").values_list("session_id", flat=True)[:BATCH])
    bereft = list(bereft_sessions().order_by("id").values_list("pk", flat=True)[:BATCH])
    if not loose and not bereft:
        return 0
    # Limits were counted by the rows as they were; what follows moves them from the rows as they are.
    recounting.repair()
    mended = sum(stepped_in_order(_close_loose, session_id) for session_id in loose)
    return mended + sum(stepped_in_order(_put_to_rest, session_id) for session_id in bereft)


def loose_runs() -> QuerySet[Run]:
    """Open runs that are not their session's current one, or whose session has none."""
    return Run.objects.filter(closed_at=None).filter(
        ~Q(number=F("session__run_number")) | Q(session__state__in=_WITHOUT_RUN)
    )


def bereft_sessions() -> QuerySet[Session]:
    """Sessions in a state that has a run, without one that is open."""
    own = Run.objects.filter(session=OuterRef("pk"), number=OuterRef("run_number"), closed_at=None)
    return Session.objects.live().exclude(state=State.PAUSED).filter(~Exists(own))


def _close_loose(session_id: UUID) -> bool:
    session = lock_session(session_id)
    run = loose_runs().filter(session=session_id).first()
    if session is None or run is None:
        return False
    at, money = clock.now(), Money(run=run.number)
    if session.mode != "cpu":
        billing.request_end(run.pk, at=at)
    settle_run(session, run, money, at=at)
    if run.placed_at is not None and run.gone_at is None:
        cluster.orphan_claims(run.pk, generation=_ending_generation(session, run))
    else:
        free(run, at=at)
    run.save()
    QueueEntry.objects.filter(session=session).exclude(session__state=State.QUEUED).delete()
    session.version += 1
    session.save(update_fields=["charged", "running_us", "version"])
    record(session, Cause(Event.GONE, detail=_WORDS), at=at, money=money)
    logger.error("loose_run_closed", session=str(session_id), run=run.number, state=session.state)
    return True


def _ending_generation(session: Session, run: Run) -> int:
    """The generation of the tombstone that the sweep writes for the run: one above what its cluster is told of it."""
    assert run.cluster_id is not None
    told = cluster_queries.told(run.cluster_id, session_id=session.pk).get(session.pk)
    known = told.generation if told is not None and told.run == run.number else 0
    return max(known, run.reported_generation) + (0 if told is not None and told.ends else 1)


def _put_to_rest(session_id: UUID) -> bool:
    session = lock_session(session_id)
    if session is None or not bereft_sessions().filter(pk=session_id).exists():
        return False
    logger.error("session_without_run", session=str(session_id), run=session.run_number, state=session.state)
    return _end_current(session, at=clock.now())


def _end_current(session: Session, *, at: datetime) -> bool:
    """The session's current run is over: as if its cluster had said so, but never back in line by itself."""
    event = {State.STARTING: Event.GONE_CPU, State.QUEUED: Event.REFUSED_RESUMED}.get(session.life, Event.GONE)
    return transition(session, Cause(event, reason="vanished", detail=_WORDS), at=at)


def outrun(session: Session, run_number: int, *, at: datetime, ends_current: bool) -> bool:
    """A cluster has seen a later run of the locked session than its rows: the next one is numbered above it.

    `ends_current`: it is the cluster of the current run, which has therefore ended: no run begins before the one before
    it is gone.
    """
    current = current_run(session)
    if run_number <= max(session.run_number, session.run_floor) or run_number - session.run_number > FURTHEST:
        return False
    session.run_floor = run_number
    session.save(update_fields=["run_floor"])
    logger.error("session_row_was_older", session=str(session.pk), run=session.run_number, seen=run_number)
    if ends_current and current is not None:
        current.gone_at = at
        current.save(update_fields=["gone_at"])
        return _end_current(session, at=at)
    if session.life is State.QUEUED and current is not None:
        # It has not been told to anybody yet: it may still take another number.
        current.number = session.run_number = run_number + 1
        current.save(update_fields=["number"])
        session.save(update_fields=["run_number"])
    return True
