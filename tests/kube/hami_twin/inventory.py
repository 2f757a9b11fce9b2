"""Which nodes have which cards, as they were last read.

A node is read again only when its register or its number of allocatable cards changed (or the hands were shaken anew), so
a cordon is not live. Cards that vanish from the allocatable ones are forgotten; a register that cannot be read changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.kube.hami_twin import words
from tests.kube.hami_twin.port import Cluster, Node
from tests.kube.hami_twin.register import Card, cards_of
from tests.kube.hami_twin.requests import annotations_of, whole_number

_HANDSHAKE = timedelta(seconds=60)
_HANDSHAKE_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node when it was last read."""

    cards: tuple[Card, ...]
    cordoned: frozenset[str] = frozenset()

    @classmethod
    def of(cls, node: Node) -> KnownNode:
        """Read it. Raises ValueError when its register cannot be read."""
        annotations = annotations_of(node)
        cordoned = {entry.strip() for entry in annotations.get(words.CORDON, "").split(",")} - {""}
        return cls(cards_of(annotations), frozenset(cordoned))


class Inventory:
    """The known nodes."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._now = now
        self.nodes: dict[str, KnownNode] = {}
        self._reported: dict[str, tuple[int, str]] = {}

    def refresh(self) -> None:
        """The periodic pass over all nodes."""
        present = {node["metadata"]["name"]: node for node in self._cluster.nodes()}
        for name in [name for name in self.nodes if name not in present]:
            self.deleted(name)
        for name, node in present.items():
            self._read(name, node)

    def deleted(self, name: str) -> None:
        """The node is gone."""
        self.nodes.pop(name, None)
        self._reported.pop(name, None)

    def _read(self, name: str, node: Node) -> None:
        believed, changed = self._health(name, node)
        if not believed:
            if name in self.nodes:
                self.deleted(name)
                self._cluster.patch_node(name, {words.HANDSHAKE: None})
            return
        if not changed:
            return
        try:
            self.nodes[name] = KnownNode.of(node)
        except ValueError:
            return

    def _health(self, name: str, node: Node) -> tuple[bool, bool]:
        """Whether the node's cards are believed, and whether they are to be read again."""
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        current = whole_number(allocatable.get(words.RESOURCE_COUNT, 0)) or 0
        register = annotations_of(node).get(words.REGISTER, "")
        reported, reported_register = self._reported.get(name, (0, ""))
        believed, changed = self._shake_hands(name, node, current)
        if current == 0 and reported == 0:
            return believed, changed
        if (current, register) != (reported, reported_register):
            self._reported[name] = (current, register)
        if current == 0:
            return False, changed
        if reported != current:
            return True, True
        return believed, changed or reported_register != register

    def _shake_hands(self, name: str, node: Node, current: int) -> tuple[bool, bool]:
        handshake = annotations_of(node).get(words.HANDSHAKE, "")
        now = self._now()
        if "Requesting" not in handshake:
            stamp = f"Requesting_{now.astimezone().strftime(_HANDSHAKE_FORMAT)}"
            self._cluster.patch_node(name, {words.HANDSHAKE: stamp})
            return True, True
        try:
            asked = datetime.strptime(handshake.partition("_")[2], _HANDSHAKE_FORMAT).astimezone()
        except ValueError:
            return True, False
        return now < asked + _HANDSHAKE or current > 0, False
