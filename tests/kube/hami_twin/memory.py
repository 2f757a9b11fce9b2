"""A cluster in memory: objects as dictionaries, with the API server's words where the scheduler repeats them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from tests.kube.hami_twin.port import Node, Refusal
from tests.kube.hami_twin.requests import Pod

_LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class MemoryCluster:
    """The port of the scheduler. `refuse_binding` is what the next binding is refused with."""

    def __init__(self) -> None:
        self.node_objects: dict[str, dict[str, Any]] = {}
        self.pod_objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.quota_objects: dict[str, list[dict[str, Any]]] = {}
        self.refuse_binding = ""
        self._version = 0

    def put_node(self, name: str, annotations: Mapping[str, str], cards: int) -> None:
        """Add or replace a node that can give so many cards."""
        metadata = {"name": name, "annotations": dict(annotations), "resourceVersion": self._next_version()}
        self.node_objects[name] = {"metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": str(cards)}}}

    def put_pod(self, pod: Pod) -> None:
        """Add or replace a pod."""
        self.pod_objects[(pod["metadata"].get("namespace", "default"), pod["metadata"]["name"])] = deepcopy(dict(pod))

    def nodes(self) -> Sequence[Node]:
        return deepcopy(list(self.node_objects.values()))

    def node(self, name: str) -> Node | None:
        return deepcopy(self.node_objects.get(name))

    def pod(self, namespace: str, name: str) -> Pod | None:
        return deepcopy(self.pod_objects.get((namespace, name)))

    def patch_pod(
        self, namespace: str, name: str, annotations: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        pod = self.pod_objects.get((namespace, name))
        if pod is None:
            raise Refusal(f'pods "{name}" not found')
        for label in (labels or {}).values():
            if len(label) > 63 or not _LABEL.fullmatch(label):
                raise Refusal(f'Pod "{name}" is invalid: metadata.labels: Invalid value: "{label}"')
        pod["metadata"].setdefault("annotations", {}).update(annotations)
        pod["metadata"].setdefault("labels", {}).update(labels or {})

    def patch_node(self, name: str, annotations: Mapping[str, str | None], version: str | None = None) -> None:
        node = self.node_objects.get(name)
        if node is None:
            raise Refusal(f'nodes "{name}" not found')
        metadata = node["metadata"]
        if version is not None and version != metadata["resourceVersion"]:
            raise Refusal(f'Operation cannot be fulfilled on nodes "{name}": the object has been modified')
        for key, value in annotations.items():
            if value is None:
                metadata["annotations"].pop(key, None)
            else:
                metadata["annotations"][key] = value
        metadata["resourceVersion"] = self._next_version()

    def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        if self.refuse_binding:
            raise Refusal(self.refuse_binding)
        self.pod_objects[(namespace, name)]["spec"]["nodeName"] = node

    def quotas(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        return self.quota_objects.get(namespace, [])

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)
