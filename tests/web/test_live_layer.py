"""The channel layer of live pokes: many messages in one round trip reach whom they would have reached one by one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis
from channels.layers import channel_layers
from django.conf import settings

from gshare_core.kit import live
from gshare_core.kit.live_layer import LiveLayer
from tests.waiting import until

pytestmark = pytest.mark.django_db


async def test_many_messages_reach_each_groups_subscribers_in_order_and_nobody_else(redis_url: str) -> None:
    sender, listener = (LiveLayer(hosts=[redis_url], prefix="gshare-live") for _ in range(2))
    one, two, other = [await listener.new_channel() for _ in range(3)]
    for group, channel in (("live.a", one), ("live.b", two), ("live.a", two), ("live.c", other)):
        await listener.group_add(group, channel)
    await sender.group_send_all(
        [(group, {"type": "x", "n": number}) for number, group in enumerate(["live.a", "live.b", "live.a", "live.d"])]
    )
    await sender.group_send("live.c", {"type": "x", "n": 9})

    async def heard(channel: str, count: int) -> list[int]:
        return [(await asyncio.wait_for(listener.receive(channel), 10))["n"] for _ in range(count)]

    assert await heard(one, 2) == [0, 2]
    assert await heard(two, 3) == [0, 1, 2]
    assert await heard(other, 1) == [9]
    for layer in (sender, listener):
        await layer.flush()


class Recorder(LiveLayer):
    """Notes what is sent together; stands still at the first."""

    def __init__(self) -> None:
        self.sent: list[list[tuple[str, int]]] = []
        self.gate = threading.Event()

    async def group_send_all(self, messages: Any) -> None:
        self.sent.append([(group, message["version"]) for group, message in messages])
        await asyncio.to_thread(self.gate.wait, 60)
        if len(self.sent) == 2:
            raise redis.ConnectionError("gone")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(channel_layers, "backends", {"default": recorder})
    monkeypatch.setattr(live, "_mouth", live._Mouth())
    monkeypatch.setattr(live, "_AWAY_SECONDS", 0.0)
    assert settings.CHANNEL_LAYERS
    return recorder


def test_what_comes_while_one_is_sent_goes_together_the_latest_of_each_topic_and_a_failure_ends_nothing(
    recorder: Recorder,
) -> None:
    live._send("first", 1)
    until(lambda: recorder.sent == [[("live.first", 1)]], what="the first is being sent")
    for version in range(1, 6):
        live._send("a", version)
        live._send("b", 10 + version)
    recorder.gate.set()
    until(lambda: len(recorder.sent) == 2, what="the rest is sent")
    assert sorted(recorder.sent[1]) == [("live.a", 5), ("live.b", 15)]
    until(lambda: not live._mouth._awake, what="the failure is over")
    live._send("c", 1)
    until(lambda: recorder.sent[2:] == [[("live.c", 1)]], what="who pokes later is heard")
