"""Sessions' pods as `read_pod` sees them, read again only where something can be said differently.

Guarantees: the same as reading each of them anew. Of a pod that is ready, never crashed, and whose node speaks, nothing but the
proof of life moves while its object is the same: no event and no patience says anything of it (`troubles`, `endings`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from cluster.domain.kube import Object
from cluster.operator.reading.nodes import NodeState
from cluster.operator.reading.pods import Surroundings, read_pod
from cluster.operator.state import Pod


class Readings:
    """What was read of each pod, by its name; used by one event loop."""

    def __init__(self) -> None:
        self._settled: dict[str, tuple[Object, Pod]] = {}

    def take(
        self,
        pods: Mapping[str, Object],
        nodes: Mapping[str, NodeState],
        now: datetime,
        around: Callable[[str, Object], Surroundings],
    ) -> Sequence[Pod]:
        """Every session's pod, in the order of names; `around` is asked where one has to be read."""
        before, self._settled = self._settled, {}
        seen: list[Pod] = []
        for name, item in sorted(pods.items()):
            known = before.get(name)
            if known is not None and known[0] is item and _speaks(nodes, known[1].node):
                pod: Pod | None = replace(known[1], alive_at=now)
            else:
                pod = read_pod(item, around(name, item))
            if pod is None:
                continue
            seen.append(pod)
            if is_settled(pod) and _speaks(nodes, pod.node):
                self._settled[name] = (item, pod)
        return seen


def is_settled(pod: Pod) -> bool:
    """Whether nothing but its object, its node and the time of its proof of life can change what is seen of it."""
    quiet = pod.trouble is None and pod.lost is None and pod.stopping_since is None and not pod.crashed_at
    return pod.ready and quiet


def _speaks(nodes: Mapping[str, NodeState], node: str) -> bool:
    state = nodes.get(node)
    return state is not None and state.ready
