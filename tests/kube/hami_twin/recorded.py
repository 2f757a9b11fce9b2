"""What the real scheduler, 2.10.0, answered: 72 nodes, on each a sequence of pods and deletions, replayed on the twin."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube.hami_twin.bench import Bench, pod

RECORDED = Path(__file__).with_name("recorded.jsonl.xz")


@dataclass(frozen=True, slots=True)
class Replayed:
    """One pod of the recording: what was said of it then, and what the twin says."""

    where: str
    recorded: Mapping[str, Any]
    answered: Mapping[str, Any]


def replay(line: Mapping[str, Any]) -> Iterator[Replayed]:
    """One node's sequence. A pod that fits stays and counts until it is deleted."""
    for _, replayed in _steps(line):
        if replayed is not None:
            yield replayed


def replayed_on(line: Mapping[str, Any]) -> Iterator[Bench]:
    """The bench after each step of one node's sequence."""
    return (bench for bench, _ in _steps(line))


def _steps(line: Mapping[str, Any]) -> Iterator[tuple[Bench, Replayed | None]]:
    bench = Bench()
    bench.node(line["node"], line["cards"])
    for index, step in enumerate(line["steps"]):
        if "delete" in step:
            bench.delete(f"p{step['delete']}")
            yield bench, None
            continue
        asking = pod(f"p{index}", [step["limits"]], annotations=step["annotations"])
        answer = bench.filter(asking, [line["node"]])
        yield bench, Replayed(f"{line['node']} step {index}", step["result"], answer)


def recorded_lines(path: Path = RECORDED) -> list[dict[str, Any]]:
    """The nodes of a recording; plain or compressed."""
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]
