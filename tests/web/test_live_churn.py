"""Trap 48: pages come and go by the thousand, and nothing stays behind: not in memory, not in the channel layer."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from channels.layers import channel_layers
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from gshare_core.kit.live import poke
from gshare_site.consumers import LiveConsumer
from gshare_site.embedded.valkey import valkey_command, valkey_url, wait_until_ready
from gshare_site.live_hub import Hub
from tests.builders import a_group, a_running_session, a_user
from tests.door.fixtures import Listeners, SignedIn
from tests.waiting import until, until_async

pytestmark = pytest.mark.django_db(transaction=True)

WARM_UP, ROUNDS, AT_ONCE = 150, 600, 30


def channels(url: str) -> set[str]:
    """The channels that processes listen to in Valkey."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return set(client.pubsub_channels("gshare-live*"))


async def visit(listeners: Listeners, cookie: str, topics: list[str], *, abrupt: bool) -> None:
    headers = {"Origin": listeners.console, "Cookie": cookie}
    socket = await listeners.dial(f"localhost:{listeners.web.port}", "/ws/live/", headers)
    await socket.send(json.dumps({"subscribe": topics}))
    while "subscribed" not in json.loads(await socket.recv()):
        pass
    if abrupt:
        socket.transport.abort()
    else:
        await socket.close()


async def churn(listeners: Listeners, cookie: str, topics: list[str], count: int) -> None:
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(
            *[visit(listeners, cookie, topics, abrupt=number % 2 == 0) for number in range(start, start + AT_ONCE)]
        )


async def test_memory_stays_flat_while_pages_come_and_go(
    listeners: Listeners, sign_in: SignedIn, redis_url: str
) -> None:
    group = await sync_to_async(a_group)()
    alice = await sync_to_async(a_user)(group)
    session = await sync_to_async(a_running_session)(alice, group)
    cookie = await sync_to_async(sign_in)(alice)
    topics = [f"session:{session.pk}", "wallet", "queue", "sessions", "notifications"]
    await churn(listeners, cookie, topics, WARM_UP)
    before = listeners.web.memory_mib
    await churn(listeners, cookie, topics, ROUNDS)
    assert listeners.web.memory_mib - before < 6, "600 visits left less than 6 MiB"
    try:
        await asyncio.to_thread(until, lambda: len(channels(redis_url)) <= 1, within=10, what="the layer is left")
    except AssertionError as error:
        raise AssertionError(f"more than the process's own channel is left: {sorted(channels(redis_url))}") from error


