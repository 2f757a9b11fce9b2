"""The fleet as arrays: what every node and card has left, and the log of what changed.

Guarantees: every figure is an integer (MiB, GiB, thousandths of a CPU, millionths of a card); claim and release cost
O(cards touched); rows stand in the order of the names, so that the first row of a tie is the first name; figures kept
incrementally equal those computed from nothing. Refuses nothing itself: `fits` and `covers` are asked before `move`.

Nothing here decides: policies read the arrays, `cluster.domain.placement` is the door.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.domain.fleet import MICRO, MICRO_PER_PERCENT, Card, Node, micro_of_milli, milli_of_micro

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_LOG_KEPT = 4_096


@dataclass(frozen=True, slots=True)
class Take:
    """What one placement takes from a row: host figures, and per card MiB and millionths (one slot each)."""

    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    columns: tuple[int, ...]
    vram_mib: tuple[int, ...]
    core_micro: tuple[int, ...]


class Stock:
    """Nodes as arrays: one row a node, one column a card (padded with columns that have nothing)."""

    def __init__(self, nodes: Iterable[Any] = ()) -> None:
        self.topology = 0  # rises when a total, a model, a flag or the set of nodes changes
        self.models: dict[str, int] = {}
        self.pools: dict[Hashable, int] = {}
        self._changed: list[int] = []
        self._changed_before = 0
        self._load([Node.of(node) for node in nodes])

    # -- building -----------------------------------------------------------------------------------------------------

    def _load(self, nodes: Sequence[Node]) -> None:
        by_name = {node.name: node for node in nodes}
        if len(by_name) != len(nodes):
            raise ValueError("two nodes have the same name")
        self.names = sorted(by_name)
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self._nodes = [by_name[name] for name in self.names]
        rows, width = len(self.names), max((len(node.cards) for node in nodes), default=0) or 1
        self.cpu_total, self.memory_total, self.scratch_total = (np.zeros(rows, np.int64) for _ in range(3))
        self.cpu_left, self.memory_left, self.scratch_left = (np.zeros(rows, np.int64) for _ in range(3))
        self.pool, self.share_sum, self.idle_count = (np.zeros(rows, np.int64) for _ in range(3))
        self.lead = np.full(rows, -1, np.int64)  # the model of a node's first card
        self.host_open = np.zeros(rows, np.bool_)
        self.vram_total, self.core_total, self.slots_total = (np.zeros((rows, width), np.int64) for _ in range(3))
        self.vram_left, self.core_left, self.slots_left = (np.zeros((rows, width), np.int64) for _ in range(3))
        self.model, self.share_left = (np.full((rows, width), -1, np.int64) for _ in range(2))
        self.possible, self.open, self.idle = (np.zeros((rows, width), np.bool_) for _ in range(3))
        self._groups, self._room = np.zeros((0, width + 1), np.int64), np.zeros(0, np.int64)
        for row, node in enumerate(self._nodes):
            self._write(row, node)
        self.topology += 1

    def _write(self, row: int, node: Node) -> None:
        self._count(row, -1)
        self._nodes[row] = node
        self.cpu_total[row], self.cpu_left[row] = node.cpu_milli, node.cpu_milli - node.used_cpu_milli
        self.memory_total[row], self.memory_left[row] = node.memory_mib, node.memory_mib - node.used_memory_mib
        self.scratch_total[row], self.scratch_left[row] = node.scratch_gib, node.scratch_gib - node.used_scratch_gib
        self.pool[row] = self.pools.setdefault(node.pool, len(self.pools))
        self.host_open[row] = node.ready and not node.cordoned
        for column in range(self.width):
            self._write_card(row, column, node.cards[column] if column < len(node.cards) else None)
        self._widen_sums()
        self.lead[row] = self.model[row, 0]
        self.share_sum[row] = int(self.share_left[row].sum())
        self.idle_count[row] = int(self.idle[row].sum())
        self._count(row, 1)
        self._note(row)

    def _widen_sums(self) -> None:
        """Have a sum for every model that is known."""
        new = len(self.models) - len(self._room)
        if new:
            self._room = np.concatenate([self._room, np.zeros(new, np.int64)])
            self._groups = np.concatenate([self._groups, np.zeros((new, self.width + 1), np.int64)])

    def _count(self, row: int, sign: int) -> None:
        """Keep the sums over all nodes of one lead model; called before (-1) and after (1) a row changes."""
        lead = int(self.lead[row])
        if lead < 0:
            return
        self._room[lead] += sign * self.share_sum[row]
        self._groups[lead, self.idle_count[row]] += sign

    def _write_card(self, row: int, column: int, card: Card | None) -> None:
        if card is None:
            for array in (self.vram_total, self.core_total, self.slots_total):
                array[row, column] = 0
            for array in (self.vram_left, self.core_left, self.slots_left, self.share_left):
                array[row, column] = 0
            self.model[row, column] = -1
            self.possible[row, column] = self.open[row, column] = self.idle[row, column] = False
            return
        core_total = card.core_percent * MICRO_PER_PERCENT
        self.model[row, column] = self.models.setdefault(card.model, len(self.models))
        self.vram_total[row, column], self.core_total[row, column] = card.vram_mib, core_total
        self.slots_total[row, column] = card.slots
        self.vram_left[row, column] = card.vram_mib - card.used_vram_mib - card.foreign_vram_mib
        used_micro = micro_of_milli(card.used_milli) + micro_of_milli(card.foreign_milli)
        self.core_left[row, column] = core_total - used_micro
        self.slots_left[row, column] = card.slots - card.used_slots - card.foreign_slots
        self.possible[row, column], self.open[row, column] = card.possible, card.open and bool(self.host_open[row])
        self._derive(row, column)

    def _derive(self, row: int, column: int) -> None:
        """The figures that follow from what is left on a card."""
        vram, core, slots = (int(array[row, column]) for array in (self.vram_left, self.core_left, self.slots_left))
        vram_total, core_total = int(self.vram_total[row, column]), int(self.core_total[row, column])
        usable = bool(self.open[row, column]) and slots > 0 and vram > 0 and core > 0
        self.share_left[row, column] = min(vram * MICRO // vram_total, core * MICRO // core_total) if usable else 0
        whole = vram == vram_total and core == core_total and slots == self.slots_total[row, column]
        self.idle[row, column] = bool(usable and whole)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def room(self) -> Ints:
        """Shares left on all nodes of each lead model ``[models]``, in millionths of a card."""
        return self._room

    @property
    def groups(self) -> Ints:
        """How many nodes of each lead model have how many whole cards left ``[models, columns + 1]``."""
        return self._groups

    @property
    def width(self) -> int:
        """Columns of the card arrays."""
        return int(self.vram_total.shape[1])

    def card(self, row: int, column: int) -> Card:
        """The card as it was last described (its totals and flags; not what claims have taken since)."""
        return self._nodes[row].cards[column]

    def column_of(self, row: int, uuid: str) -> int:
        """The column of a card. Raises KeyError when the node has no such card."""
        for column, card in enumerate(self._nodes[row].cards):
            if card.uuid == uuid:
                return column
        raise KeyError(f"node {self.names[row]} has no card {uuid}")

    def node(self, row: int) -> Node:
        """The node with its figures of this moment."""
        node = self._nodes[row]
        cards = tuple(
            replace(
                card,
                used_vram_mib=card.vram_mib - card.foreign_vram_mib - int(self.vram_left[row, column]),
                used_milli=milli_of_micro(
                    int(self.core_total[row, column] - self.core_left[row, column]) - micro_of_milli(card.foreign_milli)
                ),
                used_slots=card.slots - card.foreign_slots - int(self.slots_left[row, column]),
            )
            for column, card in enumerate(node.cards)
        )
        return replace(
            node,
            cards=cards,
            used_cpu_milli=node.cpu_milli - int(self.cpu_left[row]),
            used_memory_mib=node.memory_mib - int(self.memory_left[row]),
            used_scratch_gib=node.scratch_gib - int(self.scratch_left[row]),
        )

    def snapshot(self) -> tuple[Node, ...]:
        """Every node with its figures of this moment, by name."""
        return tuple(self.node(row) for row in range(len(self.names)))

    # -- following the change log -------------------------------------------------------------------------------------

    def _note(self, row: int) -> None:
        self._changed.append(row)
        if len(self._changed) > _LOG_KEPT:
            dropped = _LOG_KEPT // 2
            del self._changed[:dropped]
            self._changed_before += dropped

    @property
    def mark(self) -> int:
        """The end of the change log, to be handed to `changed_since` later."""
        return self._changed_before + len(self._changed)

    def changed_since(self, mark: int) -> list[int] | None:
        """Rows changed after `mark`, each once, in ascending order; None when the log does not reach back so far."""
        if mark < self._changed_before:
            return None
        return sorted(set(self._changed[mark - self._changed_before :]))

    # -- changing -----------------------------------------------------------------------------------------------------

    def fits(self, row: int, take: Take) -> bool:
        """Whether the row has all of it left, on cards that are open."""
        if (
            not self.host_open[row]
            or take.cpu_milli > self.cpu_left[row]
            or take.memory_mib > self.memory_left[row]
            or take.scratch_gib > self.scratch_left[row]
        ):
            return False
        return all(
            self.open[row, column]
            and vram <= self.vram_left[row, column]
            and core <= self.core_left[row, column]
            and self.slots_left[row, column] > 0
            for column, vram, core in zip(take.columns, take.vram_mib, take.core_micro, strict=True)
        )

    def covers(self, row: int, take: Take) -> bool:
        """Whether at least so much is taken from the row now, foreign use apart."""
        if (
            self.cpu_left[row] + take.cpu_milli > self.cpu_total[row]
            or self.memory_left[row] + take.memory_mib > self.memory_total[row]
            or self.scratch_left[row] + take.scratch_gib > self.scratch_total[row]
        ):
            return False
        cards = self._nodes[row].cards
        return all(
            self.vram_left[row, column] + vram + cards[column].foreign_vram_mib <= self.vram_total[row, column]
            and self.core_left[row, column] + core + micro_of_milli(cards[column].foreign_milli)
            <= self.core_total[row, column]
            and self.slots_left[row, column] + 1 + cards[column].foreign_slots <= self.slots_total[row, column]
            for column, vram, core in zip(take.columns, take.vram_mib, take.core_micro, strict=True)
        )

    def move(self, row: int, take: Take, sign: int) -> None:
        """Take (`sign` 1) or give back (-1); the caller has asked `fits` or `covers`."""
        self.cpu_left[row] -= sign * take.cpu_milli
        self.memory_left[row] -= sign * take.memory_mib
        self.scratch_left[row] -= sign * take.scratch_gib
        self._count(row, -1)
        for column, vram, core in zip(take.columns, take.vram_mib, take.core_micro, strict=True):
            share, idle = int(self.share_left[row, column]), int(self.idle[row, column])
            self.vram_left[row, column] -= sign * vram
            self.core_left[row, column] -= sign * core
            self.slots_left[row, column] -= sign
            self._derive(row, column)
            self.share_sum[row] += int(self.share_left[row, column]) - share
            self.idle_count[row] += int(self.idle[row, column]) - idle
        self._count(row, 1)
        self._note(row)

    def put(self, node: Node) -> None:
        """Add a node or replace its figures. O(cards) unless it is new or wider than any before."""
        row = self.row_of.get(node.name)
        if row is None or len(node.cards) > self.width:
            others = [known for known in self.snapshot() if known.name != node.name]
            self._forget_log()
            self._load([*others, node])
            return
        if _fixed(node) != _fixed(self._nodes[row]):
            self.topology += 1
        self._write(row, node)

    def remove(self, name: str) -> None:
        """Forget a node. Raises KeyError when there is none of that name."""
        row = self.row_of[name]
        others = [node for at, node in enumerate(self.snapshot()) if at != row]
        self._forget_log()
        self._load(others)

    def _forget_log(self) -> None:
        """Row numbers are about to mean other nodes: nobody may follow the old log."""
        self._changed_before = self.mark + 1
        self._changed = []


def _fixed(node: Node) -> Node:
    """The node without its used and foreign figures: what decides where anything could ever go."""
    bare = tuple(
        replace(
            card,
            used_vram_mib=0,
            used_milli=0,
            used_slots=0,
            foreign_vram_mib=0,
            foreign_milli=0,
            foreign_slots=0,
        )
        for card in node.cards
    )
    return replace(node, cards=bare, used_cpu_milli=0, used_memory_mib=0, used_scratch_gib=0)
