"""What is asked for: the mix of requests as it has been seen so far, and how fast the fleet turns over.

Guarantees: only first sightings count (the caller says which they are), refused ones too; memory is bounded; two mixes
that saw the same are equal whatever the order within a halving, and are read in one sorted order, so that replicas build
identical tables. What was seen long ago fades: above some thousands everything is halved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.domain.requests import Ask

_HALVED_ABOVE = 8_192
_FORGOTTEN_BELOW = 0.1
_TURNOVER_HALVED_ABOVE = 2_048
_TURNOVER_PRIOR = 16.0
_FIRST_TUNE, _TUNE_STEP_MAX = 8, 512


class Kind(NamedTuple):
    """What of a request matters to the value of what is left."""

    models: tuple[str, ...]
    """Sorted; empty is any model."""
    cards: int
    whole: bool
    vram_mib: int
    core_micro: int
    cpu_milli: int


@dataclass
class Mix:
    """Weights of the kinds of requests seen, and counts of placements that came and went."""

    weights: dict[Kind, float] = field(default_factory=dict)
    seen: int = 0
    came: float = _TURNOVER_PRIOR
    left: float = _TURNOVER_PRIOR
    _total: float = 0.0
    _next_tune: int = _FIRST_TUNE

    def see(self, ask: Ask) -> None:
        """Count one request; those without a card do not compete for cards and are left out."""
        if not ask.cards:
            return
        models = tuple(sorted(ask.models or ()))
        kind = Kind(models, ask.cards, ask.whole, ask.vram_mib, ask.core_micro, ask.cpu_milli)
        self.weights[kind] = self.weights.get(kind, 0.0) + 1.0
        self.seen += 1
        self._total += 1.0
        if self._total > _HALVED_ABOVE:
            halves = {kind: weight / 2 for kind, weight in self.weights.items()}
            self.weights = {kind: weight for kind, weight in halves.items() if weight >= _FORGOTTEN_BELOW}
            self._total = sum(weight for _, weight in self.kinds())

    def moved(self, *, came: int = 0, left: int = 0) -> None:
        """Count placements that were taken and given back."""
        self.came += came
        self.left += left
        if self.came + self.left > _TURNOVER_HALVED_ABOVE:
            self.came /= 2
            self.left /= 2

    def kinds(self) -> list[tuple[Kind, float]]:
        """Every kind with its weight, in one order everywhere."""
        return sorted(self.weights.items())

    @property
    def turnover(self) -> float:
        """Departures per arrival of late, at most 1: 0 while a fleet fills, 1 when it is in balance."""
        return min(1.0, self.left / self.came) if self.came else 1.0

    def due(self) -> bool:
        """Whether enough is new for another look; answering yes starts the count anew."""
        if self.seen < self._next_tune:
            return False
        self._next_tune = self.seen + min(max(4, self.seen * 3 // 10), _TUNE_STEP_MAX)
        return True
