"""Redis forgets everything, is stopped, and hangs, under the real processes: that costs latency, and nothing else.

While it is away every request is answered in seconds with its own status, people sign in, sessions are admitted, queued and
refused, `/readyz` says degraded; open pages stay open, and new ones open. When it is back ticks catch up within a period,
the line moves, pages hear what changes, and everything still agrees.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from websockets.sync.client import ClientConnection, connect

from gshare_site.embedded.valkey import valkey_command, valkey_url, wait_until_ready
from tests.chaos.console import BOUND, Console
from tests.chaos.examiner import Examiner
from tests.e2e.running import Demo, running_demo
from tests.waiting import until

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.e2e]

FEW_SECONDS = 6.0  # a request may wait for a hung Redis a little, on a loaded machine
PERIOD = 10  # of the queue's sweep and of the reconciler
RECONNECTED = 30  # worker and beat try again at least this often


@dataclass
class Cache:
    """A private Valkey that can be emptied, stopped, started and frozen."""

    place: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self.process = process = subprocess.Popen(valkey_command(self.place), stdout=quiet, stderr=quiet)
        wait_until_ready(self.place, within=20, alive=lambda: process.poll() is None)

    def stop(self) -> None:
        """As a machine that loses power; a frozen one too."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def empty(self) -> None:
        with redis.Redis.from_url(valkey_url(self.place)) as client:
            client.flushall()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Connections are refused."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are accepted by the kernel, and nothing ever answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def cache() -> Iterator[Cache]:
    with tempfile.TemporaryDirectory(prefix="gsr-", dir="/tmp") as folder:
        running = Cache(Path(folder) / "valkey.sock")
        running.start()
        yield running
        running.stop()


@pytest.fixture(scope="module")
def demo(cache: Cache) -> Iterator[Demo]:
    """The real stack, on a Redis that is given."""
    with running_demo(GSHARE_REDIS_URL=valkey_url(cache.place)) as running:
        yield running


@pytest.fixture(scope="module")
def examiner(demo: Demo) -> Iterator[Examiner]:
    with Examiner(demo) as looking:
        yield looking


def readiness(demo: Demo) -> Any:
    """What a probe sees, in time."""
    answer = httpx.get(f"http://127.0.0.1:{demo.port + 1}/readyz", timeout=FEW_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()


def last_success(demo: Demo, tick: str) -> float:
    """When a tick last ended well, as a Unix time."""
    told = httpx.get(f"http://127.0.0.1:{demo.port + 1}/metrics", timeout=30).text
    name = f'gshare_tick_last_success_timestamp_seconds{{tick="{tick}"}} '
    found = [line.removeprefix(name) for line in told.splitlines() if line.startswith(name)]
    return max(map(float, found), default=0.0)


def has_succeeded_since(demo: Demo, tick: str, moment: float) -> bool:
    """Whether a tick ended well after a moment."""
    return last_success(demo, tick) > moment


@contextmanager
def open_page(who: Console, *topics: str) -> Iterator[ClientConnection]:
    """A live page that follows some topics; opened and answered in seconds."""
    headers = {"Cookie": who.cookie_line}
    url = who.demo.url.replace("http://", "ws://") + "/ws/live/"
    begun = time.monotonic()
    with connect(url, origin=who.demo.url, additional_headers=headers, open_timeout=FEW_SECONDS) as socket:  # type: ignore[arg-type]  # a plain str
        socket.send(json.dumps({"subscribe": list(topics)}))
        assert "subscribed" in hear(socket, within=FEW_SECONDS)
        assert time.monotonic() - begun < 2 * FEW_SECONDS
        yield socket


def hear(socket: ClientConnection, *, within: float) -> dict[str, Any]:
    """The next message that is no ping; TimeoutError after a while."""
    deadline = time.monotonic() + within
    while True:
        message = json.loads(socket.recv(timeout=max(deadline - time.monotonic(), 0.01)))
        if "ping" not in message:
            return dict(message)


class InTime(Console):
    """Somebody who does not wait: every answer comes in seconds, at the first try, and is no 5xx."""

    def call(self, method: str, path: str, body: Any = None, *, key: str = "") -> httpx.Response:
        begun = time.monotonic()
        answer = self.once(method, path, body, key=key, timeout=FEW_SECONDS)
        assert answer.status_code < 500, (method, path, answer.text)
        assert time.monotonic() - begun < FEW_SECONDS, (method, path)
        return answer


def everything_is_answered(alice: InTime, image: str, name: str) -> str:
    """Admission places and refuses, pages are served, somebody signs in; answers the id of a session that was placed."""
    placed = alice.create(f"{name}-cpu", "cpu", image, key=alice.fresh_key())
    assert alice.see(placed)["state"] in {"starting", "running"}
    twice = alice.fresh_key()
    assert alice.create(f"{name}-m", "M", image, key=twice) == alice.create(f"{name}-m", "M", image, key=twice)
    refused = alice.ask_for(f"{name}-big", "8 cards", image, key=alice.fresh_key())
    assert (refused.status_code, refused.json()["code"]) == (422, "never_fits")
    page = httpx.get(f"{alice.demo.url}/", headers={"Cookie": alice.cookie_line}, timeout=FEW_SECONDS)
    assert page.status_code == 200
    InTime.sign_in(alice.demo, "carol").call("GET", "/me")
    return placed


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_without_redis_everything_is_answered_and_afterwards_everything_goes_on(
    how: str, demo: Demo, cache: Cache, examiner: Examiner
) -> None:
    image = examiner.prepare()
    alice, grace = InTime.sign_in(demo, "alice"), Console.sign_in(demo, "grace")
    holder = alice.create(f"{how}-holds", "pair", image, key=alice.fresh_key())
    alice.reaches(holder, "running", within=BOUND)
    waiter = grace.create(f"{how}-waits", "pair", image, key=grace.fresh_key())
    assert grace.see(waiter)["state"] == "queued"

    with open_page(grace, "sessions", f"session:{waiter}") as page:
        cache.empty()
        everything_is_answered(alice, image, f"{how}-emptied")
        assert readiness(demo)["status"] == "ok"

        with getattr(cache, how)():
            assert readiness(demo) == {"status": "degraded", "degraded": ["redis"]}
            placed = everything_is_answered(alice, image, f"{how}-away")
            with open_page(alice, "sessions"):
                alice.ask("stop", holder)
            alice.reaches(holder, "stopped", within=BOUND)
            assert readiness(demo)["status"] == "degraded"
        back = time.time()

        until(lambda: readiness(demo)["status"] == "ok", within=10, what="readiness to say that Redis is back")
        for tick in ("sessions.drain_queue", "sessions.reconcile"):
            until(
                partial(has_succeeded_since, demo, tick, back),
                within=RECONNECTED + PERIOD,
                what=f"{tick} to catch up",
            )
        grace.reaches(waiter, "running", within=BOUND)
        alice.reaches(placed, "running", within=BOUND)
        heard = hear(page, within=BOUND)
        assert re.fullmatch(r"sessions?(:.*)?", heard["topic"]), heard

    for who, session_id in ((grace, waiter), *((alice, row) for row in live_sessions(alice))):
        who.ask("stop", session_id)
        who.reaches(session_id, "stopped", within=BOUND)
    assert examiner.examine(holder, waiter, placed)["disagreements"] == []


def live_sessions(who: Console) -> list[str]:
    """What has not ended."""
    rows = who.call("GET", "/sessions").json()["results"]
    return [row["id"] for row in rows if row["state"] not in {"stopped", "failed"}]
