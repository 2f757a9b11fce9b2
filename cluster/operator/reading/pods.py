"""A session's pod of Kubernetes as `converge` sees pods: alive, ready, its troubles and its end, in the words of who knows.

Guarantees
* only pods that carry a session and a run are ours; every other one is None;
* the card that was bound is compared with the claim (`gshare.io/cards`) as soon as HAMi has chosen, before anything runs;
* on a silent node nothing is concluded: the pod is alive, its proof of life is the node's last sign; on a node that no longer
  exists nothing runs;
* a crash loop is never ready; a program that ended by itself without an error has exited;
* what may be a passing trouble (an image that cannot be pulled now, a node lock, no room) is one only after some patience.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from cluster.domain import hami
from cluster.domain.kube import (
    Object,
    annotation,
    condition,
    has_ended,
    in_order,
    label,
    moment,
    name,
    number,
    part,
    rows,
    session_of,
    text,
)
from cluster.operator.manifests.gpu import USE_UUID
from cluster.operator.manifests.stamps import ANNOTATION_CARDS, ANNOTATION_GENERATION
from cluster.operator.reading.endings import lost_reason
from cluster.operator.reading.nodes import NodeState
from cluster.operator.reading.troubles import Patience, trouble_of
from cluster.operator.state import Pod, Trouble
from gshare_core.contract import LABEL_RUN, MigSlice, Reason

_YOUNG = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else is known: the cluster's nodes by name, the moment, the pod's events in any order, its crashes that were seen
    before."""

    nodes: Mapping[str, NodeState]
    now: datetime
    events: Sequence[Object] = ()
    crashed_at: tuple[datetime, ...] = ()
    patience: Patience = field(default_factory=Patience)


def read_pod(pod: Object, around: Surroundings) -> Pod | None:
    """The pod; None when it is not a session's."""
    identity = run_of(pod)
    if identity is None:
        return None
    session, run = identity
    events = in_order(around.events)
    node = text(pod, "spec", "nodeName")
    container = _container(pod)
    crashed_at = _crashes(pod, container, around)
    stopping_since = _stopping_since(pod)
    lost = lost_reason(pod, node_exists=not node or node in around.nodes)
    alive = not has_ended(pod) and (not node or node in around.nodes)
    trouble = None
    if stopping_since is None and lost is None:
        trouble = _mismatch(pod) or trouble_of(pod, container, around.nodes, events, around.now, around.patience)
    return Pod(
        session=session,
        run=run,
        generation=_whole(annotation(pod, ANNOTATION_GENERATION)),
        name=name(pod),
        node=node,
        alive=alive,
        alive_at=_alive_at(pod, container, node, alive=alive, around=around),
        ready=alive and _is_ready(pod, container),
        pulling=alive and trouble is None and _is_pulling(container, events),
        exited=_has_exited(pod, container),
        cards=bound_cards(pod),
        mig=_slice(pod),
        crashed_at=crashed_at,
        words=words_of(container),
        trouble=trouble,
        lost=lost,
        stopping_since=stopping_since,
    )


def bound_cards(pod: Object) -> tuple[str, ...]:
    """The cards that HAMi has allotted to the pod, each once; those of the claim for a borrower, which HAMi does not know."""
    if annotation(pod, hami.ASSIGNED_NODE) is None:
        borrows = text(pod, "spec", "nodeName") and annotation(pod, USE_UUID) is None
        return claimed_cards(pod) if borrows else ()
    containers = hami.read_devices(annotation(pod, hami.ALLOCATED)) or ()
    return tuple(dict.fromkeys(device.uuid for devices in containers for device in devices))


def claimed_cards(pod: Object) -> tuple[str, ...]:
    """The cards of the claim that the pod was made for."""
    return tuple(uuid for uuid in (annotation(pod, ANNOTATION_CARDS) or "").split(",") if uuid)


def _mismatch(pod: Object) -> Trouble | None:
    """A card that was not claimed, or none where one was: nothing that runs there is what was paid for."""
    claimed, bound = claimed_cards(pod), bound_cards(pod)
    chosen = annotation(pod, hami.ASSIGNED_NODE) is not None or bool(text(pod, "spec", "nodeName"))
    if not claimed or not chosen or set(bound) == set(claimed):
        return None
    said = ", ".join(bound) or "no card"
    return Trouble(Reason.CLAIM_MISMATCH, f"HAMi has bound {said} where {', '.join(claimed)} was claimed.")


