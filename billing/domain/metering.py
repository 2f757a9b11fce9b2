"""The meter as pure arithmetic: how long ran, what it costs until when, how far a hold reaches, when to look again.

Guarantees: the charge of a run is a function of its total billed microseconds, so cutting it anywhere changes nothing;
nothing is charged past the proof of life, the asked end or the end of the hold; one meter knows nothing of another.

charge(run) = floor(rate * occupancy * factor * running time), the floor taken **of the total so far**.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from billing.domain.pricing import Price, charge_micro, covered_us, covering_micro, shortest_us
from gshare_core.money import Micro
from gshare_core.quantities import microseconds, microseconds_between

HORIZON = timedelta(days=36_525)  # nothing reaches further than a century
_HORIZON_US = microseconds(HORIZON)


@dataclass(frozen=True, slots=True)
class Reading:
    """A meter at one moment. Amounts in micro-credits, times aware UTC.

    `closed_us`: billed microseconds of earlier intervals; `started_at`: start of the open interval (None: not running);
    `charged`: posted so far, for everything up to `charged_until`; `held`: what is left of the hold; `target`: what a
    full hold is; `proven_until`: last proof of life; `end_at`: when the end was asked for.
    """

    price: Price
    held: int
    target: int
    closed_us: int = 0
    charged: int = 0
    started_at: datetime | None = None
    charged_until: datetime | None = None
    proven_until: datetime | None = None
    end_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a charge: what [start, end) costs, given everything charged before. The amount may be 0."""

    start: datetime
    end: datetime
    amount: Micro


def billed_us(reading: Reading, until: datetime) -> int:
    """Billable microseconds of all intervals, the open one cut at `until`."""
    if reading.started_at is None:
        return reading.closed_us
    return reading.closed_us + microseconds_between(reading.started_at, until)


def cost_until(reading: Reading, until: datetime) -> Micro:
    """What the run costs in total when the open interval ends at `until`."""
    return charge_micro(reading.price, billed_us(reading, until))


def hold_ends_at(reading: Reading) -> datetime | None:
    """The moment up to which charged and held credits pay for the open interval; None when nothing runs.

    A hold that is exactly the price of its window reaches exactly to the window's end.
    """
    if reading.started_at is None:
        return None
    reach_us = covered_us(reading.price, reading.charged + reading.held) - reading.closed_us
    return _moment(reading.started_at, reach_us)


def runs_until(reading: Reading, at: datetime) -> datetime:
    """The end of what has run by `at` as far as it is known to have lived: never past the proof, nor the asked end."""
    until = min(at, reading.proven_until or reading.started_at or at, reading.end_at or at)
    floor = reading.charged_until or reading.started_at
    return until if floor is None else max(until, floor)


def billable_until(reading: Reading, at: datetime) -> datetime:
    """The end of what may be charged at `at`: what ran, as far as the hold reaches, never before what is charged."""
    until = runs_until(reading, at)
    reach = hold_ends_at(reading)
    if reach is None:
        return until
    until = min(until, reach)
    return until if reading.charged_until is None else max(until, reading.charged_until)


def remaining(reading: Reading, at: datetime) -> int:
    """What is left of the hold at `at` if the run lives on, before any posting; negative when it outran its hold."""
    until = at if reading.end_at is None else min(at, reading.end_at)
    return reading.held - (cost_until(reading, until) - reading.charged)


def is_low(reading: Reading, at: datetime) -> bool:
    """Whether less than half of a full hold remains of a run that goes on."""
    return reading.started_at is not None and reading.end_at is None and 2 * remaining(reading, at) < reading.target


def lack(reading: Reading, at: datetime) -> int:
    """What the hold of a low meter lacks to be full again at `at`; 0 when half or more remains."""
    return reading.target - remaining(reading, at) if is_low(reading, at) else 0


def overrun(reading: Reading, until: datetime) -> int:
    """What the hold lacks to reach up to `until`; 0 when it does."""
    return max(0, covering_micro(reading.price, billed_us(reading, until)) - reading.charged - reading.held)


def low_from(reading: Reading) -> datetime | None:
    """The first moment at which less than half of the hold remains; None when nothing runs or the end is asked for."""
    if reading.started_at is None or reading.end_at is not None:
        return None
    spent = (2 * (reading.charged + reading.held) - reading.target) // 2 + 1
    from_us = shortest_us(reading.price, spent) - reading.closed_us if spent > 0 else 0
    return _moment(reading.started_at, from_us)


def _moment(start: datetime, later_us: int) -> datetime:
    """`start` and a running time that may be longer than any calendar (a micro-credit can pay for millennia)."""
    return start + timedelta(microseconds=min(max(0, later_us), _HORIZON_US))


def parts(reading: Reading, until: datetime, boundaries: Iterable[datetime] = ()) -> list[Part]:
    """What [charged_until, `until`) costs, cut at every boundary inside, so that no part spans one."""
    start = reading.charged_until or reading.started_at
    if start is None or until <= start:
        return []
    edges = sorted({edge for edge in boundaries if start < edge < until} | {until})
    result, charged = [], reading.charged
    for edge in edges:
        total = cost_until(reading, edge)
        result.append(Part(start, edge, Micro(total - charged)))
        start, charged = edge, total
    return result


def interval_start(*, not_before: datetime, ready_at: datetime, at: datetime) -> datetime:
    """Where billing starts: at the ready report, which does not lie in the future, never before the hand-off."""
    return max(not_before, min(ready_at, at))


def span_us(start: datetime, end: datetime) -> int:
    """Microseconds of a closed interval. Raises ValueError when it ends before it starts."""
    if end < start:
        raise ValueError("an interval cannot end before it starts")
    return microseconds(end - start)
