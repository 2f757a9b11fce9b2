"""What clusters report: status of a run, and inventory.

Guarantees: doubled, late and reordered reports change nothing; `gone` of any run settles it once and frees its claim; only
the current run moves its session. Times are shifted by the sender's clock difference before any lock, and none lies in
the future. Stale reports are acknowledged and recorded, without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from pydantic import AwareDatetime

from billing import services as billing
from cluster import inventory
from cluster import queries as cluster_queries
from cluster import services as cluster
from gshare_core.contract import BadRow, Inventory, Phase, SessionRow, StatusReport, UnixEndpoint, parse_endpoint
from gshare_core.errors import DomainError
from gshare_core.kit import clock, locks
from gshare_core.kit.rows import Prepared, sample, update
from sessions_app import activity, hints, mending
from sessions_app.domain.decide import Heard, Known, Patience, events_of
from sessions_app.domain.lifecycle import Event, State
from sessions_app.held import current_run, lock_session
from sessions_app.models import Run, Session
from sessions_app.spec import lane_of
from sessions_app.timeline import Cause, Money, announce, record
from sessions_app.transition import free, settle_run, transition, unwant

logger = structlog.get_logger(__name__)

_SEEN = Prepared(lambda session: Session.objects.filter(pk=session), sample(1))
_RUN = Prepared(
    lambda session, number, cluster: Run.objects.filter(session=session, number=number, cluster=cluster),
    sample(1),
    987_654_321,
    sample(2),
)


@dataclass(frozen=True, slots=True)
class Shift:
    """How far the sender's clock is from ours, and the present that nothing may pass."""

    by: timedelta
    now: datetime

    @classmethod
    def of(cls, sent_at: datetime, received_at: datetime) -> Shift:
        """Differences within the tolerance are left alone: they are the way, not the clock."""
        difference = received_at - sent_at
        by = difference if abs(difference) > settings.GSHARE.clock_tolerance else timedelta(0)
        return cls(by, received_at)

    def time(self, at: AwareDatetime | None) -> datetime | None:
        """A reported time on our clock, never in the future."""
        return None if at is None else min(at + self.by, self.now)


def receive_status(cluster_id: UUID, session_id: UUID, report: StatusReport) -> bool:
    """Take a report in; answers False when it was stale. The session belongs to the cluster (the caller checked).

    Nothing is answered before it is committed, so that the sender repeats what a crash has lost.
    """
    shift = Shift.of(report.sent_at, clock.now())
    with locks.ordered():
        if report.phase is Phase.GONE:
            _lock_lane(session_id)
        session = lock_session(session_id)
        run = _RUN.first(session_id, report.run, cluster_id)
        fresh = session is not None and run is not None and _take(session, run, report, shift)
        if report.phase is Phase.GONE:
            # Whoever it was that nobody wanted: that it is told to end has done its work.
            cluster.drop_tombstone(session_id, cluster_id=cluster_id, run=report.run)
            if session is not None and run is None:
                mending.outrun(session, report.run, at=clock.now(), ends_current=_is_here(session, cluster_id))
    if fresh and report.phase is Phase.GONE:
        hints.capacity_came_back()
    return fresh


def _lock_lane(session_id: UUID) -> None:
    """A session whose start ends goes back in line: the lane's turn is before its own.

    Nothing but a start that nobody restarts does, and a lost one may be found to be that before its own lock is had.
    """
    seen = _SEEN.first(session_id)
    if seen is not None and seen.mode != "cpu" and seen.life in {State.STARTING, State.LOST}:
        locks.lock_name(locks.Rank.LANE, lane_of(seen))


def _take(session: Session, run: Run, report: StatusReport, shift: Shift) -> bool:
    if run.gone_at is not None or (_is_old(run, report) and report.phase is not Phase.GONE):
        return False  # nothing comes after `gone`, and `gone` counts whatever came before it
    assert run.cluster_id is not None, "the run was found by its cluster"
    at = clock.now()
    cluster.accept_desired(
        session_id=session.pk, cluster_id=run.cluster_id, run=report.run, generation=report.generation, at=at
    )
    if run.number != session.run_number:
        return _take_of_past(session, run, report, shift, at)
    heard = events_of(_known(session, run), report, now=at, patience=_patience())
    fresh = report.generation == session.generation or report.phase is Phase.GONE
    if session.mode != "cpu":
        billing.lock_meter(run.pk)
    _note(run, report, shift, fresh=fresh)
    if session.mode != "cpu" and run.last_alive_at is not None:
        billing.prove({run.pk: run.last_alive_at}, at=at)
    moved = False
    for event in heard:
        cause = _cause(event, report)
        moved = (
            _adopt(session, cause, run, at)
            if session.life is State.LOST
            else transition(session, cause, at=at, run=run)
        )
    if not heard:
        _follow_pull(session, report, at)
    if report.phase is Phase.GONE and not moved:
        # The session ended without it, at its deadline: what is left is its blocked card.
        free(run, at=at)
        unwant(run)
    return fresh


