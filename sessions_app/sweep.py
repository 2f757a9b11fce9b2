"""The reconciling sweep: what every connected cluster has against what the rows want, and back again.

Guarantees: a document that is missing, was deleted by hand or fell behind is written again; a pod that nobody wants is told
to end; a run that should be there and is not listed is asked for by a new generation, which makes its operator report it
(a `gone` that was lost comes again); rows that contradict each other (one restored from a backup) end resumable, settled.
Every step judges its session again under its lock, may be repeated and interrupted; one that fails stops no other.
Refuses to end more than can be believed: it raises the alarm on the cluster and goes on when an administrator confirms or
the difference shrinks. What ends nothing goes on meanwhile. A cluster that is silent is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import F

from cluster import queries as cluster_queries
from cluster import services as cluster
from cluster.adapters import port_of_cluster
from cluster.domain.told import Told
from cluster.port import ClusterPort, PortError, Rejected
from cluster.queries import Swept
from gshare_core.contract import ABSURD_PERCENT, DesiredDocument
from gshare_core.kit import clock
from sessions_app import mending
from sessions_app.domain.lifecycle import OCCUPYING, TRAITS, State
from sessions_app.domain.sweeping import End, Plan, Pod, Scene, Wanted, plan, refuses
from sessions_app.held import current_run, lock_session
from sessions_app.models import Run, Session
from sessions_app.stepping import stepped_in_order
from sessions_app.transition import write_desired

logger = structlog.get_logger(__name__)

# What keeps its card or its memory on a node; in the second its absence from an inventory means something.
_HOLDING = (*OCCUPYING, State.YIELDED)
_LIVING = frozenset({State.RUNNING, State.LOST, State.YIELDED})


def sweep(ports: Callable[[UUID], ClusterPort] = port_of_cluster) -> int:
    """One pass over the rows and every connected cluster; answers how many sessions were touched. A tick."""
    return mending.mend() + sum(_swept(found, ports) for found in cluster_queries.clusters_to_sweep())


def _swept(found: Swept, ports: Callable[[UUID], ClusterPort]) -> int:
    try:
        return _sweep(found, ports(found.cluster_id))
    except PortError as error:
        logger.warning("cluster_not_swept", cluster=str(found.cluster_id), error=str(error))
    except Exception as error:
        # Whatever one cluster's rows do not allow stops no other.
        logger.exception("sweep_failed", cluster=str(found.cluster_id), error=str(error))
    return 0


def _sweep(found: Swept, port: ClusterPort) -> int:
    at = clock.now()
    scene = _scene(found, _deliver(found.cluster_id, port), at)
    todo = plan(scene, settle_before=at - settings.GSHARE.sweep_settle)
    moved = sum(
        stepped_in_order(_write_again, session, found.cluster_id) for session in todo.write if session not in todo.ahead
    )
    moved += sum(stepped_in_order(_ask_again, session, found.cluster_id) for session in todo.quiet)
    moved += sum(_buried(end, found.cluster_id, confirmed=False) for end in todo.bury)
    for session, (run, generation) in todo.ahead.items():
        if run == scene.wanted[session].run:
            moved += stepped_in_order(_catch_up(generation), session, found.cluster_id)
    return moved + _end(found, scene, todo, at)


def _end(found: Swept, scene: Scene, todo: Plan, at: datetime) -> int:
    """End what nobody wants, unless it is too much to be believed."""
    total = len(todo.ends) + todo.pending
    listed = len(scene.listed)
    absurd = refuses(todo, listed, percent=settings.GSHARE.sweep_absurd_percent, restored=found.restored_at is not None)
    if absurd and total > found.confirmed:
        cluster.hold_sweep(cluster_id=found.cluster_id, ends=total, listed=listed, at=at)
        return 0
    # Whatever the operator's own brake would refuse was confirmed here, or allowed by the setting.
    meant = absurd or refuses(todo, listed, percent=ABSURD_PERCENT, restored=False)
    ended = sum(_buried(end, found.cluster_id, confirmed=meant) for end in todo.ends)
    looked_since = found.restored_at is None or (found.listing is not None and scene.observed_at > found.restored_at)
    if not absurd or ended == len(todo.ends):
        cluster.release_sweep(cluster_id=found.cluster_id, restored=looked_since)
    return ended


# The scene -----------------------------------------------------------------------------------------------------------


def _deliver(cluster_id: UUID, port: ClusterPort) -> dict[UUID, Told]:
    """Apply what the cluster lacks of its documents; answers what it is told, with what only the cluster has."""
    told = cluster_queries.told(cluster_id)
    have = {seen.session: seen for seen in port.observe()}
    lacking = {
        session
        for session, row in told.items()
        if session not in have
        or (have[session].run, have[session].generation) < (row.run, row.generation)
        or (row.is_tombstone and not have[session].is_tombstone)
    }
    for document in cluster_queries.documents_of(cluster_id) if lacking else ():
        if document.session in lacking:
            _apply(port, document, cluster_id)
    only_there = {session: seen for session, seen in have.items() if session not in told}
    gone = _gone(cluster_id, only_there.keys())
    for session, seen in only_there.items():
        if gone.get((session, seen.run)) is not None:
            port.remove(session)  # its end was acknowledged: the document outlived its row
        else:
            told[session] = Told(seen.run, seen.generation, seen.is_tombstone, clock.now(), seen.is_tombstone)
    return told


def _apply(port: ClusterPort, document: DesiredDocument, cluster_id: UUID) -> None:
    """One document that a cluster will never take stops none of its neighbours."""
    try:
        port.apply(document)
    except Rejected as error:
        session, reason = str(document.session), str(error)
        logger.error("document_refused", session=session, cluster=str(cluster_id), error=reason)  # noqa: TRY400


def _scene(found: Swept, told: Mapping[UUID, Told], at: datetime) -> Scene:
    listing = found.listing
    if listing is not None and at - listing.observed_at > settings.GSHARE.cluster_suspect_after:
        listing = None  # of a time before: it says nothing of now
    pods = tuple(Pod(*row) for row in listing.pods) if listing else ()
    sessions = {pod.session for pod in pods} | told.keys()
    return Scene(
        wanted=_wanted(found.cluster_id),
        told=told,
        listed=pods,
        observed_at=listing.observed_at if listing else at,
        all_listed=listing is not None and listing.is_complete,
        gone=_gone(found.cluster_id, sessions),
        orphans=cluster_queries.orphaned(found.cluster_id),
    )


def _wanted(cluster_id: UUID) -> dict[UUID, Wanted]:
    runs = Run.objects.filter(
        cluster=cluster_id, closed_at=None, number=F("session__run_number"), session__state__in=_HOLDING
    )
    rows = runs.values_list("session_id", "number", "session__generation", "session__state")
    return {session: Wanted(number, generation, State(state) in _LIVING) for session, number, generation, state in rows}


def _gone(cluster_id: UUID, sessions: Iterable[UUID]) -> dict[tuple[UUID, int], datetime | None]:
    """When the runs that a cluster had of these sessions were gone; None for those that are not known to be."""
    runs = Run.objects.filter(cluster=cluster_id, session_id__in=list(sessions))
    return {(session, run): gone_at for session, run, gone_at in runs.values_list("session_id", "number", "gone_at")}


# One session ---------------------------------------------------------------------------------------------------------


def _held_here(session_id: UUID, cluster_id: UUID) -> tuple[Session, Run] | None:
    """The session, locked, with its current run, if that holds a place on this cluster."""
    session = lock_session(session_id)
    run = current_run(session) if session is not None else None
    if session is None or run is None or run.closed_at is not None or run.cluster_id != cluster_id:
        return None
    return (session, run) if session.life in _HOLDING else None


def _write_again(session_id: UUID, cluster_id: UUID) -> bool:
    """The cluster's document of the session is missing or older than what is wanted."""
    held = _held_here(session_id, cluster_id)
    if held is None:
        return False
    session, run = held
    told = cluster_queries.told(cluster_id, session_id=session_id).get(session_id)
    if told is not None and (told.run, told.generation) >= (run.number, session.generation):
        return False
    write_desired(session, run, at=clock.now())
    logger.warning("document_written_again", session=str(session_id), run=run.number, generation=session.generation)
    return True


