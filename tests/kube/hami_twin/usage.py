"""What is taken of a node's cards, and the order in which HAMi looks at them.

The order is that of the scores of current use (the request is left out, as in the real one), in 32-bit arithmetic; the
search begins at the tail. A pod whose MIG reservations do not fit the card's mode makes the card unhealthy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key

import numpy as np

from tests.kube.hami_twin import words
from tests.kube.hami_twin.allocations import MigInstance, Taken
from tests.kube.hami_twin.register import Card, Placement
from tests.kube.hami_twin.requests import Pod, annotations_of

_WEIGHT = 10
_SORT_KEYS = ("binpack", "spread", "numa")


@dataclass(frozen=True, slots=True)
class Weights:
    """How much slots, cores and memory count in a card's score."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True)
class Holding:
    """What one tracked pod holds on one node."""

    taken: tuple[Taken, ...]
    instances: tuple[MigInstance, ...] = ()


@dataclass
class CardUse:
    """A card while pods are counted on it."""

    card: Card
    healthy: bool
    slots: int = 0
    memory_mib: int = 0
    cores: int = 0
    occupied: list[Placement] = field(default_factory=list)
    score: np.float32 = field(default_factory=lambda: np.float32(0))

    @classmethod
    def of(cls, card: Card) -> CardUse:
        """The empty card."""
        return cls(card, card.healthy)

    def copy(self) -> CardUse:
        """A copy to try things on."""
        return CardUse(
            self.card, self.healthy, self.slots, self.memory_mib, self.cores, list(self.occupied), self.score
        )

    def rate(self, weights: Weights) -> None:
        """Bring the score up to date."""
        card = self.card
        if 0 in (card.slots, card.cores, card.memory_mib):
            self.score = np.float32(0)
            return
        parts = (
            np.float32(weights.slot) * (np.float32(self.slots) / np.float32(card.slots)),
            np.float32(weights.core) * (np.float32(self.cores) / np.float32(card.cores)),
            np.float32(weights.memory) * (np.float32(self.memory_mib) / np.float32(card.memory_mib)),
        )
        self.score = np.float32(_WEIGHT) * (parts[0] + parts[1] + parts[2])


@dataclass
class NodeUse:
    """A node's cards in the order of the last sorting, and how a pod wants them sorted."""

    name: str
    cards: list[CardUse]
    policy: str
    numa_bind: bool

    @classmethod
    def of(cls, name: str, cards: Iterable[Card], pod: Pod, default_policy: str) -> NodeUse:
        """The empty node, as a pod sees it."""
        annotations = annotations_of(pod)
        return cls(
            name,
            [CardUse.of(card) for card in cards],
            annotations.get(words.CARD_POLICY, default_policy),
            annotations.get(words.NUMA_BIND) in words.TRUE_WORDS,
        )

    def copy(self) -> NodeUse:
        """A copy to try things on."""
        return NodeUse(self.name, [use.copy() for use in self.cards], self.policy, self.numa_bind)

    def score(self) -> np.float32:
        """How full the node is."""
        totals = [
            (sum(use.slots for use in self.cards), sum(use.card.slots for use in self.cards)),
            (sum(use.cores for use in self.cards), sum(use.card.cores for use in self.cards)),
            (sum(use.memory_mib for use in self.cards), sum(use.card.memory_mib for use in self.cards)),
        ]
        if any(whole == 0 for _, whole in totals):
            return np.float32(0)
        ratios = [np.float32(part) / np.float32(whole) for part, whole in totals]
        return np.float32(_WEIGHT) * (ratios[0] + ratios[1] + ratios[2])

    def count(self, holding: Holding) -> None:
        """Count what a tracked pod holds."""
        left: dict[str, list[MigInstance]] = {}
        for instance in holding.instances:
            left.setdefault(instance.gpu_uuid, []).append(instance)
        for taken in holding.taken:
            for use in self.cards:
                if use.card.uuid == taken.uuid:
                    _count_on(use, taken, left.get(taken.uuid, []))
        for uuid, instances in left.items():
            if instances:
                self._restore(uuid, instances)

    def _restore(self, uuid: str, instances: Sequence[MigInstance]) -> None:
        """Reservations that no entry of the device list stands for."""
        use = next((use for use in self.cards if use.card.uuid == uuid), None)
        if use is None:
            for other in self.cards:
                other.healthy = other.healthy and other.card.mode != words.MIG
        elif use.card.mode != words.MIG:
            use.healthy = False
        else:
            use.occupied += [instance.placement for instance in instances]

    def sort(self) -> None:
        """Put the card to be tried first at the tail."""
        self.cards.sort(key=cmp_to_key(self._compare))

    def _compare(self, one: CardUse, other: CardUse) -> int:
        for before, after in self._keys(one, other):
            if before != after:
                return -1 if before < after else 1
        return 0

    def _keys(self, one: CardUse, other: CardUse) -> list[tuple[float, float]]:
        """The pairs to compare in turn; the smaller of a pair goes to the head."""
        score = (float(one.score), float(other.score))
        spread, numa = (-score[0], -score[1]), (one.card.numa, other.card.numa)
        if "," in self.policy or self.policy == "numa":
            by_name = {"binpack": score, "spread": spread, "numa": numa}
            return [*(by_name[name] for name in self._chain()), (one.card.index, other.card.index)]
        if self.policy == "mutex":
            return [(-one.slots, -other.slots), numa]
        if self.policy == "binpack":
            return [(-numa[0], -numa[1]), score] if self.numa_bind else [score, numa]
        return [numa, spread] if self.numa_bind else [spread, numa]

    def _chain(self) -> list[str]:
        named = [part.strip() for part in self.policy.split(",")]
        chain = list(dict.fromkeys(name for name in named if name in _SORT_KEYS)) or ["spread"]
        if self.numa_bind and chain[0] != "numa":
            chain = ["numa", *(name for name in chain if name != "numa")]
        return chain


def _count_on(use: CardUse, taken: Taken, instances: list[MigInstance]) -> None:
    use.slots += max(taken.slots, 1)
    use.memory_mib += taken.memory_mib
    use.cores += taken.cores
    if instances and use.card.mode == words.HAMI_CORE:
        use.healthy = False
    elif instances:
        use.occupied.append(instances.pop(0).placement)
    elif use.card.mode == words.MIG:
        use.healthy = False


def scoring_weights(annotations: Mapping[str, str]) -> Weights:
    """The weights a pod asks for. Raises ValueError unless all three are whole, not negative, and not all 0."""
    text = annotations.get(words.SCORING_WEIGHTS)
    if text is None:
        return Weights()
    problem = f'invalid {words.SCORING_WEIGHTS} annotation "{text}": '
    parts = text.split(",")
    if len(parts) != 3:
        raise ValueError(problem + "expected slot, core, and memory weights")
    found: dict[str, int] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(problem + "expected key=value entries")
        if name in found:
            raise ValueError(problem + f'duplicate "{name}" weight')
        if not re.fullmatch(r"[+-]?\d+", value):
            raise ValueError(problem + f'"{name}" weight must be an integer')
        if int(value) < 0:
            raise ValueError(problem + f'"{name}" weight must not be negative')
        if name not in ("slot", "core", "memory"):
            raise ValueError(problem + f'unknown weight "{name}"')
        found[name] = int(value)
    if not any(found.values()):
        raise ValueError(problem + "at least one weight must be positive")
    return Weights(**found)
