"""What is asked of the fleet and what it answers.

Guarantees: a request is immutable and says everything that decides where it may go; an answer is a placement or a
`NoPlace` that names what is missing, never a boolean. Refuses amounts below zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from cluster.domain.fleet import micro_of_percent

if TYPE_CHECKING:
    from cluster.domain.shapes import Shape

Percent = int | float | str | Decimal | Fraction
Resource = Literal["slots", "vram_mib", "cores", "cards", "cpu_milli", "memory_mib", "scratch_gib", "pool"]


class Ask(NamedTuple):
    """A request in the fleet's own units; equal asks have equal answers."""

    models: frozenset[str] | None
    cards: int
    whole: bool
    vram_mib: int
    core_micro: int
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    pools: frozenset[Hashable] | None
    nodes: frozenset[str] | None


@dataclass(frozen=True)
class Request:
    """What a session needs at once, on one node.

    `models` None (or empty) is any model. `exclusive` takes `cards` whole, empty cards. Otherwise each of `cards` cards
    gives `vram_mib` and `core_percent` (fractions of a percent are exact to a ten-thousandth, then floored); with a
    share but no number of cards it is one card, with a number of cards but no share they are whole cards, as HAMi reads
    it. No cards and no share: CPU only. `pools` and `nodes` None means any, empty means none. `key` names who asks: a
    retry under the same key is not new demand.
    """

    models: Iterable[str] | None = None
    cards: int = 0
    exclusive: bool = False
    vram_mib: int = 0
    core_percent: Percent = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    scratch_gib: int = 0
    pools: Iterable[Hashable] | None = None
    nodes: Iterable[str] | None = None
    key: Hashable = None
    ask: Ask = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        models = frozenset((self.models,) if isinstance(self.models, str) else self.models or ()) or None
        pools = None if self.pools is None else frozenset(self.pools)
        nodes = None if self.nodes is None else frozenset(self.nodes)
        for name, value in (("models", models), ("pools", pools), ("nodes", nodes)):
            object.__setattr__(self, name, value)
        vram, core = int(self.vram_mib), micro_of_percent(self.core_percent)
        numbers = (self.cards, vram, core, self.cpu_milli, self.memory_mib, self.scratch_gib)
        if min(numbers) < 0:
            raise ValueError("a request asks for amounts of zero or more")
        shared = not self.exclusive and (vram > 0 or core > 0)
        cards = max(self.cards, 1) if shared or self.exclusive else self.cards
        whole = cards > 0 and not shared
        object.__setattr__(
            self,
            "ask",
            Ask(
                models=models,
                cards=cards,
                whole=whole,
                vram_mib=0 if whole else vram,
                core_micro=0 if whole else core,
                cpu_milli=int(self.cpu_milli),
                memory_mib=int(self.memory_mib),
                scratch_gib=int(self.scratch_gib),
                pools=pools,
                nodes=nodes,
            ),
        )

    def __hash__(self) -> int:
        return hash((self.ask, self.key))

    @classmethod
    def for_shape(cls, shape: Shape, *, models: Iterable[str] | None = None, **where: Any) -> Self:
        """The request of a shape; `where` takes `pools`, `nodes` and `key`."""
        return cls(
            models=models,
            cards=shape.cards,
            exclusive=shape.mode == "exclusive",
            vram_mib=0 if shape.mode == "exclusive" else shape.vram_mib,
            core_percent=0 if shape.mode == "exclusive" else Fraction(shape.core_milli, 10),
            cpu_milli=shape.cpu_milli,
            memory_mib=shape.memory_mib,
            scratch_gib=shape.scratch_gib,
            **where,
        )


@dataclass(frozen=True)
class Placement:
    """Where a request goes: one node and, for each card asked for, its UUID."""

    node: str
    cards: tuple[str, ...]
    request: Request

    @property
    def card(self) -> str | None:
        """The first card's UUID; None for CPU only."""
        return self.cards[0] if self.cards else None


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that is short: how much at the nearest candidate, and how many candidate nodes lack it.

    `short` is in the unit of the resource's name; `cores` in thousandths of a card, `cards` and `slots` are counts,
    `pool` counts the pools to choose from that are missing: 1.
    """

    resource: Resource
    short: int
    nodes: int


@dataclass(frozen=True)
class NoPlace:
    """Why there is no place.

    `kind` is `not_now` (it would fit the fleet when empty) or `never` (it would not). `missing` is ranked, the largest
    relative shortage at the nearest candidate first. `largest` is, for `never`, the most of each thing asked for that
    one node could give: a request of that size would fit.
    """

    kind: Literal["not_now", "never"]
    missing: tuple[Missing, ...]
    detail: str
    largest: Mapping[str, int] | None = None
    nearest: str | None = None

    def __bool__(self) -> bool:
        return False

    @property
    def short(self) -> dict[str, int]:
        """The shortages as the API's `missing`, ranked."""
        return {missing.resource: missing.short for missing in self.missing}
