"""A bench for the twin: a cluster in memory whose events reach it at once, and short ways to say nodes, cards and pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.kube.hami_twin import words
from tests.kube.hami_twin.memory import MemoryCluster
from tests.kube.hami_twin.scheduler import Twin

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
A, B = "GPU-a", "GPU-b"
MIG_PROFILES = [
    {
        "name": "1g.10gb",
        "memoryMB": 9728,
        "core": 15,
        "sliceCount": 1,
        "placements": [{"start": start, "size": 1} for start in range(7)],
    },
    {
        "name": "2g.20gb",
        "memoryMB": 19968,
        "core": 29,
        "sliceCount": 2,
        "placements": [{"start": start, "size": 2} for start in (0, 2, 4)],
    },
    {
        "name": "3g.40gb",
        "memoryMB": 40192,
        "core": 43,
        "sliceCount": 3,
        "placements": [{"start": start, "size": 4} for start in (0, 4)],
    },
    {
        "name": "7g.80gb",
        "memoryMB": 80896,
        "core": 100,
        "sliceCount": 7,
        "placements": [{"start": 0, "size": 8}],
    },
]


class Bench:
    """A twin on a cluster in memory whose events reach it at once."""

    def __init__(self, twin: Twin | None = None, cluster: MemoryCluster | None = None) -> None:
        self.cluster = cluster or MemoryCluster()
        self.now = NOW
        self.twin = twin or Twin(self.cluster, lambda: self.now)

    def node(self, name: str, cards: list[dict[str, Any]] | str, **annotations: str) -> None:
        """Add or replace a node with its register, and let the twin see it."""
        register = cards if isinstance(cards, str) else json.dumps(cards)
        count = 1 if isinstance(cards, str) else sum(card.get("count", 0) for card in cards)
        self.cluster.put_node(name, {words.REGISTER: register, **annotations}, count)
        self.twin.refresh()

    def filter(self, pod: dict[str, Any], nodes: list[str]) -> dict[str, Any]:
        """Create the pod (unless it is there) and filter it: `fits`, `allocated`, `mig`, `failed`, `error` as recorded."""
        name, node = pod["metadata"]["name"], nodes[0]
        if self.cluster.pod("default", name) is None:
            self.cluster.put_pod(pod)
        answer = self.twin.filter(self.cluster.pod("default", name) or pod, nodes)
        if answer.error:
            return {"fits": False, "error": answer.error}
        if answer.failed is not None:
            return {"fits": False, "failed": answer.failed[node]}
        annotations = self.annotations(name)
        found: dict[str, Any] = {"fits": True, "allocated": annotations.get(words.ALLOCATED)}
        if words.MIG_ALLOCATIONS in annotations:
            found["mig"] = json.loads(annotations[words.MIG_ALLOCATIONS])
        return found

    def delete(self, name: str) -> None:
        """Delete a pod."""
        gone = self.cluster.pod_objects.pop(("default", name))
        self.twin.pod_deleted(gone)

    def counted(self, node: str) -> dict[str, tuple[int, int, int]]:
        """Slots, MiB and cores that the twin counts on each card of a node."""
        return self.twin.counted(node)

    def annotations(self, name: str) -> dict[str, str]:
        """The annotations of a pod."""
        return dict(self.cluster.pod_objects[("default", name)]["metadata"].get("annotations", {}))


def pod(
    name: str,
    limits: list[dict[str, Any]],
    *,
    init: list[dict[str, Any]] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A pod with one container per entry of `limits`."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": dict(annotations or {})},
        "spec": {
            "initContainers": [
                {"name": f"i{index}", "resources": {"limits": entry}} for index, entry in enumerate(init or [])
            ],
            "containers": [{"name": f"c{index}", "resources": {"limits": entry}} for index, entry in enumerate(limits)],
        },
    }


def card(uuid: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    whole = {
        "id": uuid,
        "index": index,
        "count": 10,
        "devmem": 81920,
        "devcore": 100,
        "type": "NVIDIA A100-SXM4-80GB",
        "mode": "hami-core",
        "health": True,
    }
    return {name: value for name, value in {**whole, **fields}.items() if value is not None}


def mig_card(uuid: str, index: int = 0) -> dict[str, Any]:
    return card(uuid, index, mode="mig", count=7, migProfiles=MIG_PROFILES)


def limits(gpu: int = 1, mem: Any = None, cores: Any = None, pct: Any = None) -> dict[str, Any]:
    asked = {
        words.RESOURCE_COUNT: gpu,
        words.RESOURCE_MEMORY: mem,
        words.RESOURCE_CORES: cores,
        words.RESOURCE_PERCENTAGE: pct,
    }
    return {name: value for name, value in asked.items() if value is not None}


class OneNode(Bench):
    """One node ``n1`` and a short way to ask."""

    def __init__(self, *cards: dict[str, Any]) -> None:
        super().__init__()
        self.node("n1", list(cards))
        self._asked = 0

    def ask(
        self, asked: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **amounts: Any
    ) -> str:
        """The allocation, or the words of the refusal, of a new pod with one container."""
        self._asked += 1
        answer = self.filter(
            pod(f"p{self._asked}", [asked if asked is not None else limits(**amounts)], annotations=annotations), ["n1"]
        )
        return str(answer.get("allocated") or answer.get("failed") or answer.get("error"))

    def placements(self) -> list[tuple[str, int]]:
        """Profile and start of the MIG instances of the last pod."""
        rows = json.loads(self.annotations(f"p{self._asked}")[words.MIG_ALLOCATIONS])
        return [(row["profile"], row["placement"]["start"]) for row in rows]


def pinned(*uuids: str) -> dict[str, str]:
    return {words.USE_UUID: ",".join(uuids)}
