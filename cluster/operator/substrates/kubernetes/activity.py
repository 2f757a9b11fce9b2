"""What each session does on Kubernetes: CPU by the metrics API, cards by the nodes' monitors, applications by their own word.

Guarantees: what cannot be known is said to be unknown (an application or a monitor that does not answer) or left out (CPU without
metrics), never zero. One session's failure hides no other's sample, and all of it ends within its time, since the proof of
life travels with it: what was not answered by then is unknown. Monitors are looked for outside the sessions' namespace, so
that no session speaks for its node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from cluster.domain import hami
from cluster.domain.kube import Object, annotation, condition, full_name, has_ended, name, number, rows, text
from cluster.operator.manifests.gpu import MODE, USE_UUID
from cluster.operator.manifests.pod import PORT_ACTIVITY
from cluster.operator.reading.apps import (
    INSIDE,
    KERNELS,
    TERMINALS,
    app_uses,
    read_inside,
    read_kernels,
    read_terminals,
)
from cluster.operator.reading.gpu_use import Part, Said, gpu_use
from cluster.operator.reading.pods import claimed_cards, run_of
from cluster.operator.reading.usage import Counter, advanced, is_fresh, read_rate
from cluster.operator.state import Unavailable
from cluster.operator.substrates import AppTokens
from cluster.operator.substrates.kubernetes.api import Api, Kind, Refused
from cluster.operator.substrates.kubernetes.asking import Asker, all_within, asker
from cluster.operator.substrates.kubernetes.monitors import Monitors
from cluster.operator.substrates.kubernetes.reflector import Reflector, known
from gshare_core.contract import LABEL_SESSION, Activity, AppUse, session_name
from gshare_core.contract.resources import document_of

log = logging.getLogger(__name__)

POD_METRICS = Kind("metrics.k8s.io/v1beta1", "pods", "PodMetrics")
LOOK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sources:
    """The collections that samples are taken from: sessions' pods, those elsewhere (monitors are among them), the resources."""

    pods: Reflector
    elsewhere: Reflector
    resources: Reflector


@dataclass(frozen=True, slots=True)
class _Up:
    """What the object of a pod that is ready says of it: whose it is, where its applications are, which cards it has."""

    pod: Object
    whose: tuple[UUID, int]
    host: str
    ports: Mapping[str, int]
    node: str
    cards: tuple[str, ...]


