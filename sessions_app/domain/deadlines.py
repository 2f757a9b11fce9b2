"""How long each state that only leads on may last. Pure: a state and what it moves, a span.

Guarantees: every transient state of the table has a span (a test holds the two together); the others have none, they may
last for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sessions_app.domain.lifecycle import State

_MIB = 1_048_576


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings. Rates are in millions of bytes a second, as memory moves between a card and its host."""

    start: timedelta
    end: timedelta
    move: timedelta
    yield_rate: int
    restore_rate: int


def span_of(state: State, limits: Limits, *, tearing_down: bool = False, vram_mib: int = 0) -> timedelta | None:
    """The longest that a state may last; None when it may last.

    `tearing_down`: `starting` ends a pod first (a restart, a misplaced start). `vram_mib` is the memory that yielding and
    resuming move: 30 s + VRAM ÷ 0.5 GB/s there, VRAM ÷ 1 GB/s back by default.
    """
    spans = {
        State.STARTING: limits.end if tearing_down else limits.start,
        State.PAUSING: limits.end,
        State.STOPPING: limits.end,
        State.YIELDING: limits.move + _moving(vram_mib, limits.yield_rate),
        State.RESUMING: limits.move + _moving(vram_mib, limits.restore_rate),
    }
    return spans.get(state)


def _moving(vram_mib: int, megabytes_per_second: int) -> timedelta:
    return timedelta(microseconds=-(-vram_mib * _MIB // megabytes_per_second))
