"""Draining a long line while cards come free at random, on a throw-away installation with real PostgreSQL.

Every walk is checked: those who left are the first of their lane and shape, and nobody who would fit still waits. At the
end books, counters, line and metal agree.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any

from gshare_site.benches import Figure, WrongAnswer, scratch

HELP = "Dequeues a second with 50,000 waiting and cards freed at random."
BAR = 100.0


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    parser.add_argument("--waiting", type=int, default=50_000, help="Sessions in line (default 50,000).")
    parser.add_argument("--groups", type=int, default=1_000, help="Groups they belong to (default 1,000).")
    parser.add_argument("--cards", type=int, default=2_000, help="Cards that are taken at first (default 2,000).")
    parser.add_argument("--dequeues", type=int, default=2_000, help="How many leave the line (default 2,000).")
    parser.add_argument("--seed", type=int, default=1, help="Who waits for what, and which cards come free.")


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Fill, drain, check."""
    sizes = [f"--{name}={options[name]}" for name in ("waiting", "groups", "cards", "dequeues", "seed")]
    with scratch.installation() as env:
        acts = [sys.executable, "-m", "gshare_site.benches.line_rows"]
        scratch.run([*acts, "fill", *sizes], env)
        found = json.loads(scratch.run([*acts, "drain", *sizes], env))
        checked = json.loads(scratch.run([*acts, "check"], env))
    if found["wrong"] or checked["differences"] or checked["over"]:
        raise WrongAnswer(
            "; ".join([*found["wrong"][:5], *checked["differences"], f"{checked['over']} over-committed"])
        )
    verified = (
        f"{found['left']:,} of {options['waiting']:,} left in {found['walks']} walks, in order, nobody who fits was left"
        " waiting; books, counters, line and metal agree"
    )
    facts = {
        "worst_walk_s": round(found["worst"], 3),
        "own_cpu_ms_each": round(1_000 * found["cpu"] / found["left"], 2),
    }
    yield Figure("dequeues a second", found["left"] / found["seconds"], "/s", verified, BAR, "more", facts)
