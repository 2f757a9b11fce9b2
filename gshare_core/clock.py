"""Time as a port: whoever needs the present asks a clock that was handed in.

The database's clock (`gshare_core.kit.clock`) rules money and deadlines; a simulation and tests hand in their own.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the present as an aware UTC datetime."""

    def now(self) -> datetime:
        """The present, aware, in UTC."""
        ...


class ManualClock:
    """A clock that stands still until it is moved; for simulations and tests."""

    def __init__(self, at: datetime) -> None:
        if at.tzinfo is None:
            raise ValueError("a clock needs an aware datetime")
        self._at = at

    def now(self) -> datetime:
        return self._at

    def advance(self, span: timedelta) -> datetime:
        """Move the clock by `span` (negative steps it back) and answer the new time."""
        self._at += span
        return self._at

    def set(self, at: datetime) -> None:
        """Put the clock to `at`."""
        if at.tzinfo is None:
            raise ValueError("a clock needs an aware datetime")
        self._at = at
