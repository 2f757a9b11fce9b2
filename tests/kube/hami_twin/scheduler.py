"""Filter and bind: one node for a pod, written on the pod; a lock on the node, then the binding.

Every method may be called from several threads; they take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from tests.kube.hami_twin import words
from tests.kube.hami_twin.allocations import Device, Taken, encode, encode_mig, taken_by
from tests.kube.hami_twin.fit import Applicant, Refused, fit_pod
from tests.kube.hami_twin.inventory import Inventory, KnownNode
from tests.kube.hami_twin.lock import NodeLock
from tests.kube.hami_twin.port import Cluster, Node, Refusal
from tests.kube.hami_twin.requests import (
    Defaults,
    Pod,
    annotations_of,
    init_count,
    request_of,
    requests_of,
    whole_number,
)
from tests.kube.hami_twin.reservations import Reservations, namespace_of, uid_of
from tests.kube.hami_twin.usage import NodeUse, Weights, scoring_weights


@dataclass(frozen=True, slots=True)
class Config:
    """The scheduler's own settings."""

    defaults: Defaults = field(default_factory=Defaults)
    card_policy: str = "spread"
    node_policy: str = "binpack"
    lock_timeout: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Answer:
    """What filter says: the nodes that fit, why the others do not, or why nothing can be said."""

    nodes: Sequence[str] | None = None
    failed: Mapping[str, str] | None = None
    error: str = ""


_Choice = tuple[str, list[list[Device]]]


