"""The tables of expected fill: what a part of a card, a ratio of CPU to card, a model and a group of cards are worth.

Built from the mix that was seen and from the metal, off the decision's path; see `docs/internals/placement.md`.

* ``value[model, r]``: what `r` thousandths left on a card are worth while `horizon` more requests pass by, each taken or
  left as is better: ``V_k[r] = E_s max(V_{k-1}[r], w_s + V_{k-1}[r - s])``. The gain `w_s` is the mean of the request's size
  and its *effective* size (`cluster.domain.cutting`), so that a remainder which few requests fill is not worth much
  however long one waits. It is scaled so that a whole card is worth 1, times the model's price: 1 + the demand that can
  use only such models, per capacity.
* ``fit[model, c]``: the part of the demand for cards that `c` CPUs per card left can serve.
* ``groups[model, k]``: the part of a model's demand that comes in requests for `k` or more whole cards.

Guarantees: integers for everything that is compared, so that ties are ties; a model nobody asked for is worth its size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster.domain.cutting import FULL, Basis, Floats, effective_sizes, predecessors
from cluster.domain.mix import Kind, Mix
from cluster.domain.stock import Ints, Stock

VALUE_SCALE = 1_000_000  # of a card
FIT_SCALE = 10_000
FIT_STEPS_PER_CPU = 10
_FIT_CPUS = 256
_HORIZON_FILLING, _HORIZON_BALANCED = 64, 4
_PRICE_MAX = 1_000.0
_PRIOR_CARDS, _PRIOR_NAMED = 32.0, 1 / 3
_PRIOR_SHARES = (FULL, FULL // 2, FULL // 4, FULL // 8, FULL // 16)
_PRIOR_UNTIL = 64
_SIZES_MAX, _COARSE = 48, 25


@dataclass(frozen=True)
class Metal:
    """What of the fleet the tables depend on: per model, cards and what each has."""

    models: tuple[str, ...]
    grouped: Floats
    """Cards on nodes with at least k cards of the model ``[models, k]``; column 0 and 1 are all cards."""
    vram_mib: Ints
    core_micro: Ints
    cpu_milli: Floats
    """CPU per card of the nodes led by the model."""

    @classmethod
    def of(cls, stock: Stock) -> Metal:
        """Read from the stock; cards that are not possible (unhealthy, MIG) do not count."""
        models, width = tuple(stock.models), stock.width
        grouped = np.zeros((len(models), width + 1))
        vram, core = np.ones(len(models), np.int64), np.ones(len(models), np.int64)
        cpu = np.zeros(len(models))
        for index in range(len(models)):
            cards = (stock.model == index) & stock.possible
            on_node = np.count_nonzero(cards, axis=1)
            grouped[index] = [on_node[on_node >= count].sum() for count in range(width + 1)]
            if cards.any():
                vram[index], core[index] = stock.vram_total[cards].min(), stock.core_total[cards].min()
                cpu[index] = float(stock.cpu_total[stock.lead == index].sum()) / grouped[index, 0]
        return cls(models, grouped, vram, core, cpu)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metal) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> tuple[object, ...]:
        """Everything, as one comparable value."""
        arrays = (self.grouped, self.vram_mib, self.core_micro, self.cpu_milli)
        return (self.models, *(array.tobytes() for array in arrays))

    def size(self, kind: Kind, model: int) -> int:
        """The share of one card of the model that the kind takes, in thousandths (more than 1,000: it does not fit)."""
        if kind.whole:
            return FULL
        vram, core = kind.vram_mib / self.vram_mib[model], kind.core_micro / self.core_micro[model]
        return max(1, round(float(max(vram, core)) * FULL))

    def open_to(self, kind: Kind) -> list[int]:
        """Models that could serve the kind."""
        count = min(kind.cards, self.grouped.shape[1] - 1)
        return [
            index
            for index, model in enumerate(self.models)
            if (not kind.models or model in kind.models)
            and kind.cards < self.grouped.shape[1]
            and self.grouped[index, count] > 0
            and self.size(kind, index) <= FULL
        ]


@dataclass(frozen=True)
class Tables:
    """See the module. The last row of `value` and `fit` is zero: padding columns have model -1."""

    value: Ints
    fit: Ints
    groups: Floats


@dataclass
class _Demand:
    """The part of the mix that may come to one model; weights are per card of capacity it may go to."""

    sizes: dict[int, float] = field(default_factory=dict)
    needs: list[tuple[float, float]] = field(default_factory=list)
    """(CPUs per card, demand)"""
    grouped: dict[int, float] = field(default_factory=dict)
    total: float = 0.0

    def add(self, kind: Kind, size: int, weight: float) -> None:
        """Take in one kind."""
        demand = weight * kind.cards * size / FULL
        self.sizes[size] = self.sizes.get(size, 0.0) + weight * kind.cards
        self.needs.append((kind.cpu_milli / 1_000 / (kind.cards * size / FULL), demand))
        if kind.whole and kind.cards > 1:
            self.grouped[kind.cards] = self.grouped.get(kind.cards, 0.0) + demand
        self.total += demand


class TableBuilder:
    """Builds tables; remembers where the simplex stood for each set of sizes, so that the next build is quick."""

    def __init__(self) -> None:
        self._bases: dict[tuple[int, ...], Basis] = {}

    def build(self, mix: Mix, metal: Metal) -> Tables:
        """The tables for what was seen so far."""
        models, width = len(metal.models), metal.grouped.shape[1]
        demands, prices = self._demands(mix, metal)
        value = np.zeros((models + 1, FULL + 1))
        fit = np.zeros((models + 1, _FIT_CPUS * FIT_STEPS_PER_CPU + 1))
        groups = np.zeros((models, width))
        curves: dict[tuple[tuple[int, float], ...], Floats] = {}
        horizon = horizon_of(mix)
        used: dict[tuple[int, ...], Basis] = {}
        for index, demand in enumerate(demands):
            sizes = tuple(sorted(_coarse(demand.sizes).items()))
            if sizes not in curves:
                curves[sizes] = self._curve(sizes, horizon, used)
            value[index] = curves[sizes] * prices[index]
            fit[index] = _fit(demand.needs)
            for cards, weight in demand.grouped.items():
                groups[index, 2 : cards + 1] += weight / demand.total
        self._bases = used
        return Tables(np.rint(value * VALUE_SCALE).astype(np.int64), np.rint(fit * FIT_SCALE).astype(np.int64), groups)

    def _demands(self, mix: Mix, metal: Metal) -> tuple[list[_Demand], Floats]:
        """The demand on each model, and each model's price."""
        demands = [_Demand() for _ in metal.models]
        cards = metal.grouped[:, 0]
        present = int(np.count_nonzero(cards))
        named = np.where(cards > 0, _PRIOR_CARDS * _PRIOR_NAMED / max(present, 1), 0.0)
        asked = _PRIOR_CARDS
        for kind, weight in [*mix.kinds(), *_prior(mix, metal)]:
            models = metal.open_to(kind)
            capacity = sum(float(metal.grouped[index, kind.cards]) for index in models)
            for index in models:
                size = metal.size(kind, index)
                part = metal.grouped[index, kind.cards] / capacity
                demands[index].add(kind, size, weight / capacity)
                asked += weight * kind.cards * size / FULL * part
                if kind.models and len(models) < present:
                    named[index] += weight * kind.cards * size / FULL * part
        prices = 1 + named / asked * cards.sum() / np.maximum(cards, 1)
        return demands, np.minimum(prices, _PRICE_MAX)

    def _curve(self, sizes: tuple[tuple[int, float], ...], horizon: int, used: dict[tuple[int, ...], Basis]) -> Floats:
        """What each part of a card is worth, a whole one 1."""
        if not sizes:
            return np.arange(FULL + 1) / FULL
        taken = np.array([size for size, _ in sizes])
        chances = np.array([weight for _, weight in sizes])
        chances /= chances.sum()
        key = tuple(taken.tolist())
        effective, used[key] = effective_sizes(taken, chances, self._bases.get(key))
        gains = (effective + taken / FULL) / 2
        before, fits = predecessors(taken)
        worth = np.zeros(FULL + 1)
        for _ in range(horizon):
            better = np.maximum(worth, np.where(fits, gains[:, None] + worth[before], 0.0))
            worth = chances @ better
        return worth / worth[FULL] if worth[FULL] > 0 else np.arange(FULL + 1) / FULL