def run_of(pod: Object) -> tuple[UUID, int] | None:
    """Whose pod it is: session and run; None for one that is no session's."""
    session, run = session_of(pod), _whole(label(pod, LABEL_RUN))
    return (session, run) if session is not None and run > 0 else None


def _whole(written: str | None) -> int:
    return int(written) if written is not None and written.isascii() and written.isdigit() else 0


def _container(pod: Object) -> Object:
    """The status of the session's container; an empty one before the kubelet has said anything."""
    return next(iter(rows(pod, "status", "containerStatuses")), {})


def _is_ready(pod: Object, container: Object) -> bool:
    waits = bool(part(container, "state", "waiting"))
    return condition(pod, "Ready").get("status") == "True" and not waits


def _has_exited(pod: Object, container: Object) -> bool:
    ended = part(container, "state", "terminated")
    return text(pod, "status", "phase") == "Succeeded" or (bool(ended) and number(ended, "exitCode") == 0)


def _is_pulling(container: Object, events: Sequence[Object]) -> bool:
    """Whether the image is on its way: the kubelet says when it begins and when it has it."""
    if text(container, "state", "waiting", "reason") not in ("ContainerCreating", "ErrImagePull", "ImagePullBackOff"):
        return False
    said = [text(event, "reason") for event in events if text(event, "reason") in ("Pulling", "Pulled")]
    backing_off = text(container, "state", "waiting", "reason") != "ContainerCreating"
    return backing_off or (bool(said) and said[-1] == "Pulling")


def _alive_at(pod: Object, container: Object, node: str, *, alive: bool, around: Surroundings) -> datetime | None:
    """The latest proof of life: now where the node speaks, else its last sign; when it ended, where it has."""
    if not alive:
        ended = moment(container, "state", "terminated", "finishedAt")
        return min(ended, around.now) if ended else None
    state = around.nodes.get(node)
    if state is None or state.ready:
        return around.now
    return min(state.heartbeat_at, around.now) if state.heartbeat_at else None


def _crashes(pod: Object, container: Object, around: Surroundings) -> tuple[datetime, ...]:
    """Each exit with an error, oldest first: those seen before and the last that Kubernetes still tells of.

    It tells of one time only, and of the number of restarts. Those that nobody saw are counted at the last time where the
    pod itself is younger than the window in which crashes count, and left out where they may be older.
    """
    known = set(around.crashed_at)
    for place in ("lastState", "state"):
        ended = part(container, place, "terminated")
        at = moment(ended, "finishedAt")
        if at is not None and number(ended, "exitCode") != 0:
            known.add(at)
    times = sorted(known)
    started = moment(pod, "status", "startTime")
    unseen = number(container, "restartCount") - len(times)
    if times and started and unseen > 0 and times[-1] - started < _YOUNG:
        times = sorted([*times, *[times[-1]] * unseen])
    return tuple(times)


def words_of(container: Object) -> str:
    """The container's own words: the last lines of its log, else why it ended, else why it waits."""
    for place in ("state", "lastState"):
        ended = part(container, place, "terminated")
        if ended and (number(ended, "exitCode") != 0 or text(ended, "message")):
            said = text(ended, "message").strip()
            why = text(ended, "reason") or "Error"
            return (
                said if said and why != "OOMKilled" else f"{why} (exit code {number(ended, 'exitCode')}) {said}".strip()
            )
    return text(container, "state", "waiting", "message")


def _stopping_since(pod: Object) -> datetime | None:
    """When the end was asked for: Kubernetes tells when its grace is over."""
    over = moment(pod, "metadata", "deletionTimestamp")
    return over - timedelta(seconds=number(pod, "metadata", "deletionGracePeriodSeconds")) if over else None


def _slice(pod: Object) -> MigSlice | None:
    """The MIG instance that HAMi chose; it is adopted, whatever was predicted."""
    instances = hami.read_instances(annotation(pod, hami.MIG_ALLOCATIONS))
    return MigSlice(profile=instances[0].profile, start=instances[0].start) if instances else None
