"""Live pokes: "this changed, its version is now n". Hints only; the page re-fetches what it may see.

Guarantees: a poke goes out after the commit and never fails or delays who sent it: it is handed to one event loop of the
process, in a thread of its own, that keeps its connection to the layer (a connection per poke cost milliseconds each).
Losing one costs latency, never truth: what cannot be sent, or waits while the process ends, is dropped.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from dataclasses import dataclass
from typing import Any

import structlog
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

logger = structlog.get_logger(__name__)

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
_WAITING_MAX = 1_000
_STALE_SECONDS = 5.0
_AWAY_SECONDS = 2.0  # nobody is tried again so soon after a failure


def group_name(topic: str) -> str:
    """The channel layer's group of a topic (ASCII letters, digits, hyphens, underscores, full stops, under 100)."""
    return "live." + _UNFIT.sub("_", topic)[:90]


def poke(topic: str, version: int | None = None) -> None:
    """Tell who watches `topic` that it changed, once the transaction has committed."""
    transaction.on_commit(lambda: _send(topic, version), robust=True)


@dataclass(frozen=True, slots=True)
class _Poke:
    layer: Any
    topic: str
    version: int
    made_at: float


class _Mouth:
    """The process's event loop for pokes; made at the first, and anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Queue[_Poke] = asyncio.Queue()
        self._room = threading.BoundedSemaphore(_WAITING_MAX)
        self._away_until = 0.0

    def say(self, poke: _Poke) -> None:
        """Hand one poke over; drops it when a thousand wait already."""
        if self._room.acquire(blocking=False):
            self._running().call_soon_threadsafe(self._waiting.put_nowait, poke)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_until_complete, args=[self._talk()], name="live", daemon=True
                ).start()
            return self._loop

    async def _talk(self) -> None:
        while True:
            poke = await self._waiting.get()
            self._room.release()
            now = time.monotonic()
            if now < self._away_until or now - poke.made_at > _STALE_SECONDS:
                continue  # pages re-fetch by themselves
            message = {"type": "live.changed", "topic": poke.topic, "version": poke.version}
            try:
                await poke.layer.group_send(group_name(poke.topic), message)
            except (RedisError, OSError) as error:
                self._away_until = time.monotonic() + _AWAY_SECONDS
                logger.warning("live_poke_lost", topic=poke.topic, error=type(error).__name__)


_mouth = _Mouth()


def _after_fork() -> None:
    global _mouth
    _mouth = _Mouth()


os.register_at_fork(after_in_child=_after_fork)


def _send(topic: str, version: int | None) -> None:
    layer = get_channel_layer()
    if layer is not None:
        stamp = version if version is not None else time.time_ns() // 1_000_000
        _mouth.say(_Poke(layer, topic, stamp, time.monotonic()))
