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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

from gshare_core.kit.live_layer import LiveLayer

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
    """The process's event loop for pokes; made at the first, and anew after a fork.

    What came while it was busy is sent together, the latest of each topic: a page that looks again sees all of it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Poke] = []
        self._awake = False
        self._away_until = 0.0

    def say(self, poke: _Poke) -> None:
        """Hand one poke over; drops it when a thousand wait already."""
        with self._lock:
            if len(self._waiting) >= _WAITING_MAX:
                return
            self._waiting.append(poke)
            if self._awake:
                return
            loop = self._running()
            self._awake = True  # not before: where no thread can be made now, the next poke tries again
        asyncio.run_coroutine_threadsafe(self._talk(), loop)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="live", daemon=True).start()
        return self._loop

    async def _talk(self) -> None:
        while pokes := self._next():
            now = time.monotonic()
            if now < self._away_until:
                continue  # pages re-fetch by themselves
            latest = {poke.topic: poke for poke in pokes if now - poke.made_at <= _STALE_SECONDS}
            try:
                await _send_together(list(latest.values()))
            except (RedisError, OSError) as error:
                self._away_until = time.monotonic() + _AWAY_SECONDS
                logger.warning("live_pokes_lost", pokes=len(latest), error=type(error).__name__)
            except Exception:
                # Whatever it was: who pokes next is heard again.
                logger.exception("live_pokes_failed", pokes=len(latest))

    def _next(self) -> list[_Poke]:
        """What waits now; nothing, and this is asleep."""
        with self._lock:
            pokes, self._waiting = self._waiting, []
            self._awake = bool(pokes)
        return pokes


async def _send_together(pokes: Sequence[_Poke]) -> None:
    """In one round trip where the layer can."""
    said = [(poke.layer, group_name(poke.topic), _message(poke)) for poke in pokes]
    for layer in {id(layer): layer for layer, _group, _message in said}.values():
        its = [(group, message) for other, group, message in said if other is layer]
        if isinstance(layer, LiveLayer):
            await layer.group_send_all(its)
            continue
        for group, message in its:
            await layer.group_send(group, message)


def _message(poke: _Poke) -> dict[str, Any]:
    return {"type": "live.changed", "topic": poke.topic, "version": poke.version}


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
