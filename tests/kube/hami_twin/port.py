"""What the scheduler asks of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tests.kube.hami_twin.requests import Pod

Node = Mapping[str, Any]


class Refusal(Exception):
    """The cluster did not do it; the text is the API server's."""


class Cluster(Protocol):
    """Every method that changes something raises `Refusal` when it was not done."""

    def nodes(self) -> Sequence[Node]:
        """All nodes."""
        ...

    def node(self, name: str) -> Node | None:
        """One node."""
        ...

    def pod(self, namespace: str, name: str) -> Pod | None:
        """One pod."""
        ...

    def patch_pod(
        self, namespace: str, name: str, annotations: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """Merge annotations and labels into a pod."""
        ...

    def patch_node(self, name: str, annotations: Mapping[str, str | None], version: str | None = None) -> None:
        """Merge annotations into a node (None removes one), only while it has that resource version."""
        ...

    def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod to the node."""
        ...

    def quotas(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        """The namespace's resource quotas."""
        ...
