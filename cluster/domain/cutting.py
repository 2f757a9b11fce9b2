"""Effective sizes: what part of a card a request really costs when the whole mix is packed as well as it can be.

In a mix where few requests fill the 190 thousandths that one of 810 leaves, a request of 810 costs a whole card and the
few that would fill it cost nothing. These are the dual prices of the cutting-stock problem: cards are the stock, the
mix is the order. Solved by column generation (Gilmore and Gomory, "A linear programming approach to the cutting-stock
problem", Operations Research 9, 1961): a revised simplex whose columns are patterns of one card, priced by a knapsack.

Guarantees: effective sizes are between 0 and 1, and no pattern that fits a card sums to more than 1 (they are scaled
down when the iterations run out). The same input gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FULL = 1_000
_ITERATIONS = 200
_TINY = 1e-7


@dataclass(frozen=True, slots=True)
class Basis:
    """Where the simplex stood: one column a pattern, and what it costs. A good start for a similar mix."""

    columns: Floats
    costs: Floats


def effective_sizes(sizes: NDArray[np.int64], demand: Floats, start: Basis | None = None) -> tuple[Floats, Basis]:
    """Effective size of each of `sizes` (thousandths of a card, distinct) under `demand` (requests of each, any scale).

    `start` must come from the same `sizes`.
    """
    columns = np.diag(np.floor(FULL / sizes)) if start is None else start.columns.copy()
    costs = np.ones(len(sizes)) if start is None else start.costs.copy()
    prices = np.ones(len(sizes))
    for _ in range(_ITERATIONS):
        inverse = np.linalg.inv(columns)
        prices = costs @ inverse
        cheapest = int(prices.argmin())
        if prices[cheapest] < -_TINY:  # more of this size than asked for costs nothing: a surplus column
            entering, cost = np.zeros(len(sizes)), 0.0
            entering[cheapest] = -1.0
        else:
            worth = best_filling(sizes, prices)
            if worth[FULL] <= 1 + 1e-6:
                break
            entering, cost = _pattern(sizes, prices, worth), 1.0
        direction, amounts = inverse @ entering, inverse @ demand
        rising = direction > _TINY
        if not rising.any():
            break
        leaving = int(np.where(rising, amounts / np.where(rising, direction, 1.0), np.inf).argmin())
        columns[:, leaving], costs[leaving] = entering, cost
    prices = np.maximum(prices, 0.0)
    return prices / max(1.0, float(best_filling(sizes, prices)[FULL])), Basis(columns, costs)


def best_filling(sizes: NDArray[np.int64], worths: Floats) -> Floats:
    """The most that can be put into 0 … 1,000 thousandths of a card, each size any number of times."""
    best = np.zeros(FULL + 1)
    useful = worths > _TINY
    if not useful.any():
        return best
    before, fits = predecessors(sizes[useful])
    gains = worths[useful][:, None]
    while True:
        better: Floats = np.maximum(best, np.where(fits, gains + best[before], 0.0).max(axis=0))
        if (better - best).max() <= _TINY:
            return better
        best = better


def predecessors(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each size and each part of a card: what is left of it after taking the size, and whether it fits."""
    before = np.arange(FULL + 1)[None, :] - sizes[:, None]
    fits = before >= 0
    return np.where(fits, before, 0), fits


def _pattern(sizes: NDArray[np.int64], prices: Floats, worth: Floats) -> Floats:
    """How many of each size make the best filling of a whole card."""
    pattern, left = np.zeros(len(sizes)), FULL
    while worth[left] > _TINY:
        values = np.where(sizes <= left, prices + worth[np.maximum(left - sizes, 0)], -1.0)
        chosen = int(values.argmax())
        if prices[chosen] <= _TINY:
            left -= 1  # what is best here is best with a little less as well
            continue
        pattern[chosen] += 1
        left -= int(sizes[chosen])
    return pattern
