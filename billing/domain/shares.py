"""Dividing an amount among several by weight, exactly.

Guarantees: the parts add up to the amount, none exceeds its weight while the amount does not exceed all of them, and the
same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """`amount` by weight: floors of the running total, so that no micro-credit is lost or made.

    Raises ValueError for weights below 0, and when there is something to divide and nobody to have it.
    """
    total = sum(weights)
    if amount < 0 or any(weight < 0 for weight in weights):
        raise ValueError("amounts and weights are not negative")
    if not total:
        if amount:
            raise ValueError("nobody has a weight")
        return [0] * len(weights)
    parts, before, reached = [], 0, 0
    for weight in weights:
        reached += weight
        upto = amount * reached // total
        parts.append(upto - before)
        before = upto
    return parts
