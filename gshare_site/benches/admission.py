"""Admissions a second over real HTTP, beside what the same PostgreSQL does of pgbench's TPC-B in the same run.

A throw-away installation with a large fleet and a long line; two web processes; eight clients, each another person at every
turn, who ask for shares of cards that are free (placed) and of cards that are all taken (queued). pgbench runs before and
after them, since machines vary by the minute; what the web processes do for the first time is not timed. Afterwards books,
counters, line and metal agree, nothing is over-committed, and everybody has exactly the sessions he was told of.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from gshare_site.benches import Figure, WrongAnswer, scratch
from gshare_site.benches.line_rows import PASSWORD
from gshare_site.benches.person import Person
from gshare_site.embedded.postgres import find_binaries

HELP = "Admissions a second over HTTP, as a share of the machine's pgbench rate."
BAR = 0.05
CLIENTS = 8
QUEUED_PERCENT = 30
WARM_UP = 160


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    parser.add_argument("--waiting", type=int, default=50_000, help="Sessions in line (default 50,000).")
    parser.add_argument("--groups", type=int, default=1_000, help="Groups (default 1,000).")
    parser.add_argument("--cards", type=int, default=2_000, help="Cards of each of two models (default 2,000).")
    parser.add_argument("--creates", type=int, default=1_600, help="Sessions asked for (default 1,600).")
    parser.add_argument("--pgbench-seconds", type=int, default=10, help="How long pgbench runs, twice (default 10).")
    parser.add_argument("--seed", type=int, default=1, help="Who asks for what.")


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Fill, measure pgbench, measure admissions, check."""
    sizes = [f"--{name}={options[name]}" for name in ("waiting", "groups", "cards", "seed")]
    with scratch.installation() as installed, ExitStack() as stack:
        acts = [sys.executable, "-m", "gshare_site.benches.line_rows"]
        port, other = scratch.free_port(), scratch.free_port()
        url = f"http://localhost:{port}"
        env = installed | {"GSHARE_PUBLIC_URL": url, "GSHARE_PORT": str(port), "GSHARE_REST_THROTTLE": "100000/min"}
        known = json.loads(scratch.run([*acts, "fill", *sizes], env))
        rates = [pgbench(env["GSHARE_DATABASE_URL"], options["pgbench_seconds"])]
        webs = [
            stack.enter_context(scratch.serving("gshare_site.asgi:application", env, listens))
            for listens in (port, other)
        ]
        people = [
            signed_in(url, f"http://127.0.0.1:{(port, other)[number % 2]}", email)
            for number, email in enumerate(known["users"][: CLIENTS * 4])
        ]
        ask_all(people, known, WARM_UP, seed=-options["seed"])
        spent = Spent([web.pid for web in webs], scratch.postgres_pid(env))
        started = time.perf_counter()
        states = ask_all(people, known, options["creates"], seed=options["seed"])
        seconds = time.perf_counter() - started
        costs = spent.since(options["creates"])
        rates.append(pgbench(env["GSHARE_DATABASE_URL"], options["pgbench_seconds"]))
        checked = json.loads(scratch.run([*acts, "check"], env))
        made = count_made(env["GSHARE_DATABASE_URL"])
    if checked["differences"] or checked["over"] or made != options["creates"] + WARM_UP:
        raise WrongAnswer(f"{checked}, {made} of {options['creates'] + WARM_UP} sessions exist")
    admitted, rate = options["creates"] / seconds, sum(rates) / len(rates)
    verified = (
        f"{options['creates']:,} asked: {states['starting']:,} placed, {states['queued']:,} queued behind"
        f" {options['waiting']:,}; none twice, none lost; books, counters, line and metal agree; processor time of one:"
        f" web {costs['web_ms']} ms, PostgreSQL {costs['postgres_ms']} ms, this client {costs['client_ms']} ms"
    )
    facts = {"pgbench_tps": [round(one, 1) for one in rates], "clients": CLIENTS, **costs}
    yield Figure("admissions a second", admitted, "/s", verified, None, "more", facts)
    yield Figure("admissions per pgbench transaction", admitted / rate, "", verified, BAR, "more", facts)


class Spent:
    """Processor time of web processes, PostgreSQL and this client from now on."""

    def __init__(self, webs: list[int], postgres: int) -> None:
        self._webs = [psutil.Process(pid) for pid in webs]
        self._postgres = psutil.Process(postgres)
        self._before = self._now()

    def since(self, acts: int) -> dict[str, float]:
        """Milliseconds an act, by part."""
        return {
            name: round(1000 * (now - before) / acts, 2)
            for (name, now), before in zip(self._now().items(), self._before.values(), strict=True)
        }

    def _now(self) -> dict[str, float]:
        backends = [_seconds(process) for process in self._postgres.children()]
        return {
            "web_ms": sum(_seconds(process) for process in self._webs),
            "postgres_ms": _seconds(self._postgres, ended=True) + sum(backends),
            "client_ms": _seconds(psutil.Process()),
        }


def _seconds(process: psutil.Process, *, ended: bool = False) -> float:
    """Of a process, and of its children that have ended; nothing of one that ends meanwhile."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    own: float = times.user + times.system
    return own + (times.children_user + times.children_system if ended else 0.0)


def pgbench(url: str, seconds: int) -> float:
    """Transactions a second of TPC-B with as many clients, on the installation's own server."""
    parts = conninfo_to_dict(url)
    binary = find_binaries().folder / "pgbench"
    place = ["-h", str(parts["host"]), "-U", str(parts["user"]), scratch.PGBENCH]
    env = {"PGPASSWORD": str(parts["password"]), "PATH": "/usr/bin:/bin"}
    subprocess.run([str(binary), "-i", "-q", "-s", "10", *place], env=env, check=True, capture_output=True)
    command = [str(binary), "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), *place]
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    found = re.search(r"tps = ([0-9.]+)", said)
    if found is None:
        raise ValueError(f"pgbench did not say its rate: {said[-500:]}")
    return float(found[1])


def signed_in(url: str, through: str, email: str) -> Person:
    """A person of the installation."""
    person = Person(url, through=through)
    if not person.sign_in(email, PASSWORD):
        raise WrongAnswer(f"{email} cannot sign in")
    return person


def ask_all(people: list[Person], known: Mapping[str, Any], creates: int, *, seed: int) -> Counter[str]:
    """So many creates, eight at a time; answers how many are in which state."""
    rng = random.Random(seed)  # noqa: S311 -- a bench that can be repeated
    orders = []
    for number in range(creates):
        turn = number % len(people)
        offering = known["offering"] if rng.random() * 100 < QUEUED_PERCENT else known["free"]
        body = {"name": f"bench-{number}", "group": known["groups"][turn], "offering": offering}
        body |= {"preset": known["presets"][rng.choice("SML")], "image": known["image"]}
        orders.append((people[turn], body))
    lanes = [orders[client::CLIENTS] for client in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(_ask, lanes), Counter[str]())


def _ask(orders: list[tuple[Person, dict[str, Any]]]) -> Counter[str]:
    states: Counter[str] = Counter()
    for person, body in orders:
        answer = person.ask("POST", "/api/v1/sessions", json=body, headers={"Idempotency-Key": str(uuid4())})
        if answer.status_code != 201:
            raise WrongAnswer(f"create answered {answer.status_code}: {answer.text[:500]}")
        states[answer.json()["state"]] += 1
    return states


def count_made(url: str) -> int:
    """How many sessions of this bench there are."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM sessions_app_session WHERE name LIKE 'bench-%'").fetchone()
    return int(row[0]) if row else 0
