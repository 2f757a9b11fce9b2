"""Not asking again and again a cluster that does not answer.

After some failures in a row the circuit opens: calls fail at once, without waiting for time-outs. When the pause is over, one
call at a time tries; its success closes the circuit, its failure doubles the pause up to the longest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cluster.port import Unavailable


class Circuit:
    """One cluster's, shared by all threads that call it."""

    def __init__(
        self,
        *,
        failures: int = 3,
        first_pause: float = 5.0,
        longest_pause: float = 60.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold, self._first, self._longest, self._now = failures, first_pause, longest_pause, now
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = first_pause
        self._open_until: float | None = None

    def enter(self) -> None:
        """Before a call. Raises Unavailable while the circuit is open, or another call is just trying."""
        with self._lock:
            if self._open_until is None:
                return
            left = self._open_until - self._now()
            if left > 0:
                raise Unavailable(
                    f"it did not answer {self._failures} times in a row and is asked again in {left:.0f} s"
                )
            # One caller tries; the others wait for another pause, or for his success.
            self._open_until = self._now() + self._pause

    def succeed(self) -> None:
        """It answered, whatever it said."""
        with self._lock:
            self._failures, self._pause, self._open_until = 0, self._first, None

    def fail(self) -> None:
        """It did not answer, or is too busy."""
        with self._lock:
            self._failures += 1
            if self._failures < self._threshold:
                return
            if self._failures > self._threshold:
                self._pause = min(self._pause * 2, self._longest)
            self._open_until = self._now() + self._pause