def _is_here(session: Session, cluster_id: UUID) -> bool:
    run = current_run(session)
    return run is not None and run.closed_at is None and run.cluster_id == cluster_id


def _adopt(session: Session, cause: Cause, run: Run, at: datetime) -> bool:
    """A silent session is heard again: it takes a new hold, else it is paused."""
    try:
        with locks.attempt():
            return transition(session, cause, at=at, run=run)
    except DomainError as refusal:
        session.refresh_from_db()
        run.refresh_from_db()
        reason = "budget_exhausted" if refusal.code == "budget_exceeded" else "credit_exhausted"
        return transition(session, Cause(Event.PAUSE, reason=reason, detail=refusal.detail), at=at, run=run)


def _take_of_past(session: Session, run: Run, report: StatusReport, shift: Shift, at: datetime) -> bool:
    """A run that is not the current one any more: only its `gone` does something, once.

    Whatever else it says shows which of its ends the operator has observed, and that is noted.
    """
    if report.phase is not Phase.GONE:
        run.reported_generation, run.reported_sequence = report.generation, report.sequence
        run.save(update_fields=["reported_generation", "reported_sequence"])
        return False
    _note(run, report, shift, fresh=True)
    if run.closed_at is None:
        # The session's row was restored from before this run: what it ran is settled all the same, once.
        money = Money(run=run.number)
        settle_run(session, run, money, at=at)
        run.save()
        session.save(update_fields=["charged", "running_us"])
        record(session, Cause(Event.GONE, by="cluster", detail=report.message), at=at, money=money)
    free(run, at=at)
    unwant(run)
    return True


def _is_old(run: Run, report: StatusReport) -> bool:
    """Whether something as new was heard of the run already."""
    return (report.generation, report.sequence) <= (run.reported_generation, run.reported_sequence)


def _note(run: Run, report: StatusReport, shift: Shift, *, fresh: bool) -> None:
    """Keep what the report says of its run; proof of life and readiness only move forward."""
    run.reported_generation, run.reported_sequence = report.generation, report.sequence
    alive = shift.time(report.last_alive_at)
    if alive is not None and (run.last_alive_at is None or alive > run.last_alive_at):
        run.last_alive_at = alive
    if run.ready_at is None and report.ready_at is not None:
        run.ready_at = shift.time(report.ready_at)
    if report.phase is Phase.GONE:
        run.gone_at = shift.now
        run.endpoints = {}
    if fresh:
        run.phase, run.message = report.phase, report.message
        run.pod = report.pod or run.pod
        if report.endpoints:
            run.endpoints = _reachable(run, report)
    update(run)


def _reachable(run: Run, report: StatusReport) -> dict[str, str]:
    """Where the embedded proxy may go for this run: what a local cluster says, on loopback or a socket below our folder.

    Loopback is ours: a cluster elsewhere that names it would be led to our own services.
    """
    if run.cluster_id is None or cluster_queries.cluster_kinds().get(run.cluster_id) != "local":
        return {}
    found = {app: address for app, address in report.endpoints.items() if _is_below_home(address)}
    if len(found) < len(report.endpoints):
        logger.warning("endpoints_refused", session=str(run.session_id), apps=sorted(report.endpoints.keys() - found))
    return found


def _is_below_home(address: str) -> bool:
    """Whether an address may be asked at all: a loopback port, or a socket below GSHARE_HOME."""
    try:
        endpoint = parse_endpoint(address)
    except ValueError:
        return False
    return not isinstance(endpoint, UnixEndpoint) or PurePosixPath(endpoint.path).is_relative_to(settings.GSHARE.home)


