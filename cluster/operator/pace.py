"""How long to wait before the next try: exponential, with full jitter, so that a fleet does not return as one."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class BackOff:
    """Waits of a random part of `first`, twice that, … up to `longest` seconds; at least a tenth of each."""

    first: float = 0.5
    longest: float = 20.0
    chance: random.Random = field(default_factory=random.Random)
    tries: int = 0

    def next_seconds(self) -> float:
        """The wait before the next try."""
        span = min(self.longest, self.first * 2.0 ** min(self.tries, 32))
        self.tries += 1
        return span * self.chance.uniform(0.1, 1.0)

    def reset(self) -> None:
        """The last try was answered."""
        self.tries = 0


async def wait_for(signal: asyncio.Event, seconds: float) -> bool:
    """Wait until the signal is set or the time is over; clears it, returns whether it was set.

    Not with `asyncio.wait_for`, which loses a cancellation that comes together with the signal (until Python 3.12).
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await signal.wait()
    was_set = signal.is_set()
    signal.clear()
    return was_set


async def wait_until(condition: Callable[[], bool], *, within: float = float("inf"), every: float = 0.05) -> bool:
    """Ask again and again until the condition holds or the time is over; returns whether it holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(every)  # what is waited for is another process or loop: no event tells
    return True
