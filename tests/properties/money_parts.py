"""The parts of the plain model of money: wallets, limits, meters. See `money_model`.

Months come from the calendar, ends of holds from bisection. Times are microseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

CENTURY = 36_525 * 86_400 * 10**6
MONTHS = [(year, month) for year in (2025, 2026, 2027, 2028) for month in range(1, 13)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime) -> int:
    """A moment as whole microseconds."""
    span = at - EPOCH
    return (span.days * 86_400 + span.seconds) * 10**6 + span.microseconds


def month_starts(zone: str) -> list[int]:
    """When each month begins on the wall of a zone."""
    return [micros(datetime(year, month, 1, tzinfo=ZoneInfo(zone))) for year, month in MONTHS]


@dataclass
class Purse:
    """A wallet."""

    balance: int = 0
    held: int = 0
    entries: int = 0

    @property
    def free(self) -> int:
        return self.balance - self.held


@dataclass
class Limit:
    """A budget of calendar months."""

    whose: UUID
    limit: int
    blocks: bool
    starts: list[int]
    active: bool = True
    held: int = 0

    def start_at(self, at: int) -> int:
        return max(start for start in self.starts if start <= at)

    def next_after(self, at: int) -> int:
        return min(start for start in self.starts if start > at)


@dataclass
class Clockwork:
    """A meter. `num` micro-credits are due every `den` microseconds."""

    wallet: UUID
    scopes: tuple[UUID, ...]
    num: int
    den: int
    target: int
    billable_from: int
    key: tuple[Any, ...]
    held: int = 0
    charged: int = 0
    closed: int = 0
    start: int | None = None
    until: int = 0
    proven: int | None = None
    end: int | None = None
    due: int | None = None
    settled: bool = False
    suspended: bool = False
    exhausted: bool = False
    short: str = ""
    not_billed: int = 0
    last_end: int | None = None
    counted: set[UUID] = field(default_factory=set)

    def cost(self, at: int) -> int:
        """What it costs in total if the open stretch ends at `at`."""
        ran = self.closed + (at - self.start if self.start is not None else 0)
        return self.num * ran // self.den

    def left(self, at: int) -> int:
        return self.held - (self.cost(at) - self.charged)

    def is_low(self, at: int) -> bool:
        return 2 * self.left(at) < self.target

    def hold_end(self) -> int:
        """The last moment that charged and held credits pay for exactly."""
        assert self.start is not None
        start, paid = self.start, (self.charged + self.held) * self.den
        return start + _last(lambda ran: self.num * (self.closed + ran) <= paid)

    def schedule(self, limits: list[Limit]) -> None:
        assert self.start is not None
        if self.end is not None:
            self.due = None
            return
        start = self.start
        low = start + _last(lambda ran: not self.is_low(start + ran)) + (0 if self.is_low(start) else 1)
        self.due = min([min(low, start + CENTURY), *(limit.next_after(self.until) for limit in limits)])


def _last(holds: Any) -> int:
    """The greatest number up to a century for which this holds, by bisection; 0 when it never does."""
    low, high = 0, CENTURY
    if holds(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
