"""The catalogue to begin with: GPU models as clusters report them, sizes, images.

VRAM figures are what the drivers report for the smallest card of the name (an A100 80GB reports 81,920 MiB, an H100 80GB
HBM3 81,559: the lower figure serves both). Models that few have are there but switched off.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.domain.tiers import CARDS_MAX, Tier
from gshare_core.money import MICRO_PER_CREDIT

PRICES_FROM = datetime(2020, 1, 1, tzinfo=UTC)  # before anything ran
_EIGHTHS = (Tier.XL, Tier.L, Tier.M, Tier.EXCLUSIVE)
_SIXTEENTHS = (Tier.XL, Tier.L, Tier.M, Tier.S, Tier.EXCLUSIVE)


@dataclass(frozen=True, slots=True)
class OfferingSeed:
    """A full-card model; `credits` is its price a card-hour in whole credits."""

    name: str
    model: str
    vram_mib: int
    credits: int
    min_cuda: str
    tiers: tuple[Tier, ...] = _EIGHTHS
    yield_allowed: bool = False
    is_active: bool = True

    @property
    def rate_micro_per_hour(self) -> int:
        return self.credits * MICRO_PER_CREDIT


@dataclass(frozen=True, slots=True)
class PresetSeed:
    """A size with what it takes of the host."""

    name: str
    tier: Tier
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    cards: int = 0


@dataclass(frozen=True, slots=True)
class ImageSeed:
    """An image by its repository below the registry."""

    name: str
    repository: str
    cuda: str | None
    apps: tuple[str, ...]


OFFERINGS = (
    OfferingSeed("A100 80GB", "NVIDIA A100-SXM4-80GB", 81_559, 50, "12.0", yield_allowed=True),
    OfferingSeed("H100 80GB", "NVIDIA H100 80GB HBM3", 81_559, 110, "12.0", _SIXTEENTHS, yield_allowed=True),
    OfferingSeed("T4 16GB", "Tesla T4", 15_360, 8, "11.0"),
    OfferingSeed("H200 141GB", "NVIDIA H200", 143_771, 140, "12.2", _SIXTEENTHS, yield_allowed=True, is_active=False),
    OfferingSeed("A100 40GB", "NVIDIA A100-SXM4-40GB", 40_536, 30, "12.0", yield_allowed=True, is_active=False),
    OfferingSeed("L40S 48GB", "NVIDIA L40S", 46_068, 28, "12.0", is_active=False),
    OfferingSeed("A10 24GB", "NVIDIA A10", 23_028, 12, "11.4", is_active=False),
    OfferingSeed("RTX A6000 48GB", "NVIDIA RTX A6000", 49_140, 18, "11.1", is_active=False),
    OfferingSeed("RTX 6000 Ada 48GB", "NVIDIA RTX 6000 Ada Generation", 49_140, 24, "12.0", is_active=False),
    OfferingSeed("RTX 4090 24GB", "NVIDIA GeForce RTX 4090", 24_564, 10, "11.8", is_active=False),
)

PRESETS = (
    PresetSeed("S", Tier.S, 2_000, 8_192, 10),
    PresetSeed("M", Tier.M, 4_000, 16_384, 20),
    PresetSeed("L", Tier.L, 8_000, 32_768, 50),
    PresetSeed("XL", Tier.XL, 12_000, 49_152, 100),
    *(
        PresetSeed(f"{n} card{'s' * (n > 1)}", Tier.EXCLUSIVE, n * 16_000, n * 65_536, n * 200, n)
        for n in range(1, CARDS_MAX + 1)
    ),
    PresetSeed("CPU", Tier.CPU, 4_000, 16_384, 20),
)

IMAGES = (
    ImageSeed("PyTorch 2.9", "sessions/pytorch-2.9-cuda12.8", "12.8", ("lab", "code", "terminal")),
    ImageSeed("JAX 0.7", "sessions/jax-0.7-cuda12.9", "12.9", ("lab", "terminal")),
    ImageSeed("TensorFlow 2.13", "sessions/tensorflow-2.13-cuda11.8", "11.8", ("lab", "terminal")),
    ImageSeed("Python 3.11", "sessions/python-3.11", None, ("lab", "code", "terminal")),
)