def horizon_of(mix: Mix) -> int:
    """How many requests pass by before the card is a different one.

    Many while a fleet fills, few when as many leave as come: waiting for the request that fits best pays only as long as
    nobody else changes the card meanwhile.
    """
    ratio = _HORIZON_FILLING / _HORIZON_BALANCED
    return max(_HORIZON_BALANCED, int(_HORIZON_FILLING / (1 + (ratio - 1) * mix.turnover)))


def _prior(mix: Mix, metal: Metal) -> Iterable[tuple[Kind, float]]:
    """Before much was seen: the tiers and whole cards, each with the CPUs that its part of a node has."""
    if mix.seen >= _PRIOR_UNTIL:
        return
    for index, model in enumerate(metal.models):
        if not metal.grouped[index, 0]:
            continue
        for size in _PRIOR_SHARES:
            kind = Kind(
                models=(model,),
                cards=1,
                whole=size == FULL,
                vram_mib=int(metal.vram_mib[index]) * size // FULL,
                core_micro=int(metal.core_micro[index]) * size // FULL,
                cpu_milli=int(metal.cpu_milli[index] * size / FULL),
            )
            yield kind, metal.grouped[index, 0] / metal.grouped[:, 0].sum()


def _coarse(sizes: dict[int, float]) -> dict[int, float]:
    """At most some dozens of sizes: when there are more, they are rounded up to fortieths of a card."""
    if len(sizes) <= _SIZES_MAX:
        return sizes
    coarse: dict[int, float] = {}
    for size, weight in sorted(sizes.items()):
        rounded = min(FULL, -(-size // _COARSE) * _COARSE)
        coarse[rounded] = coarse.get(rounded, 0.0) + weight
    return coarse


def _fit(needs: list[tuple[float, float]]) -> NDArray[np.float64]:
    """For each number of CPUs per card left: the mean over the demand of min(1, CPUs / need)."""
    cpus = np.arange(_FIT_CPUS * FIT_STEPS_PER_CPU + 1) / FIT_STEPS_PER_CPU
    if not needs:
        return np.ones(len(cpus))
    ranked = np.array(sorted(needs))
    need, weight = np.maximum(ranked[:, 0], 1 / FIT_STEPS_PER_CPU), ranked[:, 1]
    satisfied = np.concatenate([[0.0], np.cumsum(weight)])
    partly = np.concatenate([[0.0], np.cumsum(weight / need)])
    met = np.searchsorted(need, cpus, side="right")
    served: NDArray[np.float64] = (satisfied[met] + cpus * (partly[-1] - partly[met])) / satisfied[-1]
    return served