def _ask_again(session_id: UUID, cluster_id: UUID) -> bool:
    """Its run should be there and is not listed: a new generation, which the operator reports on, whatever it knows.

    Each further try doubles the step, so that rows older than the operator's memory catch up with it.
    """
    held = _held_here(session_id, cluster_id)
    if held is None or held[0].life not in _LIVING:
        return False
    session, run = held
    if not cluster_queries.node_is_ready(cluster_id=cluster_id, node=run.node):
        return False
    session.generation += max(0, session.generation - run.reported_generation - 1)
    write_desired(session, run, at=clock.now())
    logger.warning("run_is_not_listed", session=str(session_id), run=run.number, generation=session.generation)
    return True


def _catch_up(generation: int) -> Callable[[UUID, UUID], bool]:
    """The operator has observed a later generation than the session's row knows: go on above it."""

    def step(session_id: UUID, cluster_id: UUID) -> bool:
        held = _held_here(session_id, cluster_id)
        if held is None or held[0].generation >= generation:
            return False
        session, run = held
        session.generation = generation
        write_desired(session, run, at=clock.now())
        logger.warning("session_row_was_older", session=str(session_id), run=run.number, generation=session.generation)
        return True

    return step


def _buried(end: End, cluster_id: UUID, *, confirmed: bool) -> int:
    def step(session_id: UUID, cluster_id: UUID) -> bool:
        return _bury(end, cluster_id, confirmed=confirmed)

    return stepped_in_order(step, end.session, cluster_id)


def _bury(end: End, cluster_id: UUID, *, confirmed: bool) -> bool:
    """Tell the cluster that nothing of the run is wanted; a session whose rows are older is put right first."""
    session = lock_session(end.session)
    at = clock.now()
    if session is not None:
        run = current_run(session)
        holds = run is not None and run.cluster_id == cluster_id and TRAITS[session.life].occupies
        if holds and run is not None and run.number >= end.run:
            return False  # wanted by now
        mending.outrun(session, end.run, at=at, ends_current=holds)
    written = cluster.write_tombstone(
        session_id=end.session,
        cluster_id=cluster_id,
        run=end.run,
        generation=end.generation,
        at=at,
        confirmed=confirmed,
    )
    logger.warning("unwanted_run_ended", session=str(end.session), run=end.run, cluster=str(cluster_id))
    return written is not None
