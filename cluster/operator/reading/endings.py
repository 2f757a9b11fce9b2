"""Why a pod ended, or is ending, although neither its program nor we asked for it."""

from __future__ import annotations

import re

from cluster.domain.kube import Object, condition, text
from gshare_core.contract import Reason

# The kubelet's words for local storage: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
_DISK = re.compile(r"ephemeral|local storage|emptyDir", re.IGNORECASE)
#: Refused by its node's kubelet before anything ran: a placement that failed, not an end.
NOT_ADMITTED = re.compile(
    r"UnexpectedAdmissionError|OutOf[A-Za-z]+|NodeAffinity|NodePorts|Topology[A-Za-z]+Error|Admission.*"
)
_OF_DISRUPTION = {
    "EvictionByEvictionAPI": Reason.DRAINED,
    "DeletionByTaintManager": Reason.NODE_LOST,
    "DeletionByPodGC": Reason.NODE_LOST,
    "PreemptionByScheduler": Reason.EVICTED,
    "TerminationByKubelet": Reason.EVICTED,
}


def lost_reason(pod: Object, *, node_exists: bool) -> Reason | None:
    """The reason of `gone` that the cluster itself gave; None while it gave none."""
    if not node_exists:
        return Reason.NODE_LOST
    why, said = text(pod, "status", "reason"), text(pod, "status", "message")
    if why == "Evicted":
        return _of_eviction(said)
    if why in ("NodeLost", "NodeShutdown") or (why == "Terminated" and "shutdown" in said):
        return Reason.NODE_LOST
    disruption = condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True":
        # A graceful shutdown of the node is said in the same words as an eviction by the kubelet.
        if "shutdown" in text(disruption, "message"):
            return Reason.NODE_LOST
        return _OF_DISRUPTION.get(text(disruption, "reason"), Reason.EVICTED)
    ended = text(pod, "status", "phase") == "Failed" and not NOT_ADMITTED.fullmatch(why)
    # With `OnFailure` no program of ours fails a pod, unless somebody asked for its end.
    return Reason.VANISHED if ended and not text(pod, "metadata", "deletionTimestamp") else None


def _of_eviction(said: str) -> Reason:
    """A pod that exceeded its own storage, against one that had to go because its node was short of something."""
    return Reason.DISK_EXCEEDED if _DISK.search(said) and "node was low" not in said else Reason.EVICTED
