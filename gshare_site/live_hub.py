"""One process's ear on the channel layer, shared by all its live sockets.

Guarantees: a topic is subscribed to in the layer once per process, as long as somebody watches it; what arrives is handed to
each watcher without waiting for any of them. Nothing is kept per socket in the layer, so coming and going leaks nothing
there. While Redis is away watchers stay, hear nothing, and hear again afterwards (pages re-fetch every 30 s meanwhile).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from gshare_core.kit.live import group_name

logger = structlog.get_logger(__name__)

Watcher = Callable[[str, int], None]

RETRY_SECONDS = 1.0

_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


class Hub:
    """Topic → who watches it, for one event loop."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._watchers: dict[str, set[Watcher]] = {}
        self._joined: set[str] = set()
        self._channel: str | None = None
        self._reader: asyncio.Task[None] | None = None
        self._joiner: asyncio.Task[None] | None = None
        self._heard: dict[str, asyncio.Event] = {}  # set once the layer hands us the topic's changes

    @property
    def topics(self) -> int:
        """How many topics are watched."""
        return len(self._watchers)

    async def watch(self, topics: list[str], watcher: Watcher, *, within: float = 2.0) -> None:
        """Hand every change of the topics to `watcher` from now on; waits shortly for the layer, not for ever."""
        for topic in topics:
            self._watchers.setdefault(topic, set()).add(watcher)
            event = self._heard.setdefault(topic, asyncio.Event())
            if topic in self._joined:
                event.set()
        self._reconcile()
        events = [self._heard[topic] for topic in topics]
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                for event in events:
                    await event.wait()

    def leave(self, topics: list[str], watcher: Watcher) -> None:
        """Stop handing changes of the topics to `watcher`."""
        for topic in topics:
            watching = self._watchers.get(topic)
            if watching is None:
                continue
            watching.discard(watcher)
            if not watching:
                del self._watchers[topic], self._heard[topic]
        self._reconcile()

    def _reconcile(self) -> None:
        if self._joined != self._watchers.keys() and (self._joiner is None or self._joiner.done()):
            self._joiner = asyncio.create_task(self._join_and_part())

    async def _join_and_part(self) -> None:
        """Bring the layer's groups in step with who watches; tries until it is done."""
        while self._joined != self._watchers.keys():
            try:
                channel = await self._listening()
                for topic in [topic for topic in self._watchers if topic not in self._joined]:
                    await self._layer.group_add(group_name(topic), channel)
                    self._joined.add(topic)
                    if topic in self._heard:
                        self._heard[topic].set()
                for topic in [topic for topic in self._joined if topic not in self._watchers]:
                    if topic not in self._watchers:  # somebody may have come back meanwhile
                        await self._layer.group_discard(group_name(topic), channel)
                        self._joined.discard(topic)
            except (RedisError, OSError) as error:
                logger.warning("live_layer_away", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _listening(self) -> str:
        """The process's own channel, with somebody who reads it."""
        if self._channel is None:
            self._channel = await self._layer.new_channel("live")
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._listen(self._channel))
        return self._channel

    async def _listen(self, channel: str) -> None:
        while True:
            try:
                message = await self._layer.receive(channel)
            except (RedisError, OSError) as error:
                logger.warning("live_layer_away", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except ValueError as error:  # not a message of ours: the layer could not read it
                logger.warning("live_message_unreadable", error=type(error).__name__)
                continue
            topic, version = message.get("topic"), message.get("version")
            if isinstance(topic, str) and isinstance(version, int):
                for watcher in tuple(self._watchers.get(topic, ())):
                    watcher(topic, version)


def hub() -> Hub:
    """The running event loop's."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = Hub(get_channel_layer())
    return found
