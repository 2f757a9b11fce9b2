"""Exact shares of a card and the arithmetic of time in microseconds.

Guarantees: shares are fractions, never floats; every conversion that can lose something says in which direction.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

MICROSECONDS_PER_HOUR = 3_600_000_000
MILLI_PER_CARD = 1_000
PERCENT_PER_CARD = 100

_ONE_MICROSECOND = timedelta(microseconds=1)


def microseconds(span: timedelta) -> int:
    """Whole microseconds of a span; exact, since timedeltas count microseconds."""
    return span // _ONE_MICROSECOND


def microseconds_between(start: datetime, end: datetime) -> int:
    """Microseconds from `start` to `end`, 0 when `end` is not later."""
    return max(0, microseconds(end - start))


def floor_share(whole: int, share: Fraction) -> int:
    """The part of `whole` that `share` gives, floored: a sum of parts never exceeds the whole."""
    return whole * share.numerator // share.denominator


def ceil_div(numerator: int, denominator: int) -> int:
    """Quotient rounded towards plus infinity; `denominator` > 0."""
    return -(-numerator // denominator)


def format_share(share: Fraction) -> str:
    """A share with six decimals, floored: ``Fraction(1, 8)`` → ``"0.125000"``."""
    whole, part = divmod(share.numerator * 1_000_000 // share.denominator, 1_000_000)
    return f"{whole}.{part:06d}"
