"""The level-triggered loop: reads rows, and does what no event did. Every pass may be repeated and interrupted.

Guarantees: every transient state ends by its deadline; on a node that is Ready the end is first forced, on a silent one
nothing is forced and the claim stays as an orphan; runs whose hold has ended are paused; wishes to resume are admitted;
each session is judged again under its own lock. One session that fails stops nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import Q, Subquery
from prometheus_client import Counter

from billing import queries as billing_queries
from billing import services as billing
from cluster import queries as cluster_queries
from cluster.heartbeat import deaf_time
from gshare_core.errors import DomainError
from gshare_core.kit import clock, locks
from sessions_app import admission, dequeuing, hints, plans, previews
from sessions_app.domain.gates import first_refusal
from sessions_app.domain.lifecycle import Event, State
from sessions_app.held import current_run, lock_session
from sessions_app.models import AccessTicket, Attempt, Run, Session
from sessions_app.stepping import stepped
from sessions_app.timeline import Cause
from sessions_app.transition import force, transition

logger = structlog.get_logger(__name__)

BATCH = 500
DEADLINES = Counter("gshare_deadlines_hit", "Deadlines that passed, by state and what followed.", ["state", "outcome"])


def reconcile() -> int:
    """One pass over silence, deadlines, ended holds, wishes and resumes by themselves; answers how many sessions moved."""
    return silent() + deadlines() + exhausted() + wishes() + waking()


# Silence -------------------------------------------------------------------------------------------------------------


def silent() -> int:
    """Sessions whose cluster or node has been silent for too long are lost: settled to their last proof of life."""
    clusters, nodes = _lost()
    if not clusters and not nodes:
        return 0
    open_runs = Run.objects.filter(closed_at=None, session__state__in=(State.STARTING, State.RUNNING))
    where = Q(cluster__in=clusters)
    for cluster_id, node in nodes:
        where |= Q(cluster=cluster_id, node=node)
    affected = open_runs.filter(where).order_by("session_id").values_list("session_id", flat=True)[:BATCH]
    return sum(_guarded(session_id, _lose) for session_id in affected)


def _lose(session_id: UUID) -> bool:
    clusters, nodes = _lost()
    with locks.ordered():
        session = lock_session(session_id)
        run = current_run(session) if session is not None else None
        if session is None or run is None or session.life not in {State.STARTING, State.RUNNING}:
            return False
        if run.cluster_id in clusters:
            reason = "cluster_lost"
        elif (run.cluster_id, run.node) in nodes:
            reason = "node_lost"
        else:
            return False
        return transition(session, Cause(Event.SILENT, reason=reason), at=clock.now(), run=run)


def _lost() -> tuple[set[UUID], set[tuple[UUID, str]]]:
    """The clusters, and the nodes of clusters that speak, that are lost now."""
    clusters = {cluster for cluster, state in cluster_queries.cluster_states().items() if state == "lost"}
    return clusters, cluster_queries.lost_nodes(clock.now())


# Deadlines -----------------------------------------------------------------------------------------------------------


def deadlines() -> int:
    """End what is past its deadline."""
    now = clock.now()
    due = Session.objects.filter(deadline_at__lte=now).order_by("deadline_at", "id")[:BATCH]
    return sum(_guarded(session_id, _overdue) for session_id in due.values_list("pk", flat=True))


def _overdue(session_id: UUID) -> bool:
    with locks.ordered():
        session = lock_session(session_id)
        at = clock.now()
        if session is None or not _is_overdue(session, at):
            return False
        run = current_run(session)
        if run is None:
            return False
        tearing_down = session.life in {State.PAUSING, State.STOPPING} or session.restarting or session.misplaced
        if not tearing_down:
            DEADLINES.labels(session.state, "given_up").inc()
            # Moving memory falls back to a pause for the reason that it had; only a start is at fault by itself.
            reason = "start_timeout" if session.life is State.STARTING else session.reason
            return transition(session, Cause(Event.DEADLINE, reason=reason, detail=run.message), at=at, run=run)
        if (
            not session.forced
            and run.cluster_id
            and cluster_queries.node_is_ready(cluster_id=run.cluster_id, node=run.node)
        ):
            DEADLINES.labels(session.state, "forced").inc()
            logger.warning("end_is_forced", session=str(session.pk), run=run.number, node=run.node)
            force(session, run, at=at)
            return True
        DEADLINES.labels(session.state, "orphaned").inc()
        ends = Event.DEADLINE_RESTART if session.life is State.STARTING else Event.DEADLINE
        logger.error("run_did_not_end", session=str(session.pk), run=run.number, node=run.node, forced=session.forced)
        cause = Cause(
            ends, reason=session.reason, detail="The cluster did not confirm the end; the card stays blocked."
        )
        return transition(session, cause, at=at, run=run)


def _is_overdue(session: Session, at: datetime) -> bool:
    """Whether its time is over; what it might have told us while nobody listened is added first."""
    if session.deadline_at is None or session.deadline_at > at:
        return False
    return session.deadline_at + deaf_time(session.state_since, at) <= at


# Money ---------------------------------------------------------------------------------------------------------------


def exhausted() -> int:
    """Pause the runs whose hold has ended and could not be topped up; the filling is tried first."""
    billing.top_up_ended(limit=BATCH)
    runs = billing_queries.exhausted(at=clock.now(), limit=BATCH)
    sessions = Run.objects.filter(pk__in=runs).order_by("session_id").values_list("session_id", flat=True)
    return sum(_guarded(session_id, _pause_exhausted) for session_id in sessions)


def _pause_exhausted(session_id: UUID) -> bool:
    with locks.ordered():
        session = lock_session(session_id)
        run = current_run(session) if session is not None else None
        if session is None or run is None or session.life is not State.RUNNING:
            return False
        ended = billing_queries.exhausted(at=clock.now(), limit=1, runs=[run.pk])
        if not ended:
            return False
        reason = billing_queries.exhaustion_reason(run.pk)
        return transition(session, Cause(Event.PAUSE, reason=reason), at=clock.now(), run=run)


# Wishes --------------------------------------------------------------------------------------------------------------


def wishes() -> int:
    """Admit the sessions that asked to be resumed while they were pausing."""
    wanting = Session.objects.filter(resume_wanted=True, state=State.PAUSED).order_by("id")[:BATCH]
    return sum(_guarded(session_id, _resume_wanted) for session_id in wanting.values_list("pk", flat=True))


def _resume_wanted(session_id: UUID) -> bool:
    session = Session.objects.select_related("owner").get(pk=session_id)
    try:
        admission.resume(session_id, by=session.owner)
    except DomainError as refusal:
        logger.info("resume_refused", session=str(session_id), code=refusal.code)
        Session.objects.filter(pk=session_id, state=State.PAUSED).update(
            resume_wanted=False, detail=refusal.detail[:2000]
        )
        return False
    return True


# By itself -----------------------------------------------------------------------------------------------------------


def waking() -> int:
    """Admit the paused sessions whose owner asked that they resume by themselves, once what paused them is over."""
    due = Session.objects.filter(state=State.PAUSED, resume_at__lte=clock.now()).order_by("resume_at", "id")[:BATCH]
    return sum(_guarded(session_id, _wake) for session_id in due.values_list("pk", flat=True))


def _wake(session_id: UUID) -> bool:
    """Looked at without locks first, so that a wallet that stays empty leaves no refused attempt behind every minute."""
    session = Session.objects.select_related("owner", "image").get(pk=session_id)
    seen = previews.preview(plans.ask_of(session), by=session.owner, session=session)
    refusal = first_refusal(seen.verdicts)
    if refusal is None:
        try:
            admission.resume(session_id, by=session.owner, then=_note_waking)
        except _CalledOffError:
            return False
        except DomainError as changed:
            logger.info("waking_refused", session=str(session_id), code=changed.code)
            _try_later(session, changed.code, changed.detail)
            return False
        return True
    _try_later(session, refusal.code or "", refusal.detail)
    return False


class _CalledOffError(Exception):
    """Rolls a resume back that its owner has called off."""


def _note_waking(session: Session) -> None:
    """The race it prevents: who calls it off between the look and the resume, and is told so, has it running all the same."""
    paused = session.timeline.filter(to_state=State.PAUSED).order_by("-at", "-id").values("at")[:1]
    if session.timeline.filter(event=Event.STAY_PAUSED, at__gte=Subquery(paused)).exists():
        raise _CalledOffError
    session.woken_at = clock.now()
    session.save(update_fields=["woken_at"])


def _try_later(session: Session, code: str, why: str) -> None:
    """What can pass later is tried again; what cannot is left to its owner."""
    later = None if code in dequeuing.ENDS else clock.now() + settings.GSHARE.auto_resume_retry
    same = Session.objects.filter(pk=session.pk, state=State.PAUSED, resume_at=session.resume_at)
    same.update(resume_at=later, detail=why[:2000])


# Housekeeping --------------------------------------------------------------------------------------------------------


def forget_old() -> int:
    """Drop refused attempts and dead tickets past their time to live."""
    older_than = clock.now() - settings.GSHARE.refusals_ttl
    attempts, _ = Attempt.objects.filter(at__lt=older_than).delete()
    tickets, _ = AccessTicket.objects.filter(expires_at__lt=older_than).delete()
    return attempts + tickets


def _guarded(session_id: UUID, step: Callable[[UUID], bool]) -> int:
    """Run one session's step; what moved may have made room for somebody in line."""
    moved = stepped(step, session_id)
    if moved:
        hints.capacity_came_back()
    return int(moved)
