"""From a moment at which something ends to two warnings before it: pure, told anew each time the moment moves away.

Guarantees: nothing ends that was not announced, and not before the moment that the last announcement named; a limit that
was shortened below what has passed already still leaves the second warning's time. A moment that drifts by less than that
is the same one and is not announced again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

FIRST = timedelta(minutes=15)
SECOND = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Told:
    """What was announced: how many warnings (0 to 2), for which end, and the moment that was named."""

    level: int = 0
    aim: datetime | None = None
    named: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Where the countdown stands: when it ends (`at`), whether that is now, what to announce (0: nothing), told so far."""

    at: datetime
    due: bool
    warn: int
    told: Told
    warnings: tuple[datetime, datetime]


def leads(limit: timedelta) -> tuple[timedelta, timedelta]:
    """How long before the end the two warnings come: min(15, T/2) and min(5, T/4) minutes."""
    return min(FIRST, limit / 2), min(SECOND, limit / 4)


def step(aim: datetime, told: Told, limit: timedelta, now: datetime) -> Step:
    """One look at a countdown towards `aim` under a limit of length `limit`."""
    first, second = leads(limit)
    if told.aim is None or abs(told.aim - aim) > second:
        told = Told()
    at = max(aim, told.named or aim)
    warn = 0
    if told.level < 2 and at - second <= now:
        at = at if at - now >= second / 2 else now + second
        warn, told = 2, Told(2, told.aim or aim, at)
    elif told.level < 1 and at - first <= now:
        warn, told = 1, Told(1, aim, at)
    due = warn == 0 and told.level == 2 and now >= at
    return Step(at, due, warn, told, (at - first, at - second))
