"""The lock on a node: bind takes it, the device plugin takes it off.

``hami.io/mutex.lock`` is ``<RFC 3339>,<namespace>,<pod>``, or the time alone (older releases). Whose pod no longer exists, or
whose time is over, loses it to the next bind; anybody else waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.kube.hami_twin import words
from tests.kube.hami_twin.port import Cluster, Refusal
from tests.kube.hami_twin.requests import annotations_of


class NodeLock:
    """The lock of one node."""

    def __init__(self, cluster: Cluster, node: str, timeout: timedelta) -> None:
        self._cluster = cluster
        self._node = node
        self._timeout = timeout

    def take(self, namespace: str, pod: str, now: datetime) -> None:
        """Take the lock for a pod; nothing when it has it. Raises `Refusal` while another has it."""
        text, version = self._read()
        if text is not None:
            taken_at, holder = self._parse(text)
            if now - taken_at <= self._timeout:
                if holder == (namespace, pod):
                    return
                if holder is None or self._cluster.pod(*holder) is not None:
                    within = go_duration(self._timeout)
                    raise Refusal(f"node {self._node} has been locked within {within}: node lock contention")
        stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        self._cluster.patch_node(self._node, {words.NODE_LOCK: f"{stamp},{namespace},{pod}"}, version)

    def give_back(self, namespace: str, pod: str) -> None:
        """Take the pod's lock off; another's stays."""
        text, version = self._read()
        if text is not None and ("," not in text or text.endswith(f",{namespace},{pod}")):
            self._cluster.patch_node(self._node, {words.NODE_LOCK: None}, version)

    def _read(self) -> tuple[str | None, str | None]:
        node = self._cluster.node(self._node)
        if node is None:
            raise Refusal(f'nodes "{self._node}" not found')
        return annotations_of(node).get(words.NODE_LOCK), node["metadata"].get("resourceVersion")

    def _parse(self, text: str) -> tuple[datetime, tuple[str, str] | None]:
        parts = text.split(",")
        try:
            if len(parts) not in (1, 3):
                raise ValueError(f"malformed lock annotation: expected 3 parts, got {len(parts)} from {text}")
            taken_at = datetime.fromisoformat(parts[0])
        except ValueError as error:
            raise Refusal(str(error)) from error
        return taken_at, (parts[1], parts[2]) if len(parts) == 3 else None


def go_duration(span: timedelta) -> str:
    """A span of whole seconds as Go prints it: ``20s``, ``5m0s``, ``1h0m0s``."""
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
