"""UUIDs of version 7, made in Python and monotonic within a process (RFC 9562, section 6.2, method 1).

Guarantees: each id is greater than every id its maker made before, also when the wall clock steps back, so that
"order by id" is the order of making within a process. 48 bits of Unix milliseconds, 12 bits of counter, 62 random bits.
Like time, ids come from a port: a simulation hands in a maker on its own clock and seed, so that a run can be repeated.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from uuid import UUID

_COUNTER_BITS = 12
_RANDOM_BITS = 62


class Maker:
    """Makes ids from a clock of Unix milliseconds and a source of random bits (how many are wanted → the number)."""

    def __init__(self, milliseconds: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._milliseconds = milliseconds
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._last = 0  # milliseconds << 12 | counter

    def make(self) -> UUID:
        """A new id. Borrows from the future when one millisecond needs more than 4,096 ids."""
        stamp = self._milliseconds() << _COUNTER_BITS
        with self._lock:
            self._last = max(stamp, self._last + 1)
            ordered = self._last
        milliseconds, counter = ordered >> _COUNTER_BITS, ordered & ((1 << _COUNTER_BITS) - 1)
        random = self._random_bits(_RANDOM_BITS)
        return UUID(int=milliseconds << 80 | 7 << 76 | counter << 64 | 0b10 << _RANDOM_BITS | random)

    def after_fork(self) -> None:
        """A lock that another thread of the parent held would never be given back."""
        self._lock = threading.Lock()


def _wall_milliseconds() -> int:
    return time.time_ns() // 1_000_000


def _system_bits(bits: int) -> int:
    return int.from_bytes(os.urandom(8), "big") & ((1 << bits) - 1)


_process = Maker(_wall_milliseconds, _system_bits)
_maker: ContextVar[Maker] = ContextVar("gshare_ids", default=_process)

os.register_at_fork(after_in_child=_process.after_fork)


def uuid7() -> UUID:
    """A new time-ordered id from the maker in force."""
    return _maker.get().make()


def earliest(at: datetime) -> UUID:
    """What no id that was made from `at` (aware) on, by a clock that shows it, is below."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


@contextmanager
def made_by(maker: Maker) -> Iterator[Maker]:
    """Put `maker` in force for this context; for simulations."""
    token = _maker.set(maker)
    try:
        yield maker
    finally:
        _maker.reset(token)
