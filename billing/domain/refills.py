"""The refills of the next month as they would go if nothing more were spent: who would give what, and what would be missing.

Guarantees: the same arithmetic as the tick's, top-down, each wallet once; nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from billing.domain.shares import split


@dataclass(frozen=True, slots=True)
class Promise:
    """What a parent raises a wallet to each month. `level`: 0 what the system gives, 1 what organisations give, then groups."""

    wallet: UUID
    parent: UUID
    amount: int
    level: int


@dataclass(slots=True)
class Ahead:
    """What a parent would have to give: to how many, how much, what it would have then, and how much would be missing."""

    children: int = 0
    needs: int = 0
    has: int = 0
    short: int = 0


def ahead(promises: Iterable[Promise], purses: Mapping[UUID, tuple[int, int]]) -> dict[UUID, Ahead]:
    """What each parent would have to do; `purses` are balance and held of every wallet that is named."""
    balances = {key: balance for key, (balance, _held) in purses.items()}
    by_wallet: dict[tuple[int, UUID], list[Promise]] = {}
    for promise in promises:
        by_wallet.setdefault((promise.level, promise.wallet), []).append(promise)
    found: dict[UUID, Ahead] = {}
    for (_level, wallet), given in sorted(by_wallet.items()):
        for promise, share in zip(given, _shares(given, balances[wallet]), strict=True):
            free = max(0, balances[promise.parent] - purses[promise.parent][1])
            row = found.setdefault(promise.parent, Ahead(has=free))
            moved = min(share, free)
            row.children += 1
            row.needs += share
            row.short += share - moved
            balances[promise.parent] -= moved
            balances[wallet] += moved
    return found


def _shares(given: Sequence[Promise], balance: int) -> list[int]:
    weights = [promise.amount for promise in given]
    return split(max(0, sum(weights) - balance), weights)
