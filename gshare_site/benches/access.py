"""`bench access`: how long an ingress waits for `/internal/v1/access/verify`, at 500 questions a second.

A throw-away installation with running sessions, the internal listener in its own process, questions over real HTTP on
connections that are kept, sent by the clock whether or not earlier ones were answered (a slow answer delays no question and
hides nobody's wait: the time counts from when a question was due). Every answer is checked: the right sessions' credentials,
401 for another session's cookie, 403 for another site's request. Once with visitors who come back, as browsers do, and once
with a new visitor at each question, so that every answer is read from the database.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import psutil

from gshare_site.benches import Figure, WrongAnswer, percentile
from gshare_site.benches.scratch import free_port, installation, serving
from gshare_site.benches.scratch import run as output_of

HELP = "Time of a forward-auth answer at a steady rate."
P99_MS = 5.0
INTERNAL_SETTINGS = "gshare_site.settings.internal"
CONNECTIONS = 32
WARM_UP_SECONDS = 3.0
ODD_PERCENT = 4  # questions that must be refused


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a session's cookie."""

    host: str
    cookie: str
    authorization: str


@dataclass(frozen=True, slots=True)
class Question:
    """One request to verify and the answer that it must get."""

    text: bytes
    status: int
    authorization: bytes


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the bench."""
    parser.add_argument("--rate", type=int, default=500, help="Questions a second.")
    parser.add_argument("--seconds", type=float, default=20.0, help="Length of each part.")
    parser.add_argument("--visitors", type=int, default=200, help="People at work in the first part.")
    parser.add_argument("--seed", type=int, default=1, help="Which questions are asked.")


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Measure; see the module."""
    rate, seconds, count = options["rate"], options["seconds"], options["visitors"]
    rng = random.Random(options["seed"])  # noqa: S311 -- a bench's dice
    fresh = int(rate * (seconds + WARM_UP_SECONDS)) + 1
    with installation() as env:
        port = free_port()
        inner = {**env, "GSHARE_INTERNAL_BIND": f"127.0.0.1:{port}", "DJANGO_SETTINGS_MODULE": INTERNAL_SETTINGS}
        seeded = output_of([sys.executable, "-m", "gshare_site.benches.access_rows", str(count + fresh)], inner)
        visitors = [Visitor(*fields) for fields in json.loads(seeded)]
        with serving("gshare_site.asgi_internal:application", inner, port) as server:
            busy = psutil.Process(server.pid)
            for name, bar, asked in (
                ("visitors who come back", P99_MS, [rng.choice(visitors[:count]) for _ in range(fresh)]),
                ("a new visitor each time", None, visitors[count:]),
            ):
                questions = [question(visitor, rng, visitors) for visitor in asked]
                before = sum(busy.cpu_times()[:2])
                waits = asyncio.run(ask(port, questions, rate))
                cost = (sum(busy.cpu_times()[:2]) - before) / len(waits)
                yield from figures(name, waits[int(rate * WARM_UP_SECONDS) :], rate=rate, bar=bar, cost=cost)


def figures(name: str, waits: Sequence[float], *, rate: int, bar: float | None, cost: float) -> Iterator[Figure]:
    """Median and 99th percentile of one part."""
    verified = (
        f"{len(waits):,} answers at {rate}/s: status and credential of each, {ODD_PERCENT} % refused as they must be"
    )
    milliseconds = [wait * 1000 for wait in waits]
    for percent in (50, 99):
        yield Figure(
            name=f"verify p{percent}, {name}",
            value=percentile(milliseconds, percent),
            unit="ms",
            verified=verified,
            bar=bar if percent == 99 else None,
            better="less",
            facts={
                "rate": rate,
                "answers": len(waits),
                "worst_ms": round(max(milliseconds), 3),
                "cpu_us": round(cost * 1e6),
            },
        )


def question(visitor: Visitor, rng: random.Random, others: Sequence[Visitor]) -> Question:
    """What an ingress asks for a visitor's request; a few are of a kind that must be refused."""
    dice = rng.random() * 100
    host, status, authorization, extra = visitor.host, 200, visitor.authorization, "Sec-Fetch-Site: same-origin\r\n"
    if dice < ODD_PERCENT / 2:
        host, status, authorization = rng.choice(others).host, 401, ""
        status = 200 if host == visitor.host else status
        authorization = visitor.authorization if status == 200 else ""
    elif dice < ODD_PERCENT:
        status, authorization, extra = 403, "", "Sec-Fetch-Site: same-site\r\n"
    text = (
        "GET /internal/v1/access/verify HTTP/1.1\r\nHost: control-plane\r\n"
        f"X-Original-Method: GET\r\nX-Original-URL: http://{host}/lab/api/contents?1\r\n"
        f"Cookie: _xsrf=2|x; __Host-gshare-access={visitor.cookie}\r\n{extra}"
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\nAccept: application/json\r\n\r\n"
    )
    return Question(text.encode("ascii"), status, authorization.encode("ascii"))


async def ask(port: int, questions: Sequence[Question], rate: int) -> list[float]:
    """Seconds from when each question was due to its answer, in the order of the questions."""
    waits = [0.0] * len(questions)
    waiting: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    workers = [asyncio.create_task(_worker(port, questions, waiting, waits)) for _ in range(CONNECTIONS)]
    start = perf_counter()
    for number in range(len(questions)):
        due = start + number / rate
        if (pause := due - perf_counter()) > 0:
            await asyncio.sleep(pause)
        waiting.put_nowait((number, due))
    for _ in workers:
        waiting.put_nowait((-1, 0.0))
    await asyncio.gather(*workers)
    return waits


async def _worker(
    port: int, questions: Sequence[Question], waiting: asyncio.Queue[tuple[int, float]], waits: list[float]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (item := await waiting.get())[0] >= 0:
        number, due = item
        writer.write(questions[number].text)
        head = await reader.readuntil(b"\r\n\r\n")
        waits[number] = perf_counter() - due
        _check(questions[number], head)
    writer.close()


def _check(asked: Question, head: bytes) -> None:
    status = int(head.split(b" ", 2)[1])
    given = next((line[15:] for line in head.split(b"\r\n") if line.startswith(b"authorization: ")), b"")
    if status != asked.status or given.strip() != asked.authorization:
        raise WrongAnswer(
            f"verify answered {status} where {asked.status} is right, or with another session's credential"
        )