@pytest.mark.parametrize("fault", [OSError("the page left"), RuntimeError("a fault of ours")])
async def test_a_page_that_is_gone_while_it_is_written_to_is_forgotten(
    sign_in: SignedIn, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Stubborn()
    layer.away = False
    own = Hub(layer)
    monkeypatch.setattr("gshare_site.consumers.hub", lambda: own)
    group = await sync_to_async(a_group)()
    cookie = await sync_to_async(sign_in)(await sync_to_async(a_user)(group))
    scope = {"type": "websocket", "headers": [(b"cookie", cookie.encode())], "path": "/ws/live/"}
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    for message in (
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": json.dumps({"subscribe": ["wallet", "queue"]})},
        {"type": "websocket.disconnect", "code": 1006},
    ):
        inbox.put_nowait(message)
    watched: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        if "subscribed" in message.get("text", ""):
            watched.append(own.topics)
            raise fault

    async def left() -> bool:
        return not layer.groups

    with suppress(RuntimeError):
        await LiveConsumer.as_asgi()(scope, inbox.get, send)
    assert watched == [3], "the two topics and the rights"
    assert own.topics == 0
    await until_async(left, what="the layer is left too")


class Stubborn:
    """A channel layer that is away at first: an adapter of the port that the hub speaks to."""

    def __init__(self) -> None:
        self.away = True
        self.groups: set[str] = set()
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def _check(self) -> None:
        if self.away:
            raise redis.ConnectionError("away")

    async def new_channel(self, prefix: str) -> str:
        self._check()
        return prefix

    async def group_add(self, group: str, channel: str) -> None:
        self._check()
        self.groups.add(group)

    async def group_discard(self, group: str, channel: str) -> None:
        self._check()
        self.groups.discard(group)

    async def receive(self, channel: str) -> dict[str, Any]:
        self._check()
        return await self.inbox.get()


async def test_watchers_outlive_an_outage_of_the_layer_and_hear_again_afterwards() -> None:
    layer, heard = Stubborn(), []
    hub = Hub(layer)
    await hub.watch(["wallet:a"], lambda topic, version: heard.append((topic, version)), within=0.05)
    assert layer.groups == set()
    layer.away = False

    async def joined() -> bool:
        return layer.groups == {"live.wallet_a"}

    await until_async(joined, within=5, what="the hub joins once the layer is back")
    await layer.inbox.put({"type": "live.changed", "topic": "wallet:a", "version": 4})

    async def told() -> bool:
        return heard == [("wallet:a", 4)]

    await until_async(told, what="the watcher hears")


async def test_a_topic_is_joined_once_however_many_watch_and_left_with_the_last() -> None:
    layer = Stubborn()
    layer.away = False
    hub = Hub(layer)
    first, second = (lambda topic, version: None), (lambda topic, version: None)
    await hub.watch(["queue:a", "queue:b"], first)
    await hub.watch(["queue:a"], second)
    assert layer.groups == {"live.queue_a", "live.queue_b"}
    hub.leave(["queue:a", "queue:b"], first)
    await until_async(_groups(layer, {"live.queue_a"}), what="one is left, the other is still watched")
    hub.leave(["queue:a"], second)
    await until_async(_groups(layer, set()), what="the last one leaves")
    assert hub.topics == 0


def _groups(layer: Stubborn, expected: set[str]) -> Callable[[], Awaitable[bool]]:
    async def same() -> bool:
        return layer.groups == expected

    return same


async def test_who_comes_back_while_the_topic_is_being_left_still_hears() -> None:
    layer, heard = Stubborn(), []
    layer.away = False
    hub = Hub(layer)

    def listen(topic: str, version: int) -> None:
        heard.append(version)

    await hub.watch(["queue:a"], listen)
    for _ in range(20):
        hub.leave(["queue:a"], listen)
        await hub.watch(["queue:a"], listen, within=0.5)
    await layer.inbox.put({"type": "live.changed", "topic": "queue:a", "version": 1})

    async def told() -> bool:
        return heard == [1]

    await until_async(told, what="the watcher hears once")
    assert layer.groups == {"live.queue_a"}


async def test_a_restart_of_valkey_costs_pushes_and_no_socket(tmp_path: Path) -> None:
    place = tmp_path / "v.sock"
    layer = import_string("gshare_core.kit.live_layer.LiveLayer")(hosts=[valkey_url(place)], prefix="gshare-live")
    heard: list[int] = []
    hub = Hub(layer)
    with own_valkey(place):
        await hub.watch(["wallet:a"], lambda topic, version: heard.append(version))
        await layer.group_send("live.wallet_a", {"type": "live.changed", "topic": "wallet:a", "version": 1})
        await until_async(_has(heard, 1), what="the first push arrives")
    with own_valkey(place):

        async def pushed_again() -> bool:
            with suppress(redis.RedisError, OSError):
                await layer.group_send("live.wallet_a", {"type": "live.changed", "topic": "wallet:a", "version": 2})
            return 2 in heard

        await until_async(pushed_again, within=20, what="pushes arrive again")
        await layer.flush()


def _has(heard: list[int], version: int) -> Callable[[], Awaitable[bool]]:
    async def has() -> bool:
        return version in heard

    return has


@contextmanager
def own_valkey(place: Path) -> Iterator[None]:
    process = subprocess.Popen(valkey_command(place), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(place, within=20, alive=lambda: process.poll() is None)
        yield
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture
def no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = {"BACKEND": "gshare_core.kit.live_layer.LiveLayer", "CONFIG": {"hosts": ["unix:///nowhere.sock"]}}
    monkeypatch.setattr(settings, "CHANNEL_LAYERS", {"default": layer})
    monkeypatch.setattr(channel_layers, "backends", {})


def test_a_poke_without_redis_fails_and_delays_nobody(no_redis: None) -> None:
    done: list[bool] = []
    with transaction.atomic():
        for version in range(2_000):  # more than may wait
            poke("wallet:somebody", version)
        transaction.on_commit(lambda: done.append(True))
    assert done == [True]
