"""What tracked pods hold: everything that carries the annotation of its node and has not ended, bound or not.

A reservation is dropped at its pod's next filter; if that one refuses, the pod's old annotations bring it back with the
pod's next event. A pod that is being deleted keeps what it holds, but one that is first seen then is never counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.kube.hami_twin import words
from tests.kube.hami_twin.allocations import MigInstance, Taken, decode, decode_mig, taken_by
from tests.kube.hami_twin.requests import Pod, annotations_of, init_count
from tests.kube.hami_twin.usage import Holding


@dataclass(frozen=True, slots=True)
class Reservation:
    """A tracked pod."""

    namespace: str
    node: str
    holding: Holding
    init_done: bool = False


def namespace_of(pod: Pod) -> str:
    """The pod's namespace."""
    return str(pod["metadata"].get("namespace") or "default")


def uid_of(pod: Pod) -> str:
    """What identifies a pod."""
    return str(pod["metadata"].get("uid") or f"{namespace_of(pod)}/{pod['metadata']['name']}")


class Reservations:
    """The tracked pods."""

    def __init__(self) -> None:
        self._tracked: dict[str, Reservation] = {}

    def uids(self) -> frozenset[str]:
        """What identifies the tracked pods."""
        return frozenset(self._tracked)

    def on_node(self, node: str) -> Iterator[Holding]:
        """What pods hold on a node."""
        return (tracked.holding for tracked in self._tracked.values() if tracked.node == node)

    def in_namespace(self, namespace: str) -> list[Taken]:
        """What pods of a namespace hold, anywhere."""
        return [
            taken
            for tracked in self._tracked.values()
            if tracked.namespace == namespace
            for taken in tracked.holding.taken
        ]

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._tracked.pop(uid, None)

    def reserve(self, pod: Pod, annotations: Mapping[str, str], taken: Sequence[Taken]) -> None:
        """Track a pod with what its annotations say."""
        holding = Holding(tuple(taken), _instances(annotations))
        self._tracked[uid_of(pod)] = Reservation(namespace_of(pod), annotations[words.ASSIGNED_NODE], holding)

    def changed(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        annotations = annotations_of(pod)
        if words.ASSIGNED_NODE not in annotations:
            return
        uid = uid_of(pod)
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self.drop(uid)
            return
        tracked = self._tracked.get(uid)
        if pod["metadata"].get("deletionTimestamp"):
            return
        if tracked is None:
            self._add(pod, annotations)
        else:
            self._tracked[uid] = self._updated(tracked, pod, annotations)

    def deleted(self, pod: Pod) -> None:
        """A pod's object is gone."""
        if words.ASSIGNED_NODE in annotations_of(pod):
            self.drop(uid_of(pod))

    def _add(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        try:
            containers = decode(annotations.get(words.ALLOCATED, ""))
        except ValueError:
            return
        self.reserve(pod, annotations, taken_by(containers, init_count(pod)))

    def _updated(self, tracked: Reservation, pod: Pod, annotations: Mapping[str, str]) -> Reservation:
        """The same with its present MIG instances; once its init containers have ended, without what those had."""
        holding = replace(tracked.holding, instances=_instances(annotations))
        if tracked.init_done or not _init_has_ended(pod):
            return replace(tracked, holding=holding)
        try:
            containers = decode(annotations.get(words.ALLOCATED, ""))
        except ValueError:
            return replace(tracked, holding=holding)
        taken = taken_by(containers, init_count(pod), init_done=True)
        return replace(tracked, holding=replace(holding, taken=taken), init_done=True)


def _instances(annotations: Mapping[str, str]) -> tuple[MigInstance, ...]:
    """The pod's MIG instances; a list that cannot be read is none."""
    try:
        return tuple(decode_mig(annotations.get(words.MIG_ALLOCATIONS, "")))
    except (ValueError, TypeError, AttributeError):
        return ()


def _init_has_ended(pod: Pod) -> bool:
    """Whether the pod's init containers are known and every one has ended well."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    ended = [((status.get("state") or {}).get("terminated") or {}).get("exitCode") == 0 for status in statuses]
    return bool(ended) and all(ended)