class KubernetesActivity:
    """`ActivitySource` of a cluster; used by one event loop."""

    def __init__(self, api: Api, sources: Sources, namespace: str, tokens: AppTokens) -> None:
        self._api, self._sources, self._namespace, self._tokens = api, sources, namespace, tokens
        self._monitors = Monitors(namespace)
        self._read: dict[str, tuple[Object, _Up | None]] = {}  # of each pod, as long as its object is the same
        self._counters: dict[str, Counter] = {}
        self._served = True

    async def activity(self, now: datetime) -> Mapping[tuple[UUID, int], Activity]:
        """A sample of every pod that is ready, by session and run."""
        pods = self._up()
        nodes = {pod.node for pod in pods.values() if pod.cards}
        monitors = list(known(self._sources.elsewhere).values())
        async with asker() as asks:
            _, said, uses = await asyncio.gather(
                self._count(pods),
                self._monitors.ask(asks, nodes, monitors, within=LOOK_SECONDS),
                self._applications(asks, pods),
            )
        return {pod.whose: self._sample(own, pod, uses[own], said, now) for own, pod in pods.items()}

    def _up(self) -> dict[str, _Up]:
        """Every pod that is ready; each object is read once."""
        before, self._read = self._read, {}
        for own, item in known(self._sources.pods).items():
            same = before.get(own)
            self._read[own] = same if same is not None and same[0] is item else (item, _read_up(item))
        return {own: up for own, (_item, up) in self._read.items() if up is not None}

    def _sample(
        self, own: str, pod: _Up, apps: tuple[AppUse, ...], said: Mapping[str, Said], now: datetime
    ) -> Activity:
        counter = self._counters.get(own)
        counted = counter if counter is not None and is_fresh(counter, now) else None
        return Activity(
            at=now,
            cpu_usec=counted.usec if counted else None,
            cpu_epoch=counted.epoch if counted else None,
            memory_bytes=counted.memory_bytes if counted else None,
            gpu=gpu_use(self._part(pod), said.get(pod.node, Said()), now) if pod.cards else None,
            apps=apps,
        )

    # CPU -----------------------------------------------------------------------------------------------------------------

    async def _count(self, pods: Collection[str]) -> None:
        """Bring the counters to what the metrics API says now; who is not in its list stands still until it is stale."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                listed = await self._api.list(POD_METRICS, self._namespace, labels=LABEL_SESSION)
        except (Unavailable, Refused, TimeoutError) as error:
            if self._served:
                log.error("CPU of sessions is unknown, nothing is idle by it: %s", error)  # noqa: TRY400 -- says it all
            self._served = False
            return
        self._served = True
        rates = {name(item): rate for item in rows(listed, "items") if (rate := read_rate(item)) is not None}
        for gone in self._counters.keys() - set(pods):
            del self._counters[gone]
        for pod in rates.keys() & set(pods):
            self._counters[pod] = advanced(self._counters.get(pod), rates[pod])

    # Cards ---------------------------------------------------------------------------------------------------------------

    def _part(self, up: _Up) -> Part:
        """What the pod has of its cards; whether it has all of them, the document says that it was made of."""
        pod = up.pod
        borrows = annotation(pod, USE_UUID) is None
        return Part(
            namespace=self._namespace,
            pod=name(pod),
            cards=up.cards,
            is_whole=not borrows and self._is_exclusive(up.whose),
            is_borrowed=borrows,
            is_mig=annotation(pod, MODE) == "mig",
            instances=hami.read_instances(annotation(pod, hami.MIG_ALLOCATIONS)) or (),
        )

    def _is_exclusive(self, whose: tuple[UUID, int]) -> bool:
        resource = known(self._sources.resources).get(session_name(whose[0]))
        try:
            spec = document_of(resource).spec if resource is not None else None
        except ValueError:
            return False  # it cannot be read: what it asked for is not known
        return spec is not None and spec.run == whose[1] and spec.gpu is not None and spec.gpu.mode == "exclusive"

    # Applications --------------------------------------------------------------------------------------------------------

    async def _applications(self, asks: Asker, pods: Mapping[str, _Up]) -> dict[str, tuple[AppUse, ...]]:
        """A row of each application of each pod; unknown where no answer came in time."""
        tasks = await all_within(LOOK_SECONDS, {own: self._ask(asks, pod) for own, pod in pods.items()})
        return {own: _answered(task, pods[own]) for own, task in tasks.items()}

    async def _ask(self, asks: Asker, pod: _Up) -> tuple[AppUse, ...]:
        host, ports, token = pod.host, pod.ports, self._tokens(*pod.whose)
        inside = None
        if PORT_ACTIVITY in ports:
            inside = read_inside(await asks.ask(host, ports[PORT_ACTIVITY], INSIDE, token=token))
        kernels, terminals = inside.kernels if inside is not None else None, None
        if "lab" in ports and kernels is None:
            kernels = read_kernels(await asks.ask(host, ports["lab"], KERNELS, token=token))
            if inside is None and kernels is not None:
                terminals = read_terminals(await asks.ask(host, ports["lab"], TERMINALS, token=token))
        return app_uses(ports, kernels, terminals, inside)


def _answered(task: asyncio.Task[tuple[AppUse, ...]], pod: _Up) -> tuple[AppUse, ...]:
    if task.cancelled():
        return app_uses(pod.ports, None, None, None)
    fault = task.exception()
    if fault is None:
        return task.result()
    if not isinstance(fault, (Unavailable, ValueError)):
        raise fault
    log.warning("what is done in %s: %s", full_name(pod.pod), fault)
    return app_uses(pod.ports, None, None, None)


def _read_up(pod: Object) -> _Up | None:
    whose, host = run_of(pod), text(pod, "status", "podIP")
    if whose is None or not host or has_ended(pod) or condition(pod, "Ready").get("status") != "True":
        return None
    return _Up(pod, whose, host, _ports(pod), text(pod, "spec", "nodeName"), claimed_cards(pod))


def _ports(pod: Object) -> dict[str, int]:
    """The ports that the pod's container names."""
    found: Iterable[Object] = rows(next(iter(rows(pod, "spec", "containers")), {}), "ports")
    return {text(port, "name"): number(port, "containerPort") for port in found}
