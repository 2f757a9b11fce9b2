"""CPU time of a pod as one counter that only grows, made from what its living processes say of themselves.

Guarantees: time of processes that ended counts when their parent waited for them (that is when the kernel adds it to the
parent) or when they were seen alive before; nothing counts twice; a process of another pod counts nowhere. The counter
goes on after the operator died: its state is a value that is kept on disk.
Not seen: what a process used between the last look and its end when nobody of the pod waited for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict

from cluster.operator.substrates.local.processes import Stat

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Seen(BaseModel):
    """A process at the last look."""

    model_config = ConfigDict(frozen=True)

    pid: int
    started: int
    parent: int
    own: int
    all: int


class Counter(BaseModel):
    """Ticks so far, and the processes that they were counted of."""

    model_config = ConfigDict(frozen=True)

    ticks: int = 0
    seen: tuple[Seen, ...] = ()

    @property
    def usec(self) -> int:
        """Microseconds of CPU time."""
        return self.ticks * 1_000_000 // TICKS_PER_SECOND

    def advanced(self, stats: Sequence[Stat]) -> Self:
        """The counter after a look at the pod's living processes."""
        before = {(one.pid, one.started): one for one in self.seen}
        living = {stat.process.pid for stat in stats}
        own = everything = 0
        for stat in stats:
            known = before.pop((stat.process.pid, stat.process.started), None)
            own += stat.own_ticks - (known.own if known else 0)
            everything += stat.all_ticks - (known.all if known else 0)
        # What has ended and was waited for is in its parent's sum now, all of it: what was counted of it goes off again.
        everything -= sum(one.all for one in before.values() if one.parent in living)
        seen = tuple(
            Seen(
                pid=stat.process.pid,
                started=stat.process.started,
                parent=stat.parent,
                own=stat.own_ticks,
                all=stat.all_ticks,
            )
            for stat in stats
        )
        return type(self)(ticks=self.ticks + max(own, everything, 0), seen=seen)
