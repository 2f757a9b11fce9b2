"""Why a pod cannot start, in the words of the scheduler, of HAMi, of the kubelet or of the registry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster.domain import hami
from cluster.domain.kube import Object, condition, moment, part, text
from cluster.operator.reading.endings import NOT_ADMITTED
from cluster.operator.reading.nodes import NodeState
from cluster.operator.state import Trouble
from gshare_core.contract import Reason

LABEL_HOSTNAME = "kubernetes.io/hostname"
_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
# What no second try changes.
_FOR_GOOD = re.compile(
    r"InvalidImageName|ErrImageNeverPull|not found|manifest unknown|no match for platform|no matching manifest|unauthorized"
    r"|denied|forbidden|authentication required|invalid reference",
    re.IGNORECASE,
)
_CREATION = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"})
_MOUNT_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SAYS_NOTHING = re.compile(r'^(Back-off pulling image "[^"]*"|Error: \w+)$')


@dataclass(frozen=True, slots=True)
class Patience:
    """How long something may go wrong before it is a trouble."""

    image: timedelta = timedelta(seconds=60)
    scheduling: timedelta = timedelta(seconds=60)
    node_lock: timedelta = timedelta(seconds=120)
    mount: timedelta = timedelta(seconds=120)
    creation: timedelta = timedelta(seconds=30)


def trouble_of(
    pod: Object,
    container: Object,
    nodes: Mapping[str, NodeState],
    events: Sequence[Object],
    now: datetime,
    patience: Patience,
) -> Trouble | None:
    """The trouble of a pod that nobody asked to end; None while there is none, or none yet."""
    if text(pod, "status", "phase") == "Failed" and NOT_ADMITTED.fullmatch(text(pod, "status", "reason")):
        said = text(pod, "status", "message") or text(pod, "status", "reason")
        return Trouble(Reason.CLAIM_MISMATCH, f"The node did not admit the pod: {said}")
    if not text(pod, "spec", "nodeName"):
        return _unscheduled(pod, nodes, events, now, patience)
    return _waiting(pod, container, events, now, patience) or _unmounted(pod, container, events, now, patience)


def _unscheduled(
    pod: Object, nodes: Mapping[str, NodeState], events: Sequence[Object], now: datetime, patience: Patience
) -> Trouble | None:
    pinned = text(pod, "spec", "nodeSelector", LABEL_HOSTNAME)
    if pinned and nodes and pinned not in nodes and pinned not in {state.hostname for state in nodes.values()}:
        return Trouble(Reason.NODE_GONE, f"Node {pinned} no longer exists.")
    scheduled = condition(pod, "PodScheduled")
    said = text(scheduled, "message") if scheduled.get("status") == "False" else ""
    if not said:
        return None
    waits = now - (moment(pod, "metadata", "creationTimestamp") or now)
    if hami.is_lock_contention(said):
        return Trouble(Reason.NODE_LOCK, said) if waits >= patience.node_lock else None
    if waits < patience.scheduling:
        return None
    # The scheduler counts nodes; HAMi's event names what is wrong with the card.
    hamis = [text(event, "message") for event in events if text(event, "reason") == "FilteringFailed"]
    return Trouble(Reason.CLAIM_MISMATCH, f"{said} {hamis[-1]}" if hamis else said)


def _waiting(
    pod: Object, container: Object, events: Sequence[Object], now: datetime, patience: Patience
) -> Trouble | None:
    """What the kubelet says of a container that does not start."""
    waiting = part(container, "state", "waiting")
    why, said = text(waiting, "reason"), text(waiting, "message")
    since = now - (moment(condition(pod, "PodScheduled"), "lastTransitionTime") or _born(pod) or now)
    if why in _IMAGE:
        said = _image_words(why, said, events)
        lasting = why in ("InvalidImageName", "ErrImageNeverPull") or _FOR_GOOD.search(said) is not None
        return Trouble(Reason.IMAGE_PULL_FAILED, said) if lasting or since >= patience.image else None
    if why in _CREATION and since >= patience.creation:
        return Trouble(Reason.CRASH_LOOP, f"{why}: {said}" if said else why)
    return None


def _image_words(why: str, said: str, events: Sequence[Object]) -> str:
    """The registry's words: while it backs off, older kubelets only say that; the event before has said why."""
    if said and not _SAYS_NOTHING.match(said.strip()):
        return said
    failed = [
        text(event, "message")
        for event in events
        if text(event, "reason") == "Failed" and "pull" in text(event, "message").lower()
    ]
    return next((words for words in reversed(failed) if not _SAYS_NOTHING.match(words)), said or why)


def _unmounted(
    pod: Object, container: Object, events: Sequence[Object], now: datetime, patience: Patience
) -> Trouble | None:
    """A volume that does not come: only events tell of it."""
    if text(container, "state", "waiting", "reason") not in ("ContainerCreating", "PodInitializing"):
        return None
    failed = [event for event in events if text(event, "reason") in _MOUNT_EVENTS]
    born = _born(pod)
    if not failed or born is None or now - born < patience.mount:
        return None
    return Trouble(Reason.MOUNT_FAILED, text(failed[-1], "message"))


def _born(pod: Object) -> datetime | None:
    return moment(pod, "metadata", "creationTimestamp")
