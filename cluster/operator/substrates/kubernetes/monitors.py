"""The monitors of nodes' cards: HAMi's vGPUmonitor and DCGM's exporter, a pod of each on every node with cards.

Guarantees: each is asked at its own pod, so that a figure is the node's that it is taken for; one that does not answer is
named once, until it answers again. Pods of sessions are never asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from cluster.domain.kube import Object, text
from cluster.operator.reading.gpu_use import Said
from cluster.operator.substrates.kubernetes.asking import Asker, all_within
from cluster.operator.substrates.kubernetes.exporters import DCGM_EXPORTER, HAMI_MONITOR, Place

log = logging.getLogger(__name__)

_KINDS = {kind.title: kind for kind in (HAMI_MONITOR, DCGM_EXPORTER)}


class Monitors:
    """Asks them; `closed` is the namespace whose pods are no monitors."""

    def __init__(self, closed: str) -> None:
        self._closed = closed
        self._down: set[tuple[str, str]] = set()

    async def ask(
        self, asks: Asker, nodes: Collection[str], pods: Iterable[Object], *, within: float
    ) -> Mapping[str, Said]:
        """What the monitors of these nodes say, by node; within so many seconds."""
        questions = {key: _KINDS[key[1]].ask(asks, place) for key, place in self._places(nodes, pods).items()}
        tasks = await all_within(within, questions)
        heard = {key: None if task.cancelled() else task.result() for key, task in tasks.items()}
        self._tell(heard, nodes)
        return {
            node: Said(heard.get((node, HAMI_MONITOR.title)), heard.get((node, DCGM_EXPORTER.title))) for node in nodes
        }

    def _places(self, nodes: Collection[str], pods: Iterable[Object]) -> dict[tuple[str, str], Place]:
        """Address and port of each monitor, by node and kind."""
        found: dict[tuple[str, str], Place] = {}
        for pod in pods:
            node = text(pod, "spec", "nodeName")
            for kind in _KINDS.values() if node in nodes else ():
                place = kind.place(pod, closed=self._closed)
                if place is not None:
                    found[node, kind.title] = place
        return found

    def _tell(self, heard: Mapping[tuple[str, str], object], nodes: Collection[str]) -> None:
        """Name what is down, once; HAMi's is missed where there is none, since every node with cards has one."""
        down = {key for key, said in heard.items() if said is None}
        down |= {(node, HAMI_MONITOR.title) for node in nodes if (node, HAMI_MONITOR.title) not in heard}
        for node, title in sorted(down - self._down):
            log.error("%s on node %s does not answer: no session with its cards is idle meanwhile", title, node)
        for node, title in sorted(self._down - down):
            log.info("%s on node %s answers again, or has gone with its node", title, node)
        self._down = down