class Twin:
    """See the module. `now` is the clock. It knows nothing before the first `refresh`."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime], config: Config | None = None) -> None:
        self._cluster = cluster
        self._now = now
        self._config = config or Config()
        self._inventory = Inventory(cluster, now)
        self._reservations = Reservations()
        self._turn = threading.RLock()

    def refresh(self) -> None:
        """The pass over the nodes that the real one makes every 15 s and when a node appears."""
        with self._turn:
            self._inventory.refresh()

    def node_deleted(self, name: str) -> None:
        """A node's object is gone: it is unregistered at once."""
        with self._turn:
            self._inventory.deleted(name)

    def pod_changed(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        with self._turn:
            self._reservations.changed(pod)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod's object is gone."""
        with self._turn:
            self._reservations.deleted(pod)

    def tracked(self) -> frozenset[str]:
        """The uids of the pods that are counted."""
        with self._turn:
            return self._reservations.uids()

    def forget(self, uid: str) -> None:
        """The pod's object is gone, and nobody saw its last version."""
        with self._turn:
            self._reservations.drop(uid)

    def counted(self, node: str) -> dict[str, tuple[int, int, int]]:
        """Slots, MiB and cores that are counted on each card of a node, as the real one's metrics tell."""
        with self._turn:
            use = NodeUse.of(node, self._inventory.nodes[node].cards, {}, self._config.card_policy)
            for holding in self._reservations.on_node(node):
                use.count(holding)
            return {each.card.uuid: (each.slots, each.memory_mib, each.cores) for each in use.cards}

    # --- filter ------------------------------------------------------------------------------------------------------

    def filter(self, pod: Pod, node_names: Sequence[str]) -> Answer:
        """Choose a node and write the choice on the pod. One that asks for no card may go anywhere, without effect."""
        with self._turn:
            if not self._asks(pod):
                return Answer(nodes=node_names)
            self._reservations.drop(uid_of(pod))
            nodes = self._inventory.nodes
            known = {name: nodes[name] for name in node_names if name in nodes}
            uses = {name: self._use_of(name, node, pod) for name, node in known.items()}
            for name, use in uses.items():
                for holding in self._reservations.on_node(name):
                    use.count(holding)
            failed = {name: words.NODE_UNREGISTERED for name in node_names if name not in nodes}
            try:
                choice = self._choose(pod, uses, known, failed)
            except ValueError as error:
                return Answer(error=f"calcScore failed {error} for pod {pod['metadata']['name']}")
            return Answer(failed=failed) if choice is None else self._write(pod, choice)

    def simulate(self, pod: Pod, nodes: Sequence[Node]) -> tuple[Node | None, Mapping[str, str]]:
        """The choice among nodes as if they were empty, and why the others do not fit; without effect.

        Raises ValueError for scoring weights that cannot be read.
        """
        known, failed = {}, {}
        for node in nodes:
            name = node["metadata"]["name"]
            try:
                known[name] = KnownNode.of(node)
            except ValueError:
                failed[name] = words.NODE_UNREGISTERED
        uses = {name: self._use_of(name, node, pod) for name, node in known.items()}
        choice = self._choose(pod, uses, known, failed)
        return next((node for node in nodes if choice and node["metadata"]["name"] == choice[0]), None), failed

    def _asks(self, pod: Pod) -> bool:
        return any(request.cards > 0 for request in requests_of(pod, self._config.defaults))

    def _use_of(self, name: str, node: KnownNode, pod: Pod) -> NodeUse:
        return NodeUse.of(name, node.cards, pod, self._config.card_policy)

    def _choose(
        self, pod: Pod, uses: Mapping[str, NodeUse], known: Mapping[str, KnownNode], failed: dict[str, str]
    ) -> _Choice | None:
        """The best node and what the pod gets there; the reasons of the others go to `failed`."""
        weights = scoring_weights(annotations_of(pod))
        fitting: list[tuple[np.float32, _Choice]] = []
        for name, use in uses.items():
            applicant = self._applicant(pod, weights, known[name])
            score = use.score()
            try:
                fitting.append((score, (name, fit_pod(applicant, use))))
            except Refused as refusal:
                failed[name] = str(refusal)
        spreads = annotations_of(pod).get(words.NODE_POLICY, self._config.node_policy) == "spread"
        fitting.sort(key=lambda scored: -scored[0] if spreads else scored[0])
        return fitting[-1][1] if fitting else None

    def _applicant(self, pod: Pod, weights: Weights, node: KnownNode) -> Applicant:
        namespace = namespace_of(pod)
        held, limits = self._reservations.in_namespace(namespace), self._limits(namespace)

        def quota_bears(more: Iterable[Taken]) -> bool:
            all_taken = [*held, *more]
            memory = sum(taken.memory_mib for taken in all_taken)
            cores = sum(taken.cores for taken in all_taken)
            factor = max(self._config.defaults.memory_factor, 1)
            return memory <= limits.get(words.RESOURCE_MEMORY, memory) * factor and cores <= limits.get(
                words.RESOURCE_CORES, cores
            )

        requests = requests_of(pod, self._config.defaults)
        return Applicant(pod, requests, quota_bears, weights, node.cordoned)

    def _limits(self, namespace: str) -> dict[str, int]:
        limits: dict[str, int] = {}
        for quota in self._cluster.quotas(namespace):
            for name, quantity in ((quota.get("spec") or {}).get("hard") or {}).items():
                value = whole_number(quantity)
                if name.startswith("limits.") and value is not None:
                    limits[name.removeprefix("limits.")] = value
        return limits

    def _write(self, pod: Pod, choice: _Choice) -> Answer:
        node, devices = choice
        text = encode(devices)
        annotations = {
            words.ASSIGNED_NODE: node,
            words.ASSIGNED_TIME: str(int(self._now().timestamp())),
            words.TO_ALLOCATE: text,
            words.ALLOCATED: text,
        }
        instances = encode_mig(devices)
        if instances is not None:
            annotations[words.MIG_ALLOCATIONS] = instances
        self._reservations.reserve(pod, annotations, taken_by(devices, init_count(pod)))
        try:
            self._cluster.patch_pod(
                namespace_of(pod), pod["metadata"]["name"], annotations, {words.ASSIGNED_NODE: node}
            )
        except Refusal as refusal:
            self._reservations.drop(uid_of(pod))
            return Answer(error=str(refusal))
        return Answer(nodes=[node])

    # --- bind --------------------------------------------------------------------------------------------------------

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """Lock the node, mark the pod, bind it. Returns what went wrong, empty when nothing did.

        The lock stays until the device plugin takes it off. A bind that fails takes it off again; the reservation stays.
        """
        with self._turn:
            pod = self._cluster.pod(namespace, name)
            if pod is None:
                self._reservations.drop(uid)
                return f'pod "{name}" not found'
            if self._cluster.node(node) is None:
                self._reservations.drop(uid_of(pod))
                return f'node "{node}" not found'
            defaults = self._config.defaults
            takes_cards = any(request_of(container, defaults).cards > 0 for container in pod["spec"]["containers"])
            lock = NodeLock(self._cluster, node, self._config.lock_timeout) if takes_cards else None
            try:
                if lock is not None:
                    lock.take(namespace, name, self._now())
                marks = {words.BIND_PHASE: "allocating", words.BIND_TIME: str(int(self._now().timestamp()))}
                self._cluster.patch_pod(namespace, name, marks)
                self._cluster.bind(namespace, name, uid, node)
            except Refusal as refusal:
                if lock is not None:
                    lock.give_back(namespace, name)
                return str(refusal)
            return ""
