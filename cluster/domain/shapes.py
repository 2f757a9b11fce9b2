"""Shapes: what a tier or a custom wish means on an offering's card.

Guarantees: every limit is derived with exact fractions and **floored**, so 8 M and 16 S fill and cost exactly one
card, and two halves fit the card that really reports 81,559 MiB; occupancy is an exact fraction and a tier's is the
tier itself. Refuses, with gate 1's verdicts, what no such card could give (`never_fits`) and custom shapes whose VRAM
and core shares differ by more than twice (`asymmetric_shape`); raises `DomainError("invalid")` for numbers that mean
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from gshare_core.errors import invalid
from gshare_core.quantities import MILLI_PER_CARD, PERCENT_PER_CARD, floor_share
from gshare_core.verdicts import Gate, Verdict, refused

Mode = Literal["fractional", "exclusive", "cpu"]
TIERS: Mapping[str, Fraction] = MappingProxyType(
    {"XL": Fraction(1, 2), "L": Fraction(1, 4), "M": Fraction(1, 8), "S": Fraction(1, 16)}
)
EXCLUSIVE = "exclusive"
MIN_VRAM_MIB = 1_024
MAX_CARDS = 8
MAX_ASYMMETRY = 2


@dataclass(frozen=True, slots=True)
class Host:
    """What a session takes of its node beside cards."""

    cpu_milli: int
    memory_mib: int
    scratch_gib: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """The resources of a session. `vram_mib`, `core_milli`, `core_percent` are per card; `occupancy` is of all cards.

    `core_milli` (thousandths of a card) is what the claim takes, `core_percent` what the pod is limited to.
    """

    mode: Mode
    cards: int
    vram_mib: int
    core_milli: int
    core_percent: int
    occupancy: Fraction
    cpu_milli: int
    memory_mib: int
    scratch_gib: int


def tier_shape(tier: str | None, *, offering_vram_mib: int, host: Host, cards: int = 1) -> Shape | Verdict:
    """The shape of a preset's tier on an offering's card.

    `tier` is a name of `TIERS`, "exclusive" (with 1 to 8 `cards`), or None for CPU only. Returns a refusing verdict
    (`never_fits`) when the tier gives less than 1,024 MiB of VRAM. Raises DomainError("invalid") for an unknown tier, a
    wrong number of cards or host figures below one.
    """
    _check_host(host)
    if tier is None:
        return cpu_shape(host)
    if tier == EXCLUSIVE:
        return exclusive_shape(cards, offering_vram_mib=offering_vram_mib, host=host)
    if tier not in TIERS:
        raise invalid("tier", f"There is no tier {tier!r}.", remedy=f"Choose one of {', '.join(TIERS)}.")
    share = TIERS[tier]
    vram_mib = floor_share(offering_vram_mib, share)
    if vram_mib < MIN_VRAM_MIB:
        return _too_little_vram(vram_mib)
    return Shape(
        mode="fractional",
        cards=1,
        vram_mib=vram_mib,
        core_milli=floor_share(MILLI_PER_CARD, share),
        core_percent=floor_share(PERCENT_PER_CARD, share),
        occupancy=share,
        cpu_milli=host.cpu_milli,
        memory_mib=host.memory_mib,
        scratch_gib=host.scratch_gib,
    )


def cpu_shape(host: Host) -> Shape:
    """The shape of a session without a card: occupancy 0."""
    _check_host(host)
    return Shape("cpu", 0, 0, 0, 0, Fraction(0), host.cpu_milli, host.memory_mib, host.scratch_gib)


def exclusive_shape(cards: int, *, offering_vram_mib: int, host: Host) -> Shape:
    """The shape of `cards` whole cards of one node: occupancy 1 a card."""
    _check_host(host)
    if not 1 <= cards <= MAX_CARDS:
        raise invalid("cards", f"A session takes 1 to {MAX_CARDS} whole cards of one node.")
    return Shape(
        mode="exclusive",
        cards=cards,
        vram_mib=offering_vram_mib,
        core_milli=MILLI_PER_CARD,
        core_percent=PERCENT_PER_CARD,
        occupancy=Fraction(cards),
        cpu_milli=host.cpu_milli,
        memory_mib=host.memory_mib,
        scratch_gib=host.scratch_gib,
    )


def custom_shape(
    *, vram_mib: int, core_percent: int, cards: int, offering_vram_mib: int | None, host: Host
) -> Shape | Verdict:
    """The shape of a custom wish: whole `cards`, or a share of one card when `cards` is 0, or CPU only when all are 0.

    `offering_vram_mib` is None when no offering was chosen. Returns a refusing verdict: `never_fits` (under 1,024 MiB,
    more than the card has) or `asymmetric_shape` (VRAM share and core share differ by more than twice). Raises
    DomainError("invalid") for negative numbers, a share together with whole cards, or a card without an offering.
    """
    _check_host(host)
    for name, value in (("vram_mib", vram_mib), ("core_percent", core_percent), ("cards", cards)):
        if value < 0:
            raise invalid(name, "It cannot be negative.")
    if not (vram_mib or core_percent or cards):
        return cpu_shape(host)
    if offering_vram_mib is None:
        raise invalid("offering", "A session with a card needs an offering.")
    if cards:
        if vram_mib or core_percent:
            raise invalid("cards", "Whole cards come with all their VRAM and cores.", remedy="Leave the share out.")
        return exclusive_shape(cards, offering_vram_mib=offering_vram_mib, host=host)
    verdict = _judge_share(vram_mib, core_percent, offering_vram_mib)
    if verdict is not None:
        return verdict
    return Shape(
        mode="fractional",
        cards=1,
        vram_mib=vram_mib,
        core_milli=core_percent * MILLI_PER_CARD // PERCENT_PER_CARD,
        core_percent=core_percent,
        occupancy=max(Fraction(vram_mib, offering_vram_mib), Fraction(core_percent, PERCENT_PER_CARD)),
        cpu_milli=host.cpu_milli,
        memory_mib=host.memory_mib,
        scratch_gib=host.scratch_gib,
    )


def _judge_share(vram_mib: int, core_percent: int, offering_vram_mib: int) -> Verdict | None:
    if vram_mib < MIN_VRAM_MIB:
        return _too_little_vram(vram_mib)
    if vram_mib > offering_vram_mib or core_percent > PERCENT_PER_CARD:
        return refused(
            Gate.REFERENCES,
            "never_fits",
            f"A card of this offering has {offering_vram_mib:,} MiB and {PERCENT_PER_CARD} % of its cores.",
            "Ask for at most one card, or take whole cards.",
            largest={"vram_mib": offering_vram_mib, "core_percent": PERCENT_PER_CARD},
        )
    vram_share, core_share = Fraction(vram_mib, offering_vram_mib), Fraction(core_percent, PERCENT_PER_CARD)
    if max(vram_share, core_share) > MAX_ASYMMETRY * min(vram_share, core_share):
        lowest, highest = core_bounds(vram_mib, offering_vram_mib)
        return refused(
            Gate.REFERENCES,
            "asymmetric_shape",
            f"{_percent(vram_share)} of the card's VRAM with {core_percent} % of its cores: the shares may differ "
            f"{MAX_ASYMMETRY}-fold at most, or one kind would be left over that nobody can use.",
            f"With {vram_mib:,} MiB ask for {lowest} to {highest} % of the cores.",
            vram_share=str(vram_share),
            core_share=str(core_share),
            core_percent_min=lowest,
            core_percent_max=highest,
        )
    return None


def core_bounds(vram_mib: int, offering_vram_mib: int) -> tuple[int, int]:
    """The smallest and largest whole percentages of cores that go with so much VRAM."""
    percent = Fraction(vram_mib, offering_vram_mib) * PERCENT_PER_CARD
    lowest = -(-percent.numerator // (percent.denominator * MAX_ASYMMETRY))
    return lowest, min(PERCENT_PER_CARD, int(percent * MAX_ASYMMETRY))


def _percent(share: Fraction) -> str:
    return f"{float(share * PERCENT_PER_CARD):.1f} %"


def _too_little_vram(vram_mib: int) -> Verdict:
    return refused(
        Gate.REFERENCES,
        "never_fits",
        f"{vram_mib:,} MiB of VRAM is less than the {MIN_VRAM_MIB:,} MiB that a session needs.",
        f"Ask for at least {MIN_VRAM_MIB:,} MiB.",
        smallest={"vram_mib": MIN_VRAM_MIB},
    )


def _check_host(host: Host) -> None:
    for name, value, least in (
        ("cpu_milli", host.cpu_milli, 1),
        ("memory_mib", host.memory_mib, 1),
        ("scratch_gib", host.scratch_gib, 0),
    ):
        if value < least:
            raise invalid(name, f"It must be at least {least}.")
