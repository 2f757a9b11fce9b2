"""Sizes by name: a tier is a fixed share of one card, `exclusive` is whole cards, `cpu` is none.

Guarantees: shares are exact fractions, so that eight M and sixteen S are exactly one card.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

CARDS_MAX = 8


class Tier(StrEnum):
    """What a preset takes of a card."""

    XL = "XL"
    L = "L"
    M = "M"
    S = "S"
    EXCLUSIVE = "exclusive"
    CPU = "cpu"


SHARE_OF_TIER: Mapping[Tier, Fraction] = MappingProxyType(
    {Tier.XL: Fraction(1, 2), Tier.L: Fraction(1, 4), Tier.M: Fraction(1, 8), Tier.S: Fraction(1, 16)}
)
OFFERED_TIERS = (Tier.XL, Tier.L, Tier.M, Tier.S, Tier.EXCLUSIVE)  # an offering allows some of these


def occupancy(tier: Tier, cards: int = 1) -> Fraction:
    """Share of a card that `tier` pays for: the tier itself, 1 per whole card, 0 without a GPU."""
    if tier is Tier.CPU:
        return Fraction(0)
    if tier is Tier.EXCLUSIVE:
        return Fraction(cards)
    return SHARE_OF_TIER[tier]
