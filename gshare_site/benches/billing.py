"""One tick of money over many running sessions, against the bare rows that it writes, on a throw-away installation.

Every session is due: its charge is posted and its hold filled up again, on its wallet and its group's budget. What it is
compared with is one statement a table over the same rows of the same tables, without looking, deciding or checking. Both are
measured in processor seconds, ours and the database's, so that the figure means the same on a machine that does other things.
Afterwards the trial balance must agree to the micro-credit.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any

from gshare_site.benches import Figure, WrongAnswer, scratch

HELP = "One tick over 100,000 running sessions."
BAR = 4.0
GROWTH_BAR = 64.0


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    parser.add_argument("--sessions", type=int, default=100_000, help="Running sessions (default 100,000).")
    parser.add_argument("--users", type=int, default=10_000, help="Whose they are (default 10,000).")
    parser.add_argument("--groups", type=int, default=1_000, help="Groups, each with a budget (default 1,000).")


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Fill, write the bare rows and take them back, tick, check."""
    sizes = [f"--{name}={options[name]}" for name in ("sessions", "users", "groups")]
    acts = [sys.executable, "-m", "gshare_site.benches.money_rows"]
    with scratch.installation() as env:
        scratch.run([*acts, "fill", *sizes], env)
        bare = json.loads(scratch.run([*acts, "bare", *sizes], env))
        found = json.loads(scratch.run([*acts, "tick", *sizes], env))
        checked = json.loads(scratch.run([*acts, "check", *sizes], env))
    posted = found["posted"]
    if posted != options["sessions"] or found["filled"] != posted or checked["differences"]:
        raise WrongAnswer(f"{posted} posted, {found['filled']} filled; {checked['differences'][:3]}")
    verified = f"{posted:,} charges posted and holds filled once; the trial balance agrees to the micro-credit"
    facts = {
        "own_cpu_s": round(found["cpu"], 2),
        "database_cpu_s": round(found["database_cpu"], 2),
        "bare_cpu_s": round(bare["cpu"], 2),
        "tick_s": round(found["seconds"], 2),
        "bare_s": round(bare["seconds"], 2),
    }
    work = found["cpu"] + found["database_cpu"]
    yield Figure(
        "processor time of a tick per bare writing of its rows", work / bare["cpu"], "", verified, BAR, "less", facts
    )
    yield Figure(
        "memory that a whole tick takes beyond one of two batches",
        found["growth_mib"],
        "MiB",
        verified,
        GROWTH_BAR,
        "less",
    )
