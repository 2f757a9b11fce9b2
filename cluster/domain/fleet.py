"""Nodes and cards as values: what inventory and claims say of the metal.

Guarantees: they are immutable, and can be read from a mapping or from any object with such attributes; parts of a card
are exact (`micro_of_percent`: millionths of a card, so that 6.25 % is a whole number). Refuses a card listed twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self, TypeVar

MICRO = 1_000_000
_MICRO_PER_MILLI = 1_000
MICRO_PER_PERCENT = 10_000
HAMI_CORE, DRAINING, MIG = "hami-core", "draining", "mig"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as inventory and claims describe it.

    `core_percent` is 100 unless the cluster scales cores; `slots` is HAMi's split count. `used_*` is what claims hold
    (`used_milli` in thousandths of a card), `foreign_*` what pods that are not ours hold. `ready` is false while the
    card may take nothing new; `healthy` false or mode `mig` also removes it from what is possible at all.
    """

    uuid: str
    model: str
    vram_mib: int
    core_percent: int = 100
    slots: int = 10
    used_vram_mib: int = 0
    used_milli: int | Fraction = 0
    used_slots: int = 0
    foreign_vram_mib: int = 0
    foreign_milli: int | Fraction = 0
    foreign_slots: int = 0
    ready: bool = True
    healthy: bool = True
    mode: str = HAMI_CORE

    @classmethod
    def of(cls, source: Any) -> Self:
        """A card from a card, a mapping, or any object with such attributes; unknown ones are ignored."""
        return _record(cls, source)

    @property
    def possible(self) -> bool:
        """Whether the card counts when empty: silent, cordoned and draining ones do, unhealthy and MIG ones do not."""
        return self.healthy and self.mode in (HAMI_CORE, DRAINING)

    @property
    def open(self) -> bool:
        """Whether something new may be placed on it now."""
        return self.healthy and self.ready and self.mode == HAMI_CORE


@dataclass(frozen=True, slots=True)
class Node:
    """One machine with its cards, in their order. `ready` is false while it is silent; `pool` is any hashable name."""

    name: str
    cpu_milli: int
    memory_mib: int
    scratch_gib: int = 0
    cards: tuple[Card, ...] = ()
    used_cpu_milli: int = 0
    used_memory_mib: int = 0
    used_scratch_gib: int = 0
    pool: Hashable = None
    ready: bool = True
    cordoned: bool = False

    @classmethod
    def of(cls, source: Any) -> Self:
        """A node from a node, a mapping, or any object with such attributes; its cards likewise."""
        node = _record(cls, source)
        cards = tuple(Card.of(card) for card in node.cards or ())
        if len({card.uuid for card in cards}) != len(cards):
            raise ValueError(f"node {node.name}: a card is listed twice")
        return replace(node, cards=cards)


def _record(kind: type[_T], source: Any) -> _T:
    if isinstance(source, kind):
        return source
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    if isinstance(source, Mapping):
        return kind(**{name: source[name] for name in names if name in source})
    return kind(**{name: getattr(source, name) for name in names if hasattr(source, name)})


def exact(number: int | float | str | Decimal | Fraction) -> Fraction:
    """The decimal number that was written: a float counts as its shortest notation, so 12.3 is 123/10."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def micro_of_percent(percent: int | float | str | Decimal | Fraction) -> int:
    """Millionths of a card, floored: 6.25 % → 62,500."""
    return int(exact(percent) * MICRO_PER_PERCENT // 1)


def micro_of_milli(milli: int | Fraction) -> int:
    return int(Fraction(milli) * _MICRO_PER_MILLI // 1)


def milli_of_micro(micro: int) -> int | Fraction:
    milli = Fraction(micro, _MICRO_PER_MILLI)
    return milli.numerator if milli.denominator == 1 else milli
