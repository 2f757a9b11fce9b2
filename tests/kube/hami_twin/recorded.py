"""What the real scheduler, 2.10.0, answered: 72 nodes, on each a sequence of pods and deletions, replayed on the twin."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.kube.hami_twin import words
from tests.kube.hami_twin.memory import MemoryCluster
from tests.kube.hami_twin.scheduler import Twin

RECORDED = Path(__file__).with_name("recorded.jsonl.xz")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One pod of the recording: what was said of it then, and what the twin says."""

    where: str
    recorded: Mapping[str, Any]
    answered: Mapping[str, Any]


def replay(line: Mapping[str, Any]) -> Iterator[Replayed]:
    """One node's sequence. A pod that fits stays and counts until it is deleted."""
    bench = Bench()
    bench.node(line["node"], line["cards"])
    for index, step in enumerate(line["steps"]):
        name = f"p{index}"
        if "delete" in step:
            bench.delete(f"p{step['delete']}")
            continue
        answer = bench.filter(pod(name, [step["limits"]], annotations=step["annotations"]), [line["node"]])
        yield Replayed(f"{line['node']} step {index}", step["result"], answer)


def recorded_lines(path: Path = RECORDED) -> list[dict[str, Any]]:
    """The nodes of a recording; plain or compressed."""
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


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