def _follow_pull(session: Session, report: StatusReport, at: datetime) -> None:
    """An image pull has its own deadline; when it is over, starting has its whole one again."""
    if session.life is not State.STARTING or session.restarting or session.misplaced:
        return
    pulling = report.phase is Phase.PULLING
    if pulling == (session.detail == "pulling") or report.phase not in {Phase.PULLING, Phase.STARTING}:
        return
    limit = settings.GSHARE.pull_timeout if pulling else settings.GSHARE.start_timeout
    session.detail = "pulling" if pulling else ""
    session.deadline_at = at + limit
    session.version += 1
    session.save(update_fields=["detail", "deadline_at", "version"])
    announce(session)


def _patience() -> Patience:
    return Patience(settings.GSHARE.start_attempts_max, settings.GSHARE.vanish_window)


def _known(session: Session, run: Run) -> Known:
    return Known(
        state=session.life,
        run=session.run_number,
        generation=session.generation,
        has_card=session.mode != "cpu",
        restarting=session.restarting,
        misplaced=session.misplaced,
        drained=session.misplaced and _is_drained(run),
        failed_starts=session.failed_starts,
        vanished_at=session.vanished_at,
    )


def _is_drained(run: Run) -> bool:
    return run.cluster_id is not None and cluster_queries.is_being_emptied(run.cluster_id, run.node)


def _cause(heard: Heard, report: StatusReport) -> Cause:
    where = f"on {report.node}" if heard.event is Event.READY and report.node else ""
    return Cause(heard.event, by="cluster", reason=heard.reason, detail=report.message or where)


# Inventory -----------------------------------------------------------------------------------------------------------


def receive_inventory(
    cluster_id: UUID, document: Inventory, bad: tuple[BadRow, ...] = ()
) -> inventory.InventoryReceipt:
    """Take one beat in: nodes and cards, proof of life and use of every run it lists, orphans known to be gone.

    `bad` are its rows that could not be read: while there are any, nothing counts as missing or gone.
    """
    shift = Shift.of(document.sent_at, clock.now())
    receipt = inventory.adopt(cluster_id, document, shift.now, bad)
    for session_id, run_id, _number in receipt.freed:
        _free_orphan(session_id, run_id)
    _prove(cluster_id, document.sessions, shift)
    activity.hear(cluster_id, document.sessions, by=shift.by, now=shift.now)
    return receipt


def _free_orphan(session_id: UUID, run_id: UUID) -> None:
    """Inventory shows that nothing of an ended run exists any more: its card comes back."""
    with locks.ordered():
        session = lock_session(session_id)
        run = Run.objects.filter(pk=run_id, gone_at=None).exclude(closed_at=None).first()
        if session is None or run is None:
            return
        run.gone_at = clock.now()
        run.save(update_fields=["gone_at"])
        free(run, at=run.gone_at)
        unwant(run)
    hints.capacity_came_back()


def _prove(cluster_id: UUID, rows: tuple[SessionRow, ...], shift: Shift) -> None:
    """Move the proof of life of every open run that the cluster lists, each in its own two transactions."""
    alive = {(row.id, row.run): shift.time(row.last_alive_at) for row in rows if row.last_alive_at is not None}
    if not alive:
        return
    proofs = _move_proof(cluster_id, alive)
    if proofs:
        with locks.ordered():
            billing.prove(proofs, at=clock.now())


def _move_proof(cluster_id: UUID, alive: Mapping[tuple[UUID, int], datetime | None]) -> dict[UUID, datetime]:
    """Note on each run when it was seen alive, in one statement; answers the runs that this was news of.

    Compare and set: a report may know better meanwhile. Rows are locked in the order of their ids first: another beat does
    the same.
    """
    sessions, numbers = zip(*alive, strict=True)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_MOVE_PROOF, [list(sessions), list(numbers), list(alive.values()), cluster_id])
        return dict(cursor.fetchall())


_MOVE_PROOF = """
    WITH seen AS MATERIALIZED (
        SELECT run.id, alive.at FROM sessions_app_run run
        JOIN unnest(%s::uuid[], %s::int[], %s::timestamptz[]) AS alive (session_id, number, at)
            ON run.session_id = alive.session_id AND run.number = alive.number
        WHERE run.cluster_id = %s AND run.closed_at IS NULL AND (run.last_alive_at IS NULL OR run.last_alive_at < alive.at)
        ORDER BY run.id FOR NO KEY UPDATE OF run
    )
    UPDATE sessions_app_run run SET last_alive_at = seen.at FROM seen
    WHERE run.id = seen.id AND run.closed_at IS NULL AND (run.last_alive_at IS NULL OR run.last_alive_at < seen.at)
    RETURNING run.id, run.last_alive_at
"""
