"""How places are rated: `best_fit` and `spread`.

Guarantees: a policy rates rows it is given and touches nothing; ratings are integers, lower is better, so that ties are
real ties and are broken by the row (the node's name) and then the column (the card's index). Whether something fits is
not a policy's business: it is told.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import numpy as np

from cluster.domain.fleet import MICRO
from cluster.domain.requests import Ask
from cluster.domain.stock import Flags, Ints, Stock

Rows = Ints | slice
_LAST = np.iinfo(np.int64).max
NOWHERE = int(_LAST) // 2
"""The rating of a row where the request does not fit; a surcharge on top of it does not overflow."""


class Choice(NamedTuple):
    """Ratings ``[R]`` of rows and the columns ``[R, cards]`` chosen on each."""

    ratings: Ints
    columns: Ints

    @classmethod
    def cheapest(cls, ratings: Ints, fits: Flags) -> Choice:
        """One card a row: the fitting one with the least of ``ratings [R, columns]``, ties to the first column."""
        allowed = np.where(fits, ratings, NOWHERE)
        columns = allowed.argmin(axis=1)[:, None]
        return cls(np.take_along_axis(allowed, columns, axis=1)[:, 0], columns)

    @classmethod
    def nowhere(cls, rows: int, cards: int) -> Choice:
        """No place on any row."""
        return cls(np.full(rows, NOWHERE, np.int64), np.zeros((rows, cards), np.int64))


class Policy(Protocol):
    """What the fleet asks of a policy."""

    version: int
    """Rises when the same question may get another answer: ratings kept from before are void."""

    def prepare(self, stock: Stock) -> None:
        """Called before ratings are asked for."""

    def rate(self, stock: Stock, rows: Rows, ask: Ask, fits: Flags) -> list[Choice]:
        """One or two choices for `rows`, given which cards fit ``[R, columns]``.

        Rows where the request does not fit may hold anything: the caller ignores them.
        """

    def surcharge(self, stock: Stock, ask: Ask) -> Ints | None:
        """What the second choice costs more on every row at this moment ``[N]``."""

    def saw(self, ask: Ask) -> None:
        """A request was seen for the first time."""

    def moved(self, *, came: int = 0, left: int = 0) -> None:
        """Placements were taken and given back."""

    def tune(self, stock: Stock) -> None:
        """Take in what was seen, if it is time."""

    def copy(self) -> Self:
        """A policy for another fleet that rates alike."""


def share_after(stock: Stock, rows: Rows, ask: Ask) -> Ints:
    """What would be left of each card ``[R, columns]``, in millionths, were the request's share taken from it.

    The share left is the smaller of VRAM and core share, so it is computed from both again, never by subtraction.
    """
    if ask.whole:
        return np.zeros_like(stock.share_left[rows])
    vram = _parts(stock.vram_left[rows] - ask.vram_mib, stock.vram_total[rows])
    core = _parts(stock.core_left[rows] - ask.core_micro, stock.core_total[rows])
    left = np.maximum(np.minimum(vram, core), 0)
    left[stock.slots_left[rows] <= 1] = 0
    return left


def _parts(left: Ints, total: Ints) -> Ints:
    parts: Ints = left * MICRO // np.maximum(total, 1)
    return parts


def first_columns(keys: Ints, fits: Flags, count: int) -> Ints:
    """For each row the `count` fitting columns with the smallest key, ties to the first column: ``[R, count]``."""
    ranked = np.where(fits, keys, _LAST)
    if count == 1:
        first: Ints = ranked.argmin(axis=1)[:, None]
        return first
    return ranked.argsort(axis=1, kind="stable")[:, :count]


def cards_left_after(stock: Stock, rows: Rows, ask: Ask, columns: Ints) -> Ints:
    """Sum of the shares left on each row's cards, in millionths, after placing on `columns`."""
    if not ask.cards:
        return stock.share_sum[rows]
    taken = stock.share_left[rows] - share_after(stock, rows, ask)
    after: Ints = stock.share_sum[rows] - np.take_along_axis(taken, columns, axis=1).sum(axis=1)
    return after


class _Unlearning:
    """A policy whose answers depend on the fleet alone."""

    version = 0

    def prepare(self, stock: Stock) -> None:
        """Nothing to prepare."""

    def surcharge(self, stock: Stock, ask: Ask) -> Ints | None:
        """There is one choice only."""
        return None

    def saw(self, ask: Ask) -> None:
        """Nothing is learned."""

    def moved(self, *, came: int = 0, left: int = 0) -> None:
        """Nothing is learned."""

    def tune(self, stock: Stock) -> None:
        """Nothing changes."""

    def copy(self) -> Self:
        """Nothing is kept, so the same one serves."""
        return self


class BestFit(_Unlearning):
    """The node with the least CPU left ÷ 128 + cards left ÷ 8 after placing; in it the fullest card that fits.

    The divisors are those of the published BestFit (Weng et al., USENIX ATC 2023): the largest node's CPUs and cards.
    """

    def rate(self, stock: Stock, rows: Rows, ask: Ask, fits: Flags) -> list[Choice]:
        columns = first_columns(stock.share_left[rows], fits, ask.cards)
        cards_left = cards_left_after(stock, rows, ask, columns)
        # cpu ÷ 128 + cards ÷ 8, times 128 million: CPU counts in thousandths, cards in millionths
        return [Choice((stock.cpu_left[rows] - ask.cpu_milli) * 1_000 + cards_left * 16, columns)]


class Spread(_Unlearning):
    """The node that keeps the most of its own CPU and cards after placing; in it the emptiest card."""

    def rate(self, stock: Stock, rows: Rows, ask: Ask, fits: Flags) -> list[Choice]:
        columns = first_columns(-stock.share_left[rows], fits, ask.cards)
        cards_left = cards_left_after(stock, rows, ask, columns)
        cards = np.maximum(stock.open[rows].sum(axis=1), 1)
        cpu = (stock.cpu_left[rows] - ask.cpu_milli) * MICRO // np.maximum(stock.cpu_total[rows], 1)
        return [Choice(-(cpu + cards_left // cards), columns)]
