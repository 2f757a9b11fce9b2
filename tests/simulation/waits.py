"""How long anybody may wait in line: where runs must end, everybody who fits starts in bounded time.

The bound. Whoever heads his lane has a place kept after `reserve_after`; what stands there must end: it had at most its
starts (a pull and a start each, and so many restarts), the longest run that the policy allows, and the deadlines of its end.
So nobody heads a lane for longer than `longest_at_the_head`, and nobody with `n` before him waits longer than n + 1 times
that; who has a higher priority may come at any time, so that each of those who ever stood before him counts. The clock of an entry stands while something else than room keeps it (a limit, a budget), and begins anew after
trouble with what it waits for: a place that was kept on a silent machine is kept elsewhere, where somebody has just begun.
Pure: the line and the troubles in, findings out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings

# How late the simulation may look: at runs that are over their time, and along the line.
LATENESS = timedelta(hours=1, minutes=10)
RESTARTS = 2


class Entry(NamedTuple):
    """Somebody in line. `model`: of the cards that he waits for; `for_room`: nothing but room keeps him."""

    session: UUID
    lane: str
    model: str
    for_room: bool
    priority: int = 0


def longest_at_the_head(longest_run: timedelta) -> timedelta:
    """How long somebody may head his lane, where no run is longer than this."""
    conf = settings.GSHARE
    starts = (1 + RESTARTS) * (conf.pull_timeout + conf.start_timeout)
    return conf.reserve_after + starts + longest_run + 2 * conf.end_timeout + LATENESS


@dataclass
class _Lane:
    """One lane as far as it was read: how many of the present priority, and who has a higher one."""

    priority: int
    alike: list[UUID] = field(default_factory=list)
    higher: frozenset[UUID] = frozenset()

    def before(self, entry: Entry) -> tuple[int, frozenset[UUID]]:
        """How many stand before an entry with its priority, and who with a higher one; it stands behind them."""
        if entry.priority < self.priority:
            self.priority, self.higher, self.alike = entry.priority, self.higher.union(self.alike), []
        self.alike.append(entry.session)
        return len(self.alike) - 1, self.higher


@dataclass
class Waits:
    """Who waits since when. `bound` is the longest that anybody may head his lane."""

    bound: timedelta
    _since: dict[UUID, datetime] = field(default_factory=dict)
    _behind: dict[UUID, int] = field(default_factory=dict)
    _urgent: dict[UUID, frozenset[UUID]] = field(default_factory=dict)
    _heads: dict[str, tuple[UUID, datetime]] = field(default_factory=dict)

    def look(self, line: Iterable[Entry], troubled: Collection[str], now: datetime) -> list[str]:
        """Who has waited for too long. `line` is in order (priority first), `troubled` are the models whose metal is not as it should be."""
        found = []
        lanes: dict[str, _Lane] = {}
        since, behind, urgent, heads = {}, {}, {}, {}
        for entry in line:
            if not entry.for_room:
                continue
            held_up = entry.model in troubled
            alike, higher = lanes.setdefault(entry.lane, _Lane(entry.priority)).before(entry)
            began = now if held_up else self._since.get(entry.session, now)
            behind[entry.session] = max(alike, self._behind.get(entry.session, 0))
            urgent[entry.session] = self._urgent.get(entry.session, frozenset()) | higher
            before = behind[entry.session] + len(urgent[entry.session])
            since[entry.session] = began
            if now - began > (before + 1) * self.bound:
                found.append(f"waits for room since {began}, with {before} before it at most ({entry.session})")
            if not alike and not higher:
                head, headed = self._heads.get(entry.lane, (entry.session, now))
                headed = now if held_up or head != entry.session else headed
                heads[entry.lane] = (entry.session, headed)
                if now - headed > self.bound:
                    found.append(f"heads its lane since {headed} ({entry.session})")
        self._since, self._behind, self._urgent, self._heads = since, behind, urgent, heads
        return found
