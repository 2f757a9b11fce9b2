"""A small stand-in for the kubelets of all nodes, and for HAMi's device plugin: level-triggered, a look at all pods per turn.

It sets bound pods Running and Ready, or gives them the fate that a test chose (image pull error, crash loop, exit), finishes
deletions within their grace, renews the nodes' leases, releases HAMi's node lock after a bind, and serves logs where the API
server asks for them. A node that was silenced does none of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path
from typing import Any

import httpx

from tests.kube.logs import LogServer
from tests.kube.nodes import NODES, add_node, micro, moment, ready_condition
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, Refused

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


class Fate(Enum):
    """What becomes of a bound pod."""

    RUN = auto()
    NEVER_READY = auto()
    PULLING = auto()
    NO_IMAGE = auto()
    CRASH_LOOP = auto()
    EXIT = auto()
    CLING = auto()  # runs, and ignores the request to end until its grace is over


@dataclass
class _Seen:
    """What the kubelet knows of a pod that its status does not say."""

    crashes: int = 0
    crashed_at: datetime | None = None
    started_at: str = field(default_factory=lambda: moment(datetime.now(UTC)))


class Kubelet:
    """Runs in a thread between `with` and its end. `fate_of` and `ip_of` may be replaced at any time."""

    def __init__(self, plane: ControlPlane, folder: Path, *, period: float = 0.1, crash_seconds: float = 0.3) -> None:
        self.plane = plane
        self.fate_of: Callable[[JSON], Fate] = lambda _pod: Fate.RUN
        self.ip_of: Callable[[JSON], str] = lambda _pod: "127.0.0.1"
        self.errors: list[str] = []
        self.lease_seconds = 1.0  # how often a node says that it lives; real ones do every 10 s
        self._folder, self._period, self._crash_seconds = folder, period, crash_seconds
        self._seen: dict[str, _Seen] = {}
        self._nodes: set[str] = set()
        self._silent: set[str] = set()
        self._renewed: dict[str, datetime] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def __enter__(self) -> Kubelet:
        self.logs = LogServer(self._folder)
        self.logs.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)
        self.logs.stop()
        for name in sorted(self._nodes):
            self._forget(name)

    # What tests do -------------------------------------------------------------------------------------------------------

    def add_node(self, node: JSON) -> str:
        """Let a node join; it leaves with its pods at the end of the test."""
        name: str = node["metadata"]["name"]
        add_node(self.plane.rest(), node, kubelet_port=self.logs.port)
        self._nodes.add(name)
        return name

    def silence(self, node: str) -> None:
        """The node says nothing any more, and its pods go on unseen: what a cut cable looks like after a while."""
        self._silent.add(node)
        self._set_ready(node, "Unknown", "NodeStatusUnknown")

    def revive(self, node: str) -> None:
        """The node is back."""
        self._silent.discard(node)
        self._set_ready(node, "True", "KubeletReady")

    def remove_node(self, node: str) -> None:
        """The node object goes, as when a machine is taken away for good."""
        self._silent.add(node)
        self._nodes.discard(node)
        self.plane.rest().delete(f"{NODES}/{node}")

    def evict(self, namespace: str, pod: str, message: str = "The node was low on resource: memory.") -> None:
        """End the pod as a node under pressure does."""
        status = {"phase": "Failed", "reason": "Evicted", "message": message}
        self.plane.rest().patch(f"{_pod(namespace, pod)}/status", {"status": status})

    def crash(self, namespace: str, pod: str) -> None:
        """Let every container of a running pod end with an error once; it is started again."""
        found = self.plane.rest().get(_pod(namespace, pod))
        self._known(found).crashes += 1

    # The loop ------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._end.wait(self._period):
            try:
                self._turn()
            except httpx.TransportError:
                continue  # the API server is away: so is nothing else
            except Refused as error:
                self.errors.append(str(error))

    def _turn(self) -> None:
        now = datetime.now(UTC)
        for node in sorted(self._nodes - self._silent):
            self._renew(node, now)
        for pod in self.plane.rest().items("/api/v1/pods"):
            if pod["spec"].get("nodeName") in self._nodes - self._silent:
                self._care(pod, now)

    def _care(self, pod: JSON, now: datetime) -> None:
        try:
            if pod["metadata"].get("deletionTimestamp"):
                self._end_pod(pod, now)
                return
            self._plug(pod)
            status = self._status(pod, now)
            if status is not None and not _says(pod.get("status", {}), status):
                self.plane.rest().patch(f"{_path(pod)}/status", {"status": status})
        except Refused as error:
            if error.status not in {404, 409}:  # it changed or went meanwhile: the next turn sees it
                raise

    def _end_pod(self, pod: JSON, now: datetime) -> None:
        due = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])  # the grace is counted in
        if self.fate_of(pod) is not Fate.CLING or now >= due:
            self.plane.rest().delete(_path(pod), grace=0)

    def _plug(self, pod: JSON) -> None:
        """What HAMi's device plugin does for a pod that was bound."""
        if pod["metadata"].get("annotations", {}).get(PHASE) != "allocating":
            return
        rest = self.plane.rest()
        rest.patch(_path(pod), {"metadata": {"annotations": {TO_ALLOCATE: ";", PHASE: "success"}}})
        rest.patch(f"{NODES}/{pod['spec']['nodeName']}", {"metadata": {"annotations": {LOCK: None}}})

    def _status(self, pod: JSON, now: datetime) -> JSON | None:
        """The status that the pod shall have; None when it has ended."""
        if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            return None
        seen, fate = self._known(pod), self.fate_of(pod)
        if fate is Fate.CRASH_LOOP and (
            seen.crashed_at is None or (now - seen.crashed_at).total_seconds() > self._crash_seconds
        ):
            seen.crashes, seen.crashed_at = seen.crashes + 1, now
        ready = self.is_ready(pod)
        phase = {Fate.PULLING: "Pending", Fate.NO_IMAGE: "Pending", Fate.EXIT: "Succeeded"}.get(fate, "Running")
        return {
            "phase": phase,
            "startTime": seen.started_at,
            "hostIP": "127.0.0.1",
            "podIP": self.ip_of(pod),
            "podIPs": [{"ip": self.ip_of(pod)}],
            "conditions": [
                _condition("PodScheduled", True),
                _condition("Ready", ready),
                _condition("ContainersReady", ready),
            ],
            "containerStatuses": [
                self._container(each, fate, seen, now) | {"ready": ready} for each in pod["spec"]["containers"]
            ],
        }

    def is_ready(self, pod: JSON) -> bool:
        """What its probe says: here what its fate says."""
        return self.fate_of(pod) in {Fate.RUN, Fate.CLING}

    def _container(self, container: JSON, fate: Fate, seen: _Seen, now: datetime) -> JSON:
        image = container["image"]
        ended = {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": seen.started_at,
            "finishedAt": moment(seen.crashed_at or now),
        }
        state: dict[Fate, JSON] = {
            Fate.PULLING: {"waiting": {"reason": "ContainerCreating"}},
            Fate.NO_IMAGE: {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}},
            Fate.CRASH_LOOP: {
                "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
            },
            Fate.EXIT: {"terminated": ended | {"exitCode": 0, "reason": "Completed"}},
        }
        shown = {
            "name": container["name"],
            "image": image,
            "imageID": image,
            "started": fate in {Fate.RUN, Fate.CLING, Fate.NEVER_READY},
            "restartCount": seen.crashes,
            "state": state.get(fate, {"running": {"startedAt": seen.started_at}}),
        }
        return shown | ({"lastState": {"terminated": ended}} if seen.crashes else {})

    def _known(self, pod: JSON) -> _Seen:
        return self._seen.setdefault(pod["metadata"]["uid"], _Seen())

    # Nodes ---------------------------------------------------------------------------------------------------------------

    def _renew(self, node: str, now: datetime) -> None:
        """Renew the node's lease once a second, its proof of life."""
        if (now - self._renewed.get(node, datetime.min.replace(tzinfo=UTC))).total_seconds() < self.lease_seconds:
            return
        spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micro(now)}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}, "spec": spec}
        self.plane.rest().apply(f"{LEASES}/{node}", lease, manager="kubelet")
        self._renewed[node] = now

    def _set_ready(self, node: str, status: str, reason: str) -> None:
        rest = self.plane.rest()
        found = rest.get(f"{NODES}/{node}")
        others = [each for each in found["status"]["conditions"] if each["type"] != "Ready"]
        conditions = [*others, ready_condition(status, reason)]
        rest.patch(f"{NODES}/{node}/status", {"status": {"conditions": conditions}})

    def _forget(self, node: str) -> None:
        rest = self.plane.rest()
        for pod in rest.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node}"):
            rest.delete(_path(pod), grace=0)
        rest.delete(f"{NODES}/{node}")
        rest.delete(f"{LEASES}/{node}")


def _condition(kind: str, holds: bool) -> JSON:
    return {"type": kind, "status": "True" if holds else "False"}


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _path(pod: JSON) -> str:
    return _pod(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _says(known: Any, wanted: Any) -> bool:
    """Whether everything wanted is known; the server adds defaults and nulls of its own."""
    if isinstance(wanted, dict):
        return isinstance(known, dict) and all(_says(known.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        same_length = isinstance(known, list) and len(known) == len(wanted)
        return same_length and all(_says(*pair) for pair in zip(known, wanted, strict=True))
    return bool(known == wanted)
