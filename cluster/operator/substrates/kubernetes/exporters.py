"""Pods that tell metrics: how each kind is known among a cluster's pods, where it listens, and what it says.

Guarantees: a pod that has ended or has no address is none, and no pod of the closed namespace, where sessions run, is ever one;
who does not answer has said nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from cluster.domain.kube import Object, has_ended, label, number, rows, text
from cluster.operator.reading.exposition import Series, read_exposition
from cluster.operator.reading.gpu_use import DCGM_NAMES, HAMI_NAMES
from cluster.operator.substrates.kubernetes.asking import Asker

_BYTES = 8 << 20
_PATH = "/metrics"


class Place(NamedTuple):
    """Where a pod listens."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Kind:
    """How its pods are known: by the name of a container or by a label. `names` are the metrics that are read of them.

    It listens at `port`, and where the container names its ports (`names_it`) at the first of those instead.
    """

    title: str
    containers: Collection[str]
    labels: Collection[tuple[str, str]]
    port: int
    names: Collection[str]
    names_it: bool = True

    def place(self, pod: Object, *, closed: str) -> Place | None:
        """Where a pod of this kind listens; None for every other. `closed` is the namespace of sessions."""
        address = text(pod, "status", "podIP")
        if not address or has_ended(pod) or text(pod, "metadata", "namespace") == closed:
            return None
        containers = rows(pod, "spec", "containers")
        named = [each for each in containers if text(each, "name") in self.containers]
        if not named and any(label(pod, key) == value for key, value in self.labels):
            named = list(containers)
        if not named:
            return None
        ports = (number(port, "containerPort") for each in named for port in rows(each, "ports"))
        return Place(address, next(ports, self.port) if self.names_it else self.port)

    async def ask(self, asks: Asker, place: Place) -> tuple[Series, ...] | None:
        """The series of its names; None when it does not answer."""
        answer = await asks.ask(*place, _PATH, most_bytes=_BYTES)
        return None if answer is None else read_exposition(answer.decode(errors="replace"), self.names)


# By metric the label that names the card; the second was the name until HAMi 2.8, with its own spelling of the label.
COUNTED = {"hami_gpu_memory_allocated_bytes": "device_uuid", "GPUDeviceMemoryAllocated": "deviceuuid"}
# Its metrics have a port of their own, whatever ports the container names for those who ask it to place pods.
HAMI_SCHEDULER = Kind(
    "HAMi's scheduler",
    ("vgpu-scheduler-extender",),
    (("app.kubernetes.io/component", "hami-scheduler"),),
    9395,
    frozenset(COUNTED),
    names_it=False,
)
HAMI_MONITOR = Kind("HAMi's monitor", ("vgpu-monitor",), (), 9394, HAMI_NAMES)
DCGM_EXPORTER = Kind(
    "DCGM's exporter",
    ("nvidia-dcgm-exporter",),
    (("app", "nvidia-dcgm-exporter"), ("app.kubernetes.io/name", "dcgm-exporter")),
    9400,
    DCGM_NAMES,
)
