"""Credits as integers of micro-credits.

Guarantees: amounts are Python integers (1 credit = 1,000,000 micro-credits), parsed and shown without floats.
Refuses: anything that is not a plain decimal with at most six decimals, and amounts that a bigint cannot hold.
"""

from __future__ import annotations

import re
from typing import NewType

Micro = NewType("Micro", int)

MICRO_PER_CREDIT = 1_000_000
DECIMALS = 6
# Rows keep amounts as signed 64-bit integers; the edge refuses what a sum of a million rows could overflow.
MAX_MICRO = Micro(9_000_000 * 1_000_000 * MICRO_PER_CREDIT // 1_000)

_CREDITS = re.compile(r"(?P<sign>-?)(?P<whole>\d{1,13})(?:\.(?P<part>\d{1,6}))?")


def parse_credits(text: str) -> Micro:
    """Micro-credits of a decimal string such as ``"12.5"``.

    Raises ValueError when the text is not a decimal with at most 13 digits before and 6 after the point.
    """
    match = _CREDITS.fullmatch(text.strip())
    if match is None:
        raise ValueError("write an amount such as 12.5, with at most six decimals")
    part = (match["part"] or "").ljust(DECIMALS, "0")
    micro = int(match["whole"]) * MICRO_PER_CREDIT + int(part)
    if micro > MAX_MICRO:
        raise ValueError(f"at most {MAX_MICRO // MICRO_PER_CREDIT} credits")
    return Micro(-micro if match["sign"] else micro)


def format_credits(micro: int) -> str:
    """Credits with six decimals, the form of the API: ``12500000`` → ``"12.500000"``."""
    sign = "-" if micro < 0 else ""
    whole, part = divmod(abs(micro), MICRO_PER_CREDIT)
    return f"{sign}{whole}.{part:06d}"


def display_credits(micro: int) -> str:
    """Credits with two decimals, rounded half up (away from zero), thousands grouped: the form of the screens."""
    cents = (abs(micro) + 5_000) // 10_000
    sign = "-" if micro < 0 and cents else ""
    whole, part = divmod(cents, 100)
    return f"{sign}{whole:,}.{part:02d}"
