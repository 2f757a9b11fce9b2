"""Where a budget's spend is heading: its pace of the last days carried on to the end of the period.

Guarantees: whole micro-credits, rounded down; what has run and is not posted yet counts as spent; a limit that has been
reached says so at once. It is an estimate and says what it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from billing.domain.budgets import Period

WINDOW = timedelta(days=7)
SHORTEST = timedelta(days=1)

Basis = Literal["recent_spend", "nothing_spent"]


@dataclass(frozen=True, slots=True)
class Spending:
    """What is known of a scope: spent in the period, accrued by what runs, spent and accrued since `since` (in the window)."""

    spent: int
    accrued: int
    recent: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Outlook:
    """`projected` is the period's spend at its end, `reaches_limit_at` when the limit is met (None: not in the period)."""

    spent: int
    accrued: int
    pace_per_day: int
    projected: int
    reaches_limit_at: datetime | None
    basis: Basis


def outlook(limit: int, spending: Spending, period: Period, at: datetime) -> Outlook:
    """The forecast at a moment of the period. The pace is taken over at least a day."""
    now = spending.spent + spending.accrued
    span = max(at - spending.since, SHORTEST)
    left = period.ends_at - at
    second = timedelta(seconds=1)
    projected = now + spending.recent * (left // second) // (span // second)
    return Outlook(
        spent=spending.spent,
        accrued=spending.accrued,
        pace_per_day=spending.recent * 86_400 // (span // second),
        projected=projected,
        reaches_limit_at=_reached(limit - now, spending.recent, span, period, at),
        basis="recent_spend" if spending.recent else "nothing_spent",
    )


def _reached(room: int, recent: int, span: timedelta, period: Period, at: datetime) -> datetime | None:
    if room <= 0:
        return at
    if not recent:
        return None
    seconds = -(-room * (span // timedelta(seconds=1)) // recent)
    if seconds >= (period.ends_at - at).total_seconds():
        return None
    return at + timedelta(seconds=seconds)
