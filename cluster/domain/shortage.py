"""Why a request has no place: what could ever hold it, and what is short at the nearest candidate.

Guarantees: `never` is said only when no registered node, emptied, with healthy cards, could hold the request (silent,
cordoned and draining ones count; pools do not matter); otherwise `not_now` names every shortage at the candidate that
is nearest to fitting, the largest relative shortage first.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cluster.domain.requests import Ask, Missing, NoPlace, Resource
from cluster.domain.stock import Flags, Ints, Stock

Shortages = dict[Resource, Ints]
_MICRO_PER_MILLI = 1_000


def eligible_cards(stock: Stock, ask: Ask) -> Flags:
    """Cards of a model that the request allows, ``[nodes, columns]``, whatever their state."""
    if ask.models is None:
        return stock.model >= 0
    wanted = [stock.models[model] for model in ask.models if model in stock.models]
    return np.isin(stock.model, wanted)


def eligible_hosts(stock: Stock, ask: Ask) -> Flags:
    """Nodes in pools and among the nodes that the request allows, ``[nodes]``, whatever their state."""
    hosts = np.ones(len(stock.names), np.bool_)
    if ask.pools is not None:
        hosts &= np.isin(stock.pool, [stock.pools[pool] for pool in ask.pools if pool in stock.pools])
    if ask.nodes is not None:
        hosts &= np.fromiter((name in ask.nodes for name in stock.names), np.bool_, len(stock.names))
    return hosts


def why_not(stock: Stock, ask: Ask) -> NoPlace:
    """The verdict on a request that fits nowhere now."""
    eligible = eligible_cards(stock, ask) & stock.possible
    ever = _host_shortages(ask, stock.cpu_total, stock.memory_total, stock.scratch_total)
    if ask.cards:
        totals = (stock.vram_total, stock.core_total, stock.slots_total)
        ever |= _card_shortages(ask, *totals, eligible, whole=stock.slots_total > 0)
    possible = _none_short(ever, len(stock.names))
    if not possible.any():
        return _never(stock, ask, ever, eligible)
    allowed = possible & eligible_hosts(stock, ask)
    if not allowed.any():
        missing = (Missing("pool", 1, int(possible.sum())),)
        return NoPlace("not_now", missing, "Only nodes outside the allowed pools could hold it.")
    now = _host_shortages(ask, stock.cpu_left, stock.memory_left, stock.scratch_left)
    if ask.cards:
        lefts = (stock.vram_left, stock.core_left, stock.slots_left)
        now |= _card_shortages(ask, *lefts, eligible & stock.open, whole=stock.idle)
    candidates = allowed & stock.host_open
    if not candidates.any():
        return _all_closed(ask, int(allowed.sum()))
    return _not_now(stock, ask, now, candidates)


def _host_shortages(ask: Ask, cpu: Ints, memory: Ints, scratch: Ints) -> Shortages:
    return {
        "cpu_milli": np.maximum(ask.cpu_milli - cpu, 0),
        "memory_mib": np.maximum(ask.memory_mib - memory, 0),
        "scratch_gib": np.maximum(ask.scratch_gib - scratch, 0),
    }


def _card_shortages(ask: Ask, vram: Ints, core: Ints, slots: Ints, usable: Flags, *, whole: Flags) -> Shortages:
    """What is short on each node's nearest card; for several or whole cards, how many cards are short."""
    if ask.whole:
        count = np.count_nonzero(usable & whole, axis=1)
        return {"cards": np.maximum(ask.cards - count, 0)}
    short_vram = np.maximum(ask.vram_mib - vram, 0)
    short_core = np.maximum(ask.core_micro - core, 0)
    short_slots = (slots <= 0).astype(np.int64)
    if ask.cards > 1:
        fits = usable & (short_vram == 0) & (short_core == 0) & (short_slots == 0)
        return {"cards": np.maximum(ask.cards - np.count_nonzero(fits, axis=1), 0)}
    distance = _relative(short_vram, ask.vram_mib) + _relative(short_core, ask.core_micro) + short_slots
    distance[~usable] = np.inf
    nearest = distance.argmin(axis=1)[:, None]
    none = ~usable.any(axis=1)

    def at_nearest(short: Ints) -> Ints:
        return np.where(none, 0, np.take_along_axis(short, nearest, axis=1)[:, 0])

    return {
        "cards": np.where(none, 1, 0),
        "vram_mib": at_nearest(short_vram),
        "cores": at_nearest(-(-short_core // _MICRO_PER_MILLI)),
        "slots": at_nearest(short_slots),
    }


def _relative(short: Ints, asked: int) -> NDArray[np.float64]:
    return short / max(asked, 1)


def _none_short(shortages: Shortages, nodes: int) -> Flags:
    fine = np.ones(nodes, np.bool_)
    for short in shortages.values():
        fine &= short == 0
    return fine


def _asked(ask: Ask) -> dict[Resource, int]:
    return {
        "cards": ask.cards,
        "vram_mib": ask.vram_mib,
        "cores": ask.core_micro // _MICRO_PER_MILLI,
        "slots": 1,
        "cpu_milli": ask.cpu_milli,
        "memory_mib": ask.memory_mib,
        "scratch_gib": ask.scratch_gib,
    }


def _ranked(ask: Ask, shortages: Shortages, candidates: Flags) -> tuple[int, tuple[Missing, ...]]:
    """The candidate nearest to fitting and what it lacks, the largest relative shortage first."""
    asked = _asked(ask)
    distance = np.zeros(len(candidates))
    for resource, short in shortages.items():
        distance += _relative(short, asked[resource])
    distance[~candidates] = np.inf
    nearest = int(distance.argmin())
    missing = [
        Missing(resource, int(short[nearest]), int(np.count_nonzero(candidates & (short > 0))))
        for resource, short in shortages.items()
        if short[nearest] > 0
    ]
    missing.sort(key=lambda lack: (-lack.short / max(asked[lack.resource], 1), lack.resource))
    return nearest, tuple(missing)


def _words(missing: Iterable[Missing]) -> str:
    return ", ".join(_in_words(lack.resource, lack.short) for lack in missing)


def _in_words(resource: Resource, short: int) -> str:
    match resource:
        case "vram_mib":
            return f"{short:,} MiB of VRAM"
        case "cores":
            return f"{short / 10:g} % of a card's cores"
        case "cpu_milli":
            return f"{short / 1_000:g} CPUs"
        case "memory_mib":
            return f"{short:,} MiB of memory"
        case "scratch_gib":
            return f"{short:,} GiB of scratch space"
        case "pool":
            return "a pool that may be used"
        case "cards" | "slots":
            return f"{short} {resource if short > 1 else resource[:-1]}"


def _not_now(stock: Stock, ask: Ask, shortages: Shortages, candidates: Flags) -> NoPlace:
    nearest, missing = _ranked(ask, shortages, candidates)
    name = stock.names[nearest]
    return NoPlace(
        "not_now",
        missing,
        f"No node has room now. The nearest, {name}, lacks {_words(missing)}.",
        nearest=name,
    )


def _all_closed(ask: Ask, nodes: int) -> NoPlace:
    resource: Resource = "cards" if ask.cards else "cpu_milli"
    missing = (Missing(resource, ask.cards or ask.cpu_milli, nodes),)
    return NoPlace("not_now", missing, "Every node that could hold it is silent, cordoned or draining.")


def _never(stock: Stock, ask: Ask, shortages: Shortages, eligible: Flags) -> NoPlace:
    """Names the most that one node could give of what was asked, on the node nearest to giving all of it."""
    rows: Flags = np.ones(len(stock.names), np.bool_)
    if ask.cards:
        rows = np.logical_or.reduce(eligible, axis=1)
    if not rows.any():
        wanted = "the models asked for" if ask.models else "any model"
        detail = f"No healthy card of {wanted} is registered." if ask.cards else "No node is registered."
        lacking = Missing("cards", ask.cards, 0) if ask.cards else Missing("cpu_milli", ask.cpu_milli, 0)
        return NoPlace("never", (lacking,), detail, largest={})
    nearest, missing = _ranked(ask, shortages, rows)
    asked = _asked(ask)
    short = {lack.resource: lack.short for lack in missing}
    largest = {
        str(resource): amount - short.get(resource, 0)
        for resource, amount in asked.items()
        if amount and resource != "slots"
    }
    return NoPlace(
        "never",
        missing,
        f"No node could hold it even when empty. The nearest, {stock.names[nearest]}, lacks {_words(missing)}.",
        largest=largest,
        nearest=stock.names[nearest],
    )
