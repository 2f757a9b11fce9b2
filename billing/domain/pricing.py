"""What a stretch of time costs. Preview, gate, hold and meter all ask here, so they share one denominator.

Guarantees: exact integer arithmetic; a cost is floored to the micro-credit of the total, a hold is rounded up and never
0. Refuses prices that are not above zero: a missing rate never means free.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from gshare_core.money import Micro
from gshare_core.quantities import MICROSECONDS_PER_HOUR, ceil_div, microseconds

FULL_PRICE_MILLI = 1_000
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Credits of a full card an hour, the part of a card that is taken, and the share of the price that is paid.

    `occupancy` is in cards (1/4, 2), `factor_milli` in thousandths (300 for preemptible sessions). Raises ValueError
    unless rate and occupancy are positive and the factor is 1 to 1,000.
    """

    rate_micro_per_hour: int
    occupancy: Fraction
    factor_milli: int = FULL_PRICE_MILLI

    def __post_init__(self) -> None:
        if self.rate_micro_per_hour <= 0:
            raise ValueError("a rate must be positive")
        if self.occupancy <= 0:
            raise ValueError("an occupancy must be positive; what takes no card has no price")
        if not 1 <= self.factor_milli <= FULL_PRICE_MILLI:
            raise ValueError(f"a factor is 1 to {FULL_PRICE_MILLI} thousandths")

    @property
    def numerator(self) -> int:
        """Micro-credits a microsecond = `numerator` / `denominator`."""
        return self.rate_micro_per_hour * self.occupancy.numerator * self.factor_milli

    @property
    def denominator(self) -> int:
        return self.occupancy.denominator * FULL_PRICE_MILLI * MICROSECONDS_PER_HOUR


def charge_micro(price: Price, running_us: int) -> Micro:
    """The cost of `running_us` microseconds, floored to the micro-credit."""
    return Micro(price.numerator * running_us // price.denominator)


def hourly_micro(price: Price) -> Micro:
    """The cost of one hour."""
    return charge_micro(price, MICROSECONDS_PER_HOUR)


def hold_micro(price: Price, window: timedelta) -> Micro:
    """What to set aside for `window`: its cost rounded up, at least that of one second, never 0."""
    return covering_micro(price, max(microseconds(window), _SECOND))


def covering_micro(price: Price, running_us: int) -> Micro:
    """The least amount that pays for `running_us` microseconds: their cost rounded up to the micro-credit."""
    return Micro(ceil_div(price.numerator * running_us, price.denominator))


def covered_us(price: Price, amount: int) -> int:
    """The longest running time, in microseconds, whose exact cost `amount` micro-credits pay for."""
    return amount * price.denominator // price.numerator


def shortest_us(price: Price, amount: int) -> int:
    """The shortest running time, in microseconds, whose floored cost reaches `amount` micro-credits."""
    return ceil_div(amount * price.denominator, price.numerator)
