"""The monitors of nodes' cards: HAMi's vGPUmonitor and DCGM's exporter, a pod of each on every node with cards.

Guarantees: each is asked at its own pod, so that a figure is the node's that it is taken for; one that does not answer is
named once, until it answers again. Pods of sessions are never asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cluster.domain.kube import Object, has_ended, label, number, rows, text
from cluster.operator.reading.exposition import Series, read_exposition
from cluster.operator.reading.gpu_use import DCGM_NAMES, HAMI_NAMES, Said
from cluster.operator.substrates.kubernetes.asking import Asker, all_within

log = logging.getLogger(__name__)

_BYTES = 8 << 20
_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class Kind:
    """How pods of a monitor are known: by the name of a container or by a label; its port where the container names none."""

    title: str
    containers: Collection[str]
    labels: Collection[tuple[str, str]]
    port: int
    names: frozenset[str]


HAMI = Kind("HAMi's monitor", ("vgpu-monitor",), (), 9394, HAMI_NAMES)
DCGM = Kind(
    "DCGM's exporter",
    ("nvidia-dcgm-exporter",),
    (("app", "nvidia-dcgm-exporter"), ("app.kubernetes.io/name", "dcgm-exporter")),
    9400,
    DCGM_NAMES,
)


class Monitors:
    """Asks them; `closed` is the namespace whose pods are no monitors."""

    def __init__(self, closed: str) -> None:
        self._closed = closed
        self._down: set[tuple[str, str]] = set()

    async def ask(
        self, asks: Asker, nodes: Collection[str], pods: Iterable[Object], *, within: float
    ) -> Mapping[str, Said]:
        """What the monitors of these nodes say, by node; within so many seconds."""
        questions = {
            key: _said(asks, HAMI if key[1] == HAMI.title else DCGM, *place)
            for key, place in self._places(nodes, pods).items()
        }
        tasks = await all_within(within, questions)
        heard = {key: None if task.cancelled() else task.result() for key, task in tasks.items()}
        self._tell(heard, nodes)
        return {node: Said(heard.get((node, HAMI.title)), heard.get((node, DCGM.title))) for node in nodes}

    def _places(self, nodes: Collection[str], pods: Iterable[Object]) -> dict[tuple[str, str], tuple[str, int]]:
        """Address and port of each monitor, by node and kind."""
        found: dict[tuple[str, str], tuple[str, int]] = {}
        for pod in pods:
            node, address = text(pod, "spec", "nodeName"), text(pod, "status", "podIP")
            if node not in nodes or not address or has_ended(pod) or text(pod, "metadata", "namespace") == self._closed:
                continue
            for kind in (HAMI, DCGM):
                port = _port(pod, kind)
                if port is not None:
                    found[node, kind.title] = (address, port)
        return found

    def _tell(self, heard: Mapping[tuple[str, str], object], nodes: Collection[str]) -> None:
        """Name what is down, once; HAMi's is missed where there is none, since every node with cards has one."""
        down = {key for key, said in heard.items() if said is None}
        down |= {(node, HAMI.title) for node in nodes if (node, HAMI.title) not in heard}
        for node, title in sorted(down - self._down):
            log.error("%s on node %s does not answer: no session with its cards is idle meanwhile", title, node)
        for node, title in sorted(self._down - down):
            log.info("%s on node %s answers again, or has gone with its node", title, node)
        self._down = down


def _port(pod: Object, kind: Kind) -> int | None:
    """Where the pod's monitor of that kind listens; None where it has none."""
    containers = rows(pod, "spec", "containers")
    named = [each for each in containers if text(each, "name") in kind.containers]
    if not named and any(label(pod, key) == value for key, value in kind.labels):
        named = list(containers)
    if not named:
        return None
    return next((number(port, "containerPort") for each in named for port in rows(each, "ports")), kind.port)


async def _said(asks: Asker, kind: Kind, host: str, port: int) -> tuple[Series, ...] | None:
    answer = await asks.ask(host, port, _PATH, most_bytes=_BYTES)
    return None if answer is None else read_exposition(answer.decode(errors="replace"), kind.names)
