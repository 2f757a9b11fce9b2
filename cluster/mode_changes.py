"""Looking after mode changes: tells clusters what is wanted of cards that are empty, and takes in what came of it.

Guarantees: level-triggered, from the rows and from what each cluster has now, so that it may be killed at any point, come
twice or late; a row says that a cluster may know of a change before the cluster is told. Calls are made outside every
transaction; a cluster that cannot be reached delays only its own changes, and none of its deadlines passes meanwhile.
Until the end of one change was forgotten by the cluster, none of the same node is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import Q

from cluster.adapters import port_of_cluster
from cluster.domain.modes import Limits, Step, Told, next_step
from cluster.heartbeat import silent_for
from cluster.models import Card, ModeChange
from cluster.port import ClusterPort, ModeSeen, PortError, Rejected
from cluster.services import modes
from gshare_core.contract.resources import ModeChange as Wanted
from gshare_core.kit import clock

logger = structlog.get_logger(__name__)

State = ModeChange.State


def look_after(ports: Callable[[UUID], ClusterPort] = port_of_cluster) -> int:
    """One pass over the changes that are not over everywhere; answers how many there are. A tick."""
    rows = ModeChange.objects.filter(Q(closed_at=None) | Q(is_written=True)).select_related("node__cluster")
    changes = sorted(rows, key=lambda change: (change.node.cluster_id, change.pk))
    for cluster_id, of_cluster in groupby(changes, key=lambda change: change.node.cluster_id):
        _look(cluster_id, list(of_cluster), ports)
    return len(changes)


def _look(cluster_id: UUID, changes: Sequence[ModeChange], ports: Callable[[UUID], ClusterPort]) -> None:
    for change in changes:
        if change.node.retired_at is not None or change.node.cluster.removed_at is not None:
            modes.lose_change(change.pk)
    present = [change for change in changes if change.node.retired_at is None]
    for change in present:
        if change.state == State.DRAINING:
            _wait_for_empty(change)
    told = ModeChange.objects.filter(pk__in=[change.pk for change in present], is_written=True)
    written = list(told.select_related("node__cluster").order_by("pk"))
    if not written:
        return
    try:
        port = ports(cluster_id)
        for change in written:
            if change.closed_at is not None:
                port.forget_mode(change.pk)
                modes.forgotten(change.pk)
        open_ones = [change for change in written if change.closed_at is None]
        seen = {each.change: each for each in port.modes()} if open_ones else {}
        for change in open_ones:
            _go_on(change, port, seen)
        _forget_strays(port, seen)
    except PortError as error:
        logger.warning("mode_changes_not_seen", cluster=str(cluster_id), error=str(error))


def _wait_for_empty(change: ModeChange) -> None:
    held = modes.apply_when_empty(change.pk)
    if held and silent_for(change.stepped_at, clock.now()) > settings.GSHARE.mode_empty_within:
        modes.fail_change(change.pk, held)


def _forget_strays(port: ClusterPort, seen: Mapping[UUID, ModeSeen]) -> None:
    """What somebody slower told the cluster after it was over here."""
    over = ModeChange.objects.filter(pk__in=seen, closed_at__isnull=False, is_written=False)
    for change_id in over.order_by("pk").values_list("pk", flat=True):
        port.forget_mode(change_id)


def _go_on(change: ModeChange, port: ClusterPort, seen: Mapping[UUID, ModeSeen]) -> None:
    """One change that its cluster was, or may have been, told of."""
    said = seen.get(change.pk)
    if said is not None:
        modes.note_phase(change.pk, said.phase, said.message, has_begun=said.begun)
        change.refresh_from_db(
            fields=["state", "phase", "stepped_at", "message", "has_begun", "calls_off", "closed_at"]
        )
    if change.closed_at is not None:
        return
    phase = said.phase if said is not None else None
    step, why = next_step(_told(change), phase, is_known=said is not None, limits=_limits())
    if step is Step.FINISH:
        modes.finish_change(change.pk)
    elif step is Step.FAIL:
        modes.fail_change(change.pk, "; ".join(word for word in (why, change.message) if word))
    elif step is Step.WITHDRAW:
        _withdraw(change, port)
    elif step is Step.TELL:
        _tell(change, port)


def _tell(change: ModeChange, port: ClusterPort) -> None:
    wanted = Wanted(node=change.node.name, card_uuids=tuple(change.card_uuids), target_mode=change.target)
    try:
        port.change_mode(change.pk, wanted)
        modes.note_told(change.pk)
    except Rejected as error:
        modes.note_phase(change.pk, None, f"the cluster refuses: {error}", has_begun=False)
        logger.error("mode_change_refused", node=change.node.name, error=str(error))  # noqa: TRY400 -- the refusal says it all


def _withdraw(change: ModeChange, port: ClusterPort) -> None:
    if port.withdraw_mode(change.pk):
        modes.withdrawn(change.pk)
    else:
        modes.note_phase(change.pk, None, "", has_begun=True)


def _told(change: ModeChange) -> Told:
    cards = Card.objects.filter(node=change.node_id, retired_at=None)
    return Told(
        is_failed=change.state == State.FAILED,
        has_begun=change.has_begun,
        calls_off=change.calls_off,
        waited=silent_for(change.stepped_at, clock.now()),
        confirmed=modes.is_confirmed(change, list(cards)),
    )


def _limits() -> Limits:
    return Limits(answer=settings.GSHARE.mode_answer_within, done=settings.GSHARE.mode_done_within)
