"""The line's order and its rules, without rows: who is next, who may pass whom, what recent use costs.

Guarantees: the order is total: priority descending, then `order_at` (the time of asking plus a penalty for recent use), then
the session's id. Within a pass nobody is tried after a request of the same lane and shape found no room; the first of a
lane that found none is its head. The penalty is bounded, so that whoever waits is passed by newcomers for a bounded time.
Refuses nothing: whether somebody fits is found out by trying him, at the edge.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID


class Bucket(NamedTuple):
    """Requests that are alike: one lane, one shape."""

    lane: str
    shape: str


class Waiting(NamedTuple):
    """One entry of the line as a pass needs it."""

    session: UUID
    bucket: Bucket
    priority: int
    order_at: datetime
    enqueued_at: datetime
    whose: tuple[UUID, UUID]
    """(owner, group): whose limits judge it."""
    reason: str = ""
    """Why it waited when it was last looked at."""

    @property
    def key(self) -> tuple[int, datetime, UUID]:
        """The place in the line; smaller is earlier."""
        return (-self.priority, self.order_at, self.session)


class Outcome(StrEnum):
    """What became of an entry that was tried."""

    LEFT = "left"  # placed, or ended for good
    NO_ROOM = "no_room"  # the metal has no place for it now
    SKIPPED = "skipped"  # a limit or budget refuses it now, and with it all that are like it; it keeps its place
    ALONE = "alone"  # refused for what is its own (a volume in use): it says nothing of others
    BROKEN = "broken"  # its row cannot be judged


def in_order(buckets: Iterable[Iterable[Waiting]]) -> Iterator[Waiting]:
    """All entries in the order of the line; each bucket is in that order already and is read only as far as needed."""
    return heapq.merge(*buckets, key=lambda entry: entry.key)


@dataclass
class Pass:
    """One walk along the line: whom to try, and who heads each lane."""

    dead: set[Bucket] = field(default_factory=set)
    refused: set[tuple[tuple[UUID, UUID], Bucket]] = field(default_factory=set)
    heads: dict[str, Waiting] = field(default_factory=dict)

    def tries(self, entry: Waiting) -> bool:
        """Whether trying the entry could end otherwise than for one like it before."""
        return entry.bucket not in self.dead and (entry.whose, entry.bucket) not in self.refused

    def heard(self, entry: Waiting, outcome: Outcome) -> bool:
        """Take in what became of an entry; answers whether it is the head of its lane now."""
        if outcome is Outcome.SKIPPED:
            self.refused.add((entry.whose, entry.bucket))
        if outcome is not Outcome.NO_ROOM:
            return False
        self.dead.add(entry.bucket)
        return self.heads.setdefault(entry.bucket.lane, entry) is entry


# Recent use ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fairness:
    """What recent use costs in line: time per card hour of one's own and of one's group's, at most `longest`."""

    half_life: timedelta
    per_own_hour: timedelta
    per_group_hour: timedelta
    longest: timedelta


def decayed(hours: float, age: timedelta, half_life: timedelta) -> float:
    """Card hours used `age` ago, as they count now."""
    return hours * math.pow(0.5, age / half_life)


def use_between(start: datetime, end: datetime, now: datetime, half_life: timedelta) -> float:
    """Hours from `start` to `end` as they count at `now`: the integral of 0.5^(age ÷ half-life).

    The sum over the parts of an interval is that of the whole, so that it does not depend on when it is taken.
    """
    if end <= start:
        return 0.0
    scale = half_life / timedelta(hours=1) / math.log(2)
    return scale * (math.pow(0.5, (now - end) / half_life) - math.pow(0.5, (now - start) / half_life))


def penalty(own_hours: float, group_hours: float, fairness: Fairness) -> timedelta:
    """How much later than it was asked for an entry stands in line; whole seconds."""
    cost = own_hours * fairness.per_own_hour + group_hours * fairness.per_group_hour
    return timedelta(seconds=round(min(cost, fairness.longest).total_seconds()))
