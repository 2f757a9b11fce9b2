"""Nodes that administrators cordoned in the control plane are cordoned in Kubernetes too, and used again when they are there.

Guarantees: level-triggered, one call a node, so that a death in between leaves nothing half done; a mark on the node says
which cordons are ours, and only those are taken back: what `kubectl cordon` did stays; one of ours that a hand took back is
made again; while the control plane says nothing, nothing changes. One node that refuses holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from cluster.domain.kube import annotation
from cluster.operator.reading.nodes import is_unschedulable
from cluster.operator.state import Unavailable
from cluster.operator.substrates.kubernetes.api import NODES, Api, Document, Refused
from cluster.operator.substrates.kubernetes.reflector import Reflector
from gshare_core.contract import API_GROUP

log = logging.getLogger(__name__)

MARK = f"{API_GROUP}/cordoned"


def changes(nodes: Mapping[str, Document], wanted: frozenset[str]) -> Iterator[tuple[str, Document]]:
    """What has to be patched on which node, so that exactly the wanted ones carry a cordon of ours."""
    for name, node in sorted(nodes.items()):
        is_ours = annotation(node, MARK) == "true"
        if name in wanted and not is_unschedulable(node):
            yield name, {"metadata": {"annotations": {MARK: "true"}}, "spec": {"unschedulable": True}}
        elif name not in wanted and is_ours:
            yield name, {"metadata": {"annotations": {MARK: None}}, "spec": {"unschedulable": None}}


class Cordons:
    """Keeps them, over the nodes that are followed."""

    def __init__(self, api: Api, nodes: Reflector) -> None:
        self._api, self._nodes = api, nodes

    async def keep(self, wanted: frozenset[str] | None) -> None:
        """Bring the nodes to what is wanted, as far as they are known; None says nothing. Raises nothing."""
        if wanted is None or not self._nodes.is_fresh:
            return
        for name, change in changes(self._nodes.objects, wanted):
            try:
                self._nodes.wrote(await self._api.merge(NODES, None, name, change))
            except (Unavailable, Refused) as error:
                log.warning("the cordon of node %s cannot be written now: %s", name, error)
            else:
                log.info("node %s is %s", name, "cordoned" if name in wanted else "used again")
