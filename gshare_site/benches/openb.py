"""The openb trace (Alibaba cluster-trace-gpu-v2023): its nodes and requests, mixes made of them, and a referee.

The trace is public and not part of this repository: its directory is given with `--trace` or `GSHARE_TRACE_DIR`.
Guarantees: the referee keeps its own books in the trace's units and shares no code with the engine, so that an engine
that over-commits or forgets cannot agree with itself. Mixes are drawn with a seed of their own, so that they are the
same for every policy.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cluster.domain.placement import Card, Node, Placement, Request
from gshare_site.benches import WrongAnswer

NODES_FILE, REQUESTS_FILE = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"
CARD_MILLI = 1_000
# The trace gives shares of a card without its VRAM: every card gets so much that a thousandth is a whole number of MiB.
MIB_PER_MILLI = 64


@dataclass(frozen=True, slots=True)
class Row:
    """One request of the trace. `milli` is per card; several cards are whole ones."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    milli: int
    models: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether it takes whole cards."""
        return self.cards > 1 or self.milli >= CARD_MILLI

    @property
    def gpu_milli(self) -> int:
        """Everything it takes, in thousandths of a card."""
        return self.cards * (CARD_MILLI if self.whole else self.milli)

    def request(self) -> Request:
        """The request as the engine takes it; VRAM share equals core share."""
        shared = self.cards > 0 and not self.whole
        return Request(
            models=self.models or None,
            cards=self.cards,
            exclusive=self.cards > 0 and self.whole,
            vram_mib=self.milli * MIB_PER_MILLI if shared else 0,
            core_percent=self.milli / 10 if shared else 0,
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
        )


def read_nodes(directory: Path) -> list[Node]:
    """The trace's nodes with their cards."""
    nodes = []
    for row in _rows(directory / NODES_FILE):
        cards = tuple(
            Card(f"{row['sn']}/{index}", row["model"], CARD_MILLI * MIB_PER_MILLI, slots=CARD_MILLI)
            for index in range(int(row["gpu"]))
        )
        nodes.append(Node(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), 0, cards))
    return nodes


