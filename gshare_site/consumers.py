"""`/ws/live/`: tells open pages what changed, never what it is.

Guarantees: only the console's own pages get in (Origin compared whole, a signed-in person's cookie); a topic is followed only
by who may see it, asked at subscribe, every 60 s, and at once when `rights:<user>` is poked; a topic is pushed at most once a
second, with the newest version; a ping goes out every 20 s, so that no proxy takes silence for death. A slow page slows
nobody: what it missed is merged, and only the newest version of each topic is kept for it.
Refuses: messages that are not subscribe or unsubscribe, more topics than a page can show.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.http.cookie import parse_cookie

from gshare_site.live_hub import hub
from gshare_site.live_topics import Followed, Person, resolve, signed_in
from gshare_site.observability import OPEN_SOCKETS
from sessions_app.doorkeeper import Unavailable, on_rows

SIGNED_OUT, FAULT, TRY_AGAIN = 4401, 4408, 1013
TEXT_MAX = 16 * 1024
TOPICS_MAX = 100


class Following:
    """One topic of one page: which live topics feed it, and when it was last pushed."""

    __slots__ = ("feeds", "pushed_at", "timer", "topic", "version")

    def __init__(self, topic: str, feeds: tuple[str, ...]) -> None:
        self.topic, self.feeds = topic, feeds
        self.version = 0
        self.pushed_at = float("-inf")
        self.timer: asyncio.TimerHandle | None = None


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """One page's socket."""

    channel_layer_alias = ""  # no channel of its own: the hub listens for all sockets of the process

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._person: Person | None = None
        self._key: str | None = None
        self._following: dict[str, Following] = {}
        self._by_feed: dict[str, list[Following]] = {}
        self._outbox: dict[str, int] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._rechecking: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self._key = session_key(self.scope)
        try:
            self._person = await on_rows(signed_in, self._key) if self._key else None
        except Unavailable:
            await self.close()
            return
        if self._person is None:
            await self.close()
            return
        await self.accept()
        OPEN_SOCKETS.labels("live").inc()
        self._tending = asyncio.create_task(self._tend())
        await hub().watch([self._rights], self._rights_changed)

    @property
    def _rights(self) -> str:
        return f"rights:{self._person.id if self._person else ''}"

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """However the conversation ends, also by a fault in the middle of it, nothing of it stays behind."""

        async def say(message: Any) -> None:
            with suppress(OSError):  # the page has left: that it did is the next thing that is received
                await send(message)

        try:
            await super().__call__(scope, receive, say)
        finally:
            self._leave()

    def _leave(self) -> None:
        for task in (self._tending, self._flushing, self._rechecking):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if self._tending is not None:
            OPEN_SOCKETS.labels("live").dec()
            hub().leave([self._rights], self._rights_changed)
        for topic in list(self._following):
            self._forget(topic)

    # What the page says ---------------------------------------------------------------------------------------------

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        """A message of the page; anything malformed ends the conversation."""
        try:
            message = json.loads(text_data) if text_data and len(text_data) <= TEXT_MAX else None
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            await self.close(FAULT)
            return
        if "ping" in message:
            await self.send_json({"pong": message["ping"]})
        for verb, act in (("unsubscribe", self._unsubscribe), ("subscribe", self._subscribe)):
            topics = message.get(verb, [])
            if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
                await self.close(FAULT)
                return
            if topics:
                await act(list(dict.fromkeys(topics)))

    async def _unsubscribe(self, topics: list[str]) -> None:
        for topic in topics:
            self._forget(topic)

    async def _subscribe(self, topics: list[str]) -> None:
        fresh = [topic for topic in topics if topic not in self._following]
        if len(self._following) + len(fresh) > TOPICS_MAX:
            await self.close(FAULT)
            return
        found = await self._resolve(fresh)
        if found is None:
            return
        granted = {topic: answer.feeds for topic, answer in found.items() if isinstance(answer, Followed)}
        for topic, feeds in granted.items():
            self._follow(topic, feeds)
        await hub().watch([feed for feeds in granted.values() for feed in feeds], self._changed)
        await self.send_json({"subscribed": [topic for topic in topics if topic in self._following]})
        for topic, answer in found.items():
            if not isinstance(answer, Followed):
                await self.send_json({"topic": topic, "refused": answer})
            elif answer.version is not None:
                await self.send_json({"topic": topic, "version": answer.version})

    async def _resolve(self, topics: list[str]) -> dict[str, Followed | str] | None:
        """What the person may follow of `topics`; None, and the end, when nobody is signed in any more."""
        assert self._key is not None
        try:
            person, found = await on_rows(_look, self._key, topics)
        except Unavailable:
            await self.close(TRY_AGAIN)
            return None
        if person is None or self._person is None or person.id != self._person.id:
            await self.close(SIGNED_OUT)
            return None
        return found

    def _follow(self, topic: str, feeds: tuple[str, ...]) -> None:
        following = Following(topic, feeds)
        self._following[topic] = following
        for feed in feeds:
            self._by_feed.setdefault(feed, []).append(following)

    def _forget(self, topic: str) -> None:
        following = self._following.pop(topic, None)
        if following is None:
            return
        if following.timer is not None:
            following.timer.cancel()
        self._outbox.pop(topic, None)
        for feed in following.feeds:
            self._by_feed[feed].remove(following)
        unused = [feed for feed in following.feeds if not self._by_feed[feed]]
        for feed in unused:
            del self._by_feed[feed]
        hub().leave(unused, self._changed)

    # What the page is told ------------------------------------------------------------------------------------------

    def _changed(self, feed: str, version: int) -> None:
        """Called by the hub: push now, or at the end of the second in which the topic was last pushed."""
        for following in self._by_feed.get(feed, ()):
            following.version = max(following.version, version)
            if following.timer is not None:
                continue
            loop = asyncio.get_running_loop()
            wait = following.pushed_at + settings.GSHARE.live_coalesce.total_seconds() - loop.time()
            if wait <= 0:
                self._push(following)
            else:
                following.timer = loop.call_later(wait, self._push, following)

    def _push(self, following: Following) -> None:
        following.timer = None
        following.pushed_at = asyncio.get_running_loop().time()
        self._outbox[following.topic] = following.version
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        while self._outbox:
            topic = next(iter(self._outbox))
            await self.send_json({"topic": topic, "version": self._outbox.pop(topic)})

    async def _tend(self) -> None:
        """Heartbeats, and the same question as at subscribe once a minute, spread so that sockets do not ask together."""
        configured = settings.GSHARE
        period, recheck = configured.live_ping_period.total_seconds(), configured.live_recheck_period.total_seconds()
        asked_at = time.monotonic() - random.uniform(0, recheck / 2)  # noqa: S311 -- spreads load, guards nothing
        while True:
            await asyncio.sleep(min(period, max(0.05, asked_at + recheck - time.monotonic())))
            if time.monotonic() - asked_at >= recheck:
                await self._recheck()
                asked_at = time.monotonic()
            await self.send_json({"ping": time.time_ns() // 1_000_000})

    def _rights_changed(self, _feed: str, _version: int) -> None:
        if self._rechecking is None or self._rechecking.done():
            self._rechecking = asyncio.create_task(self._recheck())

    async def _recheck(self) -> None:
        """Ask again for everything that is followed; what may not be seen any more is dropped and said so."""
        topics = list(self._following)
        found = await self._resolve(topics)
        if found is None:
            return
        for topic in topics:
            answer, following = found.get(topic), self._following.get(topic)
            if following is None:
                continue
            if not isinstance(answer, Followed):
                self._forget(topic)
                await self.send_json({"topic": topic, "refused": answer})
            elif answer.feeds != following.feeds:
                self._forget(topic)
                self._follow(topic, answer.feeds)
                await hub().watch(list(answer.feeds), self._changed)


def _look(key: str, topics: list[str]) -> tuple[Person | None, dict[str, Followed | str]]:
    person = signed_in(key)
    return person, resolve(person, topics) if person is not None else {}


def session_key(scope: dict[str, Any]) -> str | None:
    """The console's session cookie, if there is one."""
    text = b"; ".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1")
    return parse_cookie(text).get(settings.SESSION_COOKIE_NAME)


Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[dict[str, Any]]], Callable[[dict[str, Any]], Awaitable[None]]],
    Awaitable[None],
]


def own_origin_only(application: Application) -> Application:
    """Refuse a handshake whose Origin is not exactly the console's (a browser always sends one)."""

    async def guarded(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        sites = [value for name, value in scope["headers"] if name == b"sec-fetch-site"]
        if origins != [settings.GSHARE.public_url] or sites not in ([], [b"same-origin"]):
            await send({"type": "websocket.close", "code": FAULT})
            return
        await application(scope, receive, send)

    return guarded


live_application = own_origin_only(LiveConsumer.as_asgi())
