"""`least_fragmentation`: take the place that costs the least expected fill.

A node is worth the fill it can still be expected to get: the worth of what is left on its cards, times the part of the
demand that its CPUs can serve. A placement's rating is what it takes from that worth. Whole cards of one node are worth
more together when requests for several are expected and groups are scarce; that surcharge follows the fleet from
decision to decision, so ratings are kept in two parts, with and without breaking into an untouched card.

Guarantees: never refuses what fits (ratings only order); learns the mix online from what it is told was seen; rebuilds
its tables only in `tune`. The tables are those of `cluster.domain.tables`, the reasons in `docs/internals/placement.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from cluster.domain.mix import Mix
from cluster.domain.policies import Choice, Rows, first_columns, share_after
from cluster.domain.requests import Ask
from cluster.domain.stock import Flags, Ints, Stock
from cluster.domain.tables import FIT_SCALE, FIT_STEPS_PER_CPU, VALUE_SCALE, Metal, TableBuilder, Tables

_CARD = VALUE_SCALE * FIT_SCALE  # the worth of a whole card, in the unit of ratings
_CPU_TIES = 1_024
_MICRO_PER_THOUSANDTH = 1_000
_FIT_INDEX = 1_000 * FIT_STEPS_PER_CPU  # CPU thousandths ÷ millionths of a card → steps of CPUs per card
# What a card of a group is worth beyond itself when every group is needed. From 0.1 to 0.4 the results are the same.
_GROUP_WORTH = 0.2
_SCARCITY_POWER = 3


class LeastFragmentation:
    """Expected fill, learned online. `mix` is what was seen so far, `built` tables and the metal they were built for."""

    def __init__(self, mix: Mix | None = None, built: tuple[Metal, Tables] | None = None) -> None:
        self.version = 0
        self.mix = mix if mix is not None else Mix()
        self._builder = TableBuilder()
        self._built = built
        self._topology = -1

    # -- learning -----------------------------------------------------------------------------------------------------

    def saw(self, ask: Ask) -> None:
        """One request, seen for the first time."""
        self.mix.see(ask)

    def moved(self, *, came: int = 0, left: int = 0) -> None:
        """Placements taken and given back."""
        self.mix.moved(came=came, left=left)

    def tune(self, stock: Stock) -> None:
        """Rebuild the tables when enough is new."""
        if self.mix.due():
            self._build(stock)

    def copy(self) -> Self:
        """A policy with the same tables and what was seen so far; both go on by themselves."""
        return type(self)(replace(self.mix, weights=dict(self.mix.weights)), self._built)

    def prepare(self, stock: Stock) -> None:
        """Have tables that fit the fleet as it is: the first time, and when cards or nodes were added or lost."""
        if self._topology == stock.topology:
            return
        if self._built is None or Metal.of(stock) != self._built[0]:
            self._build(stock)
        self._topology = stock.topology

    def _build(self, stock: Stock) -> None:
        metal = Metal.of(stock)
        self._built, self._topology = (metal, self._builder.build(self.mix, metal)), stock.topology
        self.version += 1

    @property
    def _tables(self) -> Tables:
        assert self._built is not None, "prepare comes first"
        return self._built[1]

    # -- rating -------------------------------------------------------------------------------------------------------

    def rate(self, stock: Stock, rows: Rows, ask: Ask, fits: Flags) -> list[Choice]:
        """Worth lost on each row; for requests that could break into an untouched card, a second choice that does."""
        value, lead = self._tables.value, stock.lead[rows]
        model, left = stock.model[rows], stock.share_left[rows]
        worths = value[model, left // _MICRO_PER_THOUSANDTH]
        worth, shares, cpu = worths.sum(axis=1), stock.share_sum[rows], stock.cpu_left[rows]
        before = worth * self._fit(lead, cpu, shares)
        cpu_after = np.maximum(cpu - ask.cpu_milli, 0)
        if not ask.cards:
            lost = before - worth * self._fit(lead, cpu_after, shares)
            ties = np.minimum(cpu_after // 1_000, _CPU_TIES - 1)  # where no fill is lost, the node with the least CPU
            return [Choice(lost * _CPU_TIES + ties, np.zeros((len(lost), 0), np.int64))]
        after = share_after(stock, rows, ask)
        dropped = worths - value[model, after // _MICRO_PER_THOUSANDTH]
        taken = left - after
        if ask.whole or ask.cards > 1:
            columns = first_columns(dropped, fits, ask.cards)
            worth_after = worth - np.take_along_axis(dropped, columns, axis=1).sum(axis=1)
            shares_after = shares - np.take_along_axis(taken, columns, axis=1).sum(axis=1)
            whole = Choice(before - worth_after * self._fit(lead, cpu_after, shares_after), columns)
            return [Choice.nowhere(len(before), ask.cards), whole] if ask.whole else [whole]
        fit_after = self._fit(lead[:, None], cpu_after[:, None], shares[:, None] - taken)
        lost = before[:, None] - (worth[:, None] - dropped) * fit_after
        idle = stock.idle[rows]
        return [Choice.cheapest(lost, fits & ~idle), Choice.cheapest(lost, fits & idle)]

    def _fit(self, lead: Ints, cpu_milli: Ints, shares: Ints) -> Ints:
        fit = self._tables.fit
        steps = np.maximum(cpu_milli, 0) * _FIT_INDEX // np.maximum(shares, 1)
        served: Ints = fit[lead, np.minimum(steps, fit.shape[1] - 1)]
        return served

    def surcharge(self, stock: Stock, ask: Ask) -> Ints | None:
        """What breaking into an untouched card costs more on each row, None when nobody asks for several cards.

        A card of a group of k is worth more by the cube of (expected demand for groups of k ÷ groups left), at most 1:
        while groups abound they cost nothing, when they get scarce they are kept. Expected is the model's part of
        demand for k or more whole cards, times what is left on its nodes.
        """
        groups = self._tables.groups
        if not groups.any():
            return None
        counts = np.arange(groups.shape[1])
        grouped = counts[:, None] // np.maximum(counts, 1) * counts  # cards in groups of k, of w whole cards [w, k]
        grouped[:, :2] = 0
        expected = groups * stock.room[: len(groups), None] / VALUE_SCALE
        supply = np.maximum(stock.groups[: len(groups)] @ grouped, 0.5)
        worth = _GROUP_WORTH * np.minimum(expected / supply, 1.0) ** _SCARCITY_POWER @ grouped.T
        broken = np.maximum(counts - max(ask.cards, 1), 0)
        extra = np.zeros((len(groups) + 1, len(counts)), np.int64)
        extra[:-1] = np.rint((worth - worth[:, broken]) * _CARD)
        charged: Ints = extra[stock.lead, stock.idle_count]
        return charged
