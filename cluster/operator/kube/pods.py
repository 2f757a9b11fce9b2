"""What a pod's object says of a run: whether it lives, is ready, why it cannot start or was taken away. Pure.

Guarantees: the container's own words are passed on; what a field does not say is not guessed. The sources are the fields of
Kubernetes' pod status (PodStatus, ContainerState, the DisruptionTarget condition).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cluster.operator.converge import CRASHES
from cluster.operator.manifests.stamps import ANNOTATION_GENERATION
from cluster.operator.state import Pod, Trouble
from gshare_core.contract import LABEL_RUN, LABEL_SESSION, Reason

_NO_IMAGE = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_NO_CONTAINER = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_TAKEN = {
    "DeletionByTaintManager": Reason.NODE_LOST,
    "DeletionByPodGC": Reason.NODE_LOST,
    "EvictionByEvictionAPI": Reason.DRAINED,
    "TerminationByKubelet": Reason.EVICTED,
    "PreemptionByScheduler": Reason.EVICTED,
}
_FAILED = {
    "Evicted": Reason.EVICTED,
    "NodeLost": Reason.NODE_LOST,
    "NodeShutdown": Reason.DRAINED,
    "Terminated": Reason.DRAINED,
    "Shutdown": Reason.DRAINED,
}
_WORDS = 500


def pod_of(item: Mapping[str, Any], now: datetime, *, node_ready: bool = True) -> Pod | None:
    """The pod of a run; None for an object that carries no session's labels. `node_ready`: whether its node still speaks."""
    metadata, status = item["metadata"], item.get("status") or {}
    labels = metadata.get("labels") or {}
    try:
        session, run = UUID(labels[LABEL_SESSION]), int(labels[LABEL_RUN])
    except (KeyError, ValueError):
        return None
    phase, container = status.get("phase", "Pending"), _container(status)
    running = "running" in _state(container)
    stopping = _stopping_since(metadata)
    return Pod(
        session=session,
        run=run,
        generation=_number((metadata.get("annotations") or {}).get(ANNOTATION_GENERATION), 1),
        name=metadata["name"],
        node=node_of(item),
        alive=phase not in {"Succeeded", "Failed"},
        alive_at=now if running and node_ready else None,
        ready=_condition(status, "Ready") == "True" and running and node_ready,
        pulling=phase == "Pending" and _waiting(container).get("reason") == "ContainerCreating",
        exited=phase == "Succeeded",
        crashed_at=_crashes(container),
        words=_words(container),
        trouble=_trouble(container),
        lost=_lost(status, phase),
        stopping_since=stopping,
    )


def node_of(item: Mapping[str, Any]) -> str:
    """The node that a pod is on, or is meant for."""
    spec = item.get("spec") or {}
    return str(spec.get("nodeName") or (spec.get("nodeSelector") or {}).get("kubernetes.io/hostname") or "")


def is_bound(item: Mapping[str, Any]) -> bool:
    """Whether the pod no longer keeps its node's lock: it has its cards, or is over."""
    status = item.get("status") or {}
    over = status.get("phase") in {"Succeeded", "Failed"} or item["metadata"].get("deletionTimestamp")
    return bool(over) or bool((item.get("spec") or {}).get("nodeName") and status.get("containerStatuses"))


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(iter(status.get("containerStatuses") or ()), {})


def _state(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("state") or {}


def _waiting(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return _state(container).get("waiting") or {}


def _trouble(container: Mapping[str, Any]) -> Trouble | None:
    waiting = _waiting(container)
    reason, message = waiting.get("reason"), str(waiting.get("message") or "")[:_WORDS]
    if reason in _NO_IMAGE:
        return Trouble(Reason.IMAGE_PULL_FAILED, message)
    if reason in _NO_CONTAINER:
        return Trouble(Reason.CRASH_LOOP, message)
    return None


def _ended(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return _state(container).get("terminated") or (container.get("lastState") or {}).get("terminated") or {}


def _crashes(container: Mapping[str, Any]) -> tuple[datetime, ...]:
    """Kubernetes keeps the last one and counts the others: as many as make a loop are said to be as new as the last."""
    ended, count = _ended(container), int(container.get("restartCount") or 0)
    if not ended.get("exitCode") or not ended.get("finishedAt"):
        return ()
    return (_moment(ended["finishedAt"]),) * min(max(count, 1), CRASHES)


def _words(container: Mapping[str, Any]) -> str:
    ended = _ended(container)
    return str(ended.get("message") or ended.get("reason") or "").strip()[-_WORDS:]


def _lost(status: Mapping[str, Any], phase: str) -> Reason | None:
    taken = next((row for row in status.get("conditions") or () if row.get("type") == "DisruptionTarget"), None)
    if taken is not None and taken.get("status") == "True":
        return _disk(status, _TAKEN.get(str(taken.get("reason")), Reason.EVICTED))
    if phase == "Failed":
        return _disk(status, _FAILED.get(str(status.get("reason")), Reason.VANISHED))
    return None


def _disk(status: Mapping[str, Any], reason: Reason) -> Reason:
    said = str(status.get("message") or "")
    return Reason.DISK_EXCEEDED if reason is Reason.EVICTED and "ephemeral" in said and "exceed" in said else reason


def _condition(status: Mapping[str, Any], kind: str) -> str:
    return next((str(row.get("status")) for row in status.get("conditions") or () if row.get("type") == kind), "")


def _stopping_since(metadata: Mapping[str, Any]) -> datetime | None:
    """`deletionTimestamp` is when the grace will be over."""
    due = metadata.get("deletionTimestamp")
    if not due:
        return None
    return _moment(due) - timedelta(seconds=_number(metadata.get("deletionGracePeriodSeconds"), 0))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _number(value: object, otherwise: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return otherwise
