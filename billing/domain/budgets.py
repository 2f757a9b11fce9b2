"""Periods of budgets: calendar months or fixed dates in the budget's own zone, as exact UTC instants.

Guarantees: periods of one budget neither overlap nor leave a gap between months; daylight saving is in them (a month
with a change of the clock is an hour shorter or longer); a charge cut at `boundaries` lies in one period of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

THRESHOLDS = (50, 80, 100)  # percent of the limit

Mode = Literal["warn", "block"]


@dataclass(frozen=True, slots=True)
class Rule:
    """When a budget counts: `first_day` and `last_day` (both included) are None for calendar months."""

    time_zone: str
    first_day: date | None = None
    last_day: date | None = None

    def __post_init__(self) -> None:
        if (self.first_day is None) != (self.last_day is None):
            raise ValueError("a budget of fixed dates needs a first and a last day")
        if self.first_day is not None and self.last_day is not None and self.last_day < self.first_day:
            raise ValueError("the last day lies before the first")


@dataclass(frozen=True, slots=True)
class Period:
    """The half-open stretch [starts_at, ends_at), aware UTC."""

    starts_at: datetime
    ends_at: datetime

    def __contains__(self, at: datetime) -> bool:
        return self.starts_at <= at < self.ends_at


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a day in a zone, in UTC.

    Where the clock skips midnight, the day begins with the instant after the gap; where midnight comes twice, with the
    first.
    """
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)


def period_at(rule: Rule, at: datetime) -> Period | None:
    """The period that `at` lies in; None outside the fixed dates."""
    zone = ZoneInfo(rule.time_zone)
    if rule.first_day is not None and rule.last_day is not None:
        period = Period(midnight(rule.first_day, zone), midnight(rule.last_day + timedelta(days=1), zone))
        return period if at in period else None
    first = at.astimezone(zone).date().replace(day=1)
    period = _month(first, zone)
    if at >= period.ends_at:  # the clock went back over midnight: the local date names the month that has ended
        return _month(_next_month(first), zone)
    return period


def periods_between(rule: Rule, start: datetime, end: datetime) -> Iterator[Period]:
    """The periods that [start, end] touches, in order."""
    period = period_at(rule, start)
    if period is None:
        fixed = _fixed(rule)
        if fixed is not None and start < fixed.starts_at <= end:
            yield fixed
        return
    yield period
    while rule.first_day is None and period.ends_at <= end:
        following = period_at(rule, period.ends_at)
        assert following is not None
        yield following
        period = following


def boundaries(rules: Iterable[Rule], start: datetime, end: datetime) -> set[datetime]:
    """The instants strictly inside (start, end) at which a period of any rule begins or ends."""
    found: set[datetime] = set()
    for rule in rules:
        for period in periods_between(rule, start, end):
            found |= {period.starts_at, period.ends_at}
    return {edge for edge in found if start < edge < end}


def next_boundary(rule: Rule, at: datetime) -> datetime | None:
    """The first instant after `at` at which a period begins or ends; None when there is none to come."""
    return boundaries_around(rule, at)[1]


def boundaries_around(rule: Rule, at: datetime) -> tuple[datetime | None, datetime | None]:
    """The last instant up to `at`, and the first after it, at which a period begins or ends; None where there is none."""
    period = period_at(rule, at)
    if period is not None:
        return period.starts_at, period.ends_at
    fixed = _fixed(rule)
    assert fixed is not None  # months leave no gap
    return (None, fixed.starts_at) if at < fixed.starts_at else (fixed.ends_at, None)


def reached(limit: int, spent: int) -> list[int]:
    """The thresholds, in percent, that `spent` has reached. Nothing spent reaches nothing."""
    return [percent for percent in THRESHOLDS if spent > 0 and spent * 100 >= limit * percent]


def _fixed(rule: Rule) -> Period | None:
    if rule.first_day is None or rule.last_day is None:
        return None
    zone = ZoneInfo(rule.time_zone)
    return Period(midnight(rule.first_day, zone), midnight(rule.last_day + timedelta(days=1), zone))


@lru_cache(maxsize=4_096)  # a tick asks for the same month of every session
def _month(first: date, zone: ZoneInfo) -> Period:
    return Period(midnight(first, zone), midnight(_next_month(first), zone))


def _next_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)
