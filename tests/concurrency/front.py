"""The REST interface as rivals use it: real connections to two web processes, signed-in people, all at the same instant.

Every rival opens its connection first and waits at a barrier; only then all of them send.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from accounts.models import User
from tests.apps.sessions.world import World
from tests.door.fixtures import SignedIn
from tests.door.processes import Served, free_port, serving
from tests.services import Addresses, environment

PATIENCE = 60
CSRF = "c" * 32  # the bare secret is a valid token


@dataclass(frozen=True)
class TwoWebs:
    """Two processes that serve the same console; a balancer would stand before them."""

    both: tuple[Served, Served]
    host: str

    @property
    def origin(self) -> str:
        return f"http://{self.host}"


@contextmanager
def two_webs(services: Addresses, database_name: str, home: Path) -> Iterator[TwoWebs]:
    """Start them on ports of their own, under one public address."""
    first, second = free_port(), free_port()
    host = f"localhost:{first}"
    env = {
        **environment(services, database_name),
        "GSHARE_PUBLIC_URL": f"http://{host}",
        "GSHARE_HOME": str(home),
        "GSHARE_LOG_LEVEL": "WARNING",
    }
    application = "gshare_site.asgi:application"
    with serving(application, port=first, env=env) as one, serving(application, port=second, env=env) as two:
        yield TwoWebs((one, two), host)


@dataclass(frozen=True)
class Call:
    """One request of somebody."""

    by: User
    method: str
    path: str
    body: Any = None
    key: str = field(default_factory=lambda: str(uuid4()))


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    body: Any

    @property
    def outcome(self) -> str:
        """`placed`, `queued` or the refusal's code."""
        if self.status == 201 and "state" in self.body:
            return "queued" if self.body["state"] == "queued" else "placed"
        return str(self.body["code"]) if self.status >= 400 else "done"


def a_create(world: World, by: User, group: UUID, tier: str = "L", *, key: str = "", name: str = "race") -> Call:
    """`POST /sessions` for a size of the world's offering."""
    body = {
        "name": name,
        "group": str(group),
        "offering": None if tier == "cpu" else str(world.offering.pk),
        "preset": str(world.presets[tier].pk),
        "image": str(world.image.pk),
    }
    return Call(by, "POST", "/api/v1/sessions", body, **({"key": key} if key else {}))


def rush(webs: TwoWebs, calls: Sequence[Call]) -> list[Answer]:
    """Send all at once, alternating between the processes; answers in the order of the calls."""
    sign_in = SignedIn()
    cookies = {person.pk: sign_in(person) for person in {call.by.pk: call.by for call in calls}.values()}
    start = threading.Barrier(len(calls))

    def run(number: int, call: Call) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", webs.both[number % 2].port, timeout=PATIENCE)
        try:
            connection.connect()
            start.wait(PATIENCE)
            connection.request(
                call.method, call.path, json.dumps(call.body), _headers(webs, cookies[call.by.pk], call.key)
            )
            response = connection.getresponse()
            raw = response.read()
            return Answer(response.status, json.loads(raw) if raw else None)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        sent = [pool.submit(run, number, call) for number, call in enumerate(calls)]
        return [future.result() for future in sent]  # each has its own patience


def a_page(webs: TwoWebs, process: int, by: User, path: str, *, within: float) -> int:
    """The status of a page of the console; TimeoutError when it does not answer in time."""
    connection = http.client.HTTPConnection("127.0.0.1", webs.both[process].port, timeout=within)
    try:
        connection.request("GET", path, headers={"Host": webs.host, "Cookie": SignedIn()(by)})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def outcomes(answers: Sequence[Answer]) -> Counter[str]:
    """How often each outcome was; an answer of the 500s fails the test with its body."""
    broken = [answer for answer in answers if answer.status >= 500]
    assert not broken, broken[:3]
    return Counter(answer.outcome for answer in answers)


def _headers(webs: TwoWebs, cookie: str, key: str) -> dict[str, str]:
    return {
        "Host": webs.host,
        "Origin": webs.origin,
        "Content-Type": "application/json",
        "Cookie": f"{cookie}; __Host-csrftoken={CSRF}",
        "X-CSRFToken": CSRF,
        "Idempotency-Key": key,
    }