def read_requests(file: Path) -> list[Row]:
    """The requests of one file in the trace's format."""
    return [
        Row(
            name=row["name"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            cards=int(row["num_gpu"]),
            milli=int(row["gpu_milli"]),
            models=tuple(filter(None, row["gpu_spec"].split("|"))),
        )
        for row in _rows(file)
    ]


def _rows(file: Path) -> Iterator[dict[str, str]]:
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            yield from csv.DictReader(lines)
    except FileNotFoundError as missing:
        raise ValueError(f"{file.name} is not in {file.parent}: give the trace's directory with --trace") from missing


def mixed(rows: list[Row], mix: str, nodes: Iterable[Node]) -> list[Row]:
    """A workload made of the default one. Raises ValueError for an unknown mix.

    `default`: as it is; `sharing`: every request with a card shares one (and as many without a card as before); `constrained`: a third of those with a card
    accept only one or two models, drawn by the root of their number of cards (rare ones are asked for more than they are); `several`: requests of several cards make up half
    of the demand; `cpu`: requests without a card come three times as often.
    """
    rng = random.Random(f"mix {mix}")  # noqa: S311 - a workload, not a secret
    if mix == "default":
        return rows
    if mix == "sharing":
        shared, without = [row for row in rows if row.cards and not row.whole], [row for row in rows if not row.cards]
        part = sum(row.gpu_milli for row in shared) / sum(row.gpu_milli for row in rows)
        return shared + rng.sample(without, round(len(without) * part))
    if mix == "constrained":
        cards = Counter(card.model for node in nodes for card in node.cards)
        models, weights = zip(*sorted((model, number**0.5) for model, number in cards.items()), strict=True)
        return [
            replace(row, models=tuple(sorted(set(rng.choices(models, weights, k=rng.choice((1, 2)))))))
            if row.cards and rng.random() < 1 / 3
            else row
            for row in rows
        ]
    if mix == "several":
        several = [row for row in rows if row.cards > 1]
        missing = sum(row.gpu_milli for row in rows) - 2 * sum(row.gpu_milli for row in several)
        added: list[Row] = []
        while sum(row.gpu_milli for row in added) < missing:
            added.append(rng.choice(several))
        return rows + added
    if mix == "cpu":
        without = [row for row in rows if not row.cards]
        return rows + without + without
    raise ValueError(f"unknown mix {mix!r}")


MIXES = ("default", "sharing", "constrained", "several", "cpu")


class Referee:
    """Books of its own: says whether a placement is legal and whether a refusal was."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._host = {node.name: [node.cpu_milli, node.memory_mib] for node in nodes}
        self._cards = {node.name: {card.uuid: CARD_MILLI for card in node.cards} for node in nodes}
        self._models: Mapping[str, str] = {card.uuid: card.model for node in nodes for card in node.cards}
        self.placed = self.refused = 0

    def took(self, row: Row, placement: Placement) -> None:
        """Books a placement. Raises WrongAnswer when it is not legal."""
        host, cards = self._host[placement.node], self._cards[placement.node]
        share = CARD_MILLI if row.whole else row.milli
        if len(placement.cards) != row.cards or len(set(placement.cards)) != row.cards:
            raise WrongAnswer(f"{row.name} asked for {row.cards} cards and got {placement.cards}")
        if host[0] < row.cpu_milli or host[1] < row.memory_mib:
            raise WrongAnswer(f"{row.name} over-commits the host {placement.node}")
        for uuid in placement.cards:
            if cards[uuid] < share:
                raise WrongAnswer(f"{row.name} over-commits the card {uuid}")
            if row.models and self._models[uuid] not in row.models:
                raise WrongAnswer(f"{row.name} got a {self._models[uuid]}, not one of {row.models}")
            cards[uuid] -= share
        host[0] -= row.cpu_milli
        host[1] -= row.memory_mib
        self.placed += 1

    def gave_back(self, row: Row, placement: Placement) -> None:
        """Books the end of a placement."""
        for uuid in placement.cards:
            self._cards[placement.node][uuid] += CARD_MILLI if row.whole else row.milli
        self._host[placement.node][0] += row.cpu_milli
        self._host[placement.node][1] += row.memory_mib

    def refuses(self, row: Row) -> None:
        """Checks a refusal node by node. Raises WrongAnswer when there was a place."""
        share = CARD_MILLI if row.whole else row.milli
        for name, (cpu, memory) in self._host.items():
            if cpu < row.cpu_milli or memory < row.memory_mib:
                continue
            fitting = sum(
                left >= share and (not row.models or self._models[uuid] in row.models)
                for uuid, left in self._cards[name].items()
            )
            if fitting >= row.cards:
                raise WrongAnswer(f"{row.name} was refused, but {name} has room")
        self.refused += 1

    def allocated_milli(self) -> int:
        """What is taken of all cards, counted from the books."""
        return sum(CARD_MILLI - left for cards in self._cards.values() for left in cards.values())


def endless(rows: list[Row], rng: random.Random) -> Iterator[Row]:
    """Every request once in random order, then all again in another, for ever."""
    while True:
        order = list(rows)
        rng.shuffle(order)
        yield from order


def describe(rows: list[Row]) -> dict[str, Any]:
    """What a workload consists of, in shares of the demand for cards."""
    demand = sum(row.gpu_milli for row in rows)
    return {
        "requests": len(rows),
        "without_card": sum(not row.cards for row in rows),
        "shared_percent": round(100 * sum(row.gpu_milli for row in rows if not row.whole) / demand, 1),
        "several_percent": round(100 * sum(row.gpu_milli for row in rows if row.cards > 1) / demand, 1),
        "constrained_percent": round(100 * sum(row.gpu_milli for row in rows if row.models) / demand, 1),
    }
