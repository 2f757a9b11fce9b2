"""`bench placement`: how full the fleet gets, and how fast a decision is, on the openb trace.

Filling (the paper's protocol, Weng et al., USENIX ATC 2023): the requests arrive in random order, again and again, until
what was asked for reaches 130 % of all cards; nothing leaves, what does not fit is dropped; the figure is the share of all
cards allocated when arrivals reach 100 % and 130 %. Churn: arrivals at random, lifetimes exponential, offered load 115 %;
the figure is the mean share allocated over time once the fleet is warm. The mix is learned from the requests as they come.

Every placement is checked by a referee with its own books; of the refusals every tenth is, node by node.
"""

from __future__ import annotations

import heapq
import os
import random
import statistics
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from cluster.domain.placement import POLICIES, Fleet, Node, Placement, Request
from gshare_site.benches import Figure, WrongAnswer, percentile
from gshare_site.benches.openb import (
    CARD_MILLI,
    MIXES,
    REQUESTS_FILE,
    Referee,
    Row,
    describe,
    endless,
    mixed,
    read_nodes,
    read_requests,
)

HELP = "Placement quality and speed on the openb trace."
ARRIVALS_PERCENT = (100, 130)
CHURN_LOAD_PERCENT = 115
WARM_LIFETIMES, MEASURED_LIFETIMES = 3, 3
_REFUSALS_CHECKED = 10
# The published BestFit and the floors of the default policy, on the default mix only.
BARS = {
    ("best_fit", "filled", 100): 92.8,
    ("best_fit", "filled", 130): 93.0,
    ("least_fragmentation", "filled", 100): 95.9,
    ("least_fragmentation", "filled", 130): 96.0,
    ("least_fragmentation", "churn", CHURN_LOAD_PERCENT): 92.4,
}
P50_MS, P99_MS = 1.0, 3.0


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the bench."""
    parser.add_argument("--trace", type=Path, default=os.environ.get("GSHARE_TRACE_DIR"), help="The trace's directory.")
    parser.add_argument("--requests", type=Path, help="Another file of requests in the trace's format.")
    parser.add_argument("--mix", choices=MIXES, default="default", help="A workload made of the file's requests.")
    parser.add_argument("--policy", action="append", choices=sorted(POLICIES), help="Only this policy (repeatable).")
    parser.add_argument("--seeds", type=int, default=10, help="How many orders of arrival to fill with.")
    parser.add_argument("--churn-seeds", type=int, default=3, help="How many runs with departures (0: none).")


@dataclass
class Trial:
    """One policy on one order of arrivals: the engine, the referee and the clock around each decision."""

    nodes: list[Node]
    policy: str
    referee: Referee = field(init=False)
    fleet: Fleet = field(init=False)
    milliseconds: list[float] = field(default_factory=list)
    cpu_milliseconds: list[float] = field(default_factory=list)
    dropped_without_card: int = 0

    def __post_init__(self) -> None:
        self.referee = Referee(self.nodes)
        self.fleet = Fleet(self.nodes, policy=self.policy)

    def ask(self, row: Row, request: Request) -> Placement | None:
        """One decision, timed from the question to the claim, then checked."""
        start, cpu_start = time.perf_counter(), time.thread_time()
        answer = self.fleet.place(request)
        if isinstance(answer, Placement):
            self.fleet.claim(answer)
        self.milliseconds.append((time.perf_counter() - start) * 1_000)
        self.cpu_milliseconds.append((time.thread_time() - cpu_start) * 1_000)
        if isinstance(answer, Placement):
            self.referee.took(row, answer)
            return answer
        self.dropped_without_card += not row.cards
        if len(self.milliseconds) % _REFUSALS_CHECKED == 0:
            self.referee.refuses(row)
        return None

    def give_back(self, row: Row, placement: Placement) -> None:
        """One departure."""
        self.fleet.release(placement)
        self.referee.gave_back(row, placement)


@dataclass
class Sums:
    """What the runs of one policy add up to."""

    filled: dict[int, list[float]] = field(default_factory=lambda: {percent: [] for percent in ARRIVALS_PERCENT})
    churn: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    cpu_milliseconds: list[float] = field(default_factory=list)
    dropped_without_card: list[int] = field(default_factory=list)
    placed: int = 0
    refusals_checked: int = 0

    def add(self, trial: Trial) -> None:
        """Take in a finished trial."""
        self.milliseconds += trial.milliseconds
        self.cpu_milliseconds += trial.cpu_milliseconds
        self.placed += trial.referee.placed
        self.refusals_checked += trial.referee.refused

    @property
    def verified(self) -> str:
        """What was checked."""
        return f"{self.placed:,} placements legal, {self.refusals_checked:,} refusals justified, by separate books"


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Fill and churn with every policy. Raises ValueError without a trace, WrongAnswer at the first illegal answer."""
    if not options["trace"]:
        raise ValueError("where is the trace? Give its directory with --trace or GSHARE_TRACE_DIR")
    directory = Path(options["trace"])
    nodes = read_nodes(directory)
    file = options["requests"] or directory / REQUESTS_FILE
    rows = mixed(read_requests(file), options["mix"], nodes)
    workload = {"workload": file.stem, "mix": options["mix"], **describe(rows)}
    judged = options["requests"] is None and options["mix"] == "default"
    for policy in options["policy"] or sorted(POLICIES):
        sums = Sums()
        for seed in range(options["seeds"]):
            fill(Trial(nodes, policy), rows, seed, sums)
        for seed in range(options["churn_seeds"]):
            churn(Trial(nodes, policy), rows, seed, sums)
        yield from _figures(policy, sums, workload, judged=judged)


def fill(trial: Trial, rows: list[Row], seed: int, sums: Sums) -> None:
    """Arrivals without departures until 130 % of all cards was asked for."""
    capacity = CARD_MILLI * sum(len(node.cards) for node in trial.nodes)
    requests = {row.name: row.request() for row in rows}
    arrived = allocated = 0
    marks = list(ARRIVALS_PERCENT)
    for row in endless(rows, random.Random(seed)):  # noqa: S311 - an order of arrival, not a secret
        arrived += row.gpu_milli
        if trial.ask(row, requests[row.name]):
            allocated += row.gpu_milli
        if arrived * 100 >= marks[0] * capacity:
            sums.filled[marks.pop(0)].append(100 * allocated / capacity)
            if not marks:
                break
    if allocated != trial.referee.allocated_milli():
        raise WrongAnswer("the referee's books do not add up to what was placed")
    sums.dropped_without_card.append(trial.dropped_without_card)
    sums.add(trial)


def churn(trial: Trial, rows: list[Row], seed: int, sums: Sums) -> None:
    """Arrivals and departures; one unit of time is a mean lifetime."""
    rng = random.Random(f"churn {seed}")  # noqa: S311 - arrivals, not secrets
    capacity = CARD_MILLI * sum(len(node.cards) for node in trial.nodes)
    mean_milli = sum(row.gpu_milli for row in rows) / len(rows)
    rate = CHURN_LOAD_PERCENT / 100 * capacity / mean_milli
    requests = {row.name: row.request() for row in rows}
    ends: list[tuple[float, int, Row, Placement]] = []
    numbers = count()
    now, allocated, area = 0.0, 0, 0.0
    until = float(WARM_LIFETIMES + MEASURED_LIFETIMES)
    while now < until:
        arrival = now + rng.expovariate(rate)
        while ends and ends[0][0] <= arrival:
            end, _, row, placement = heapq.heappop(ends)
            area += allocated * (min(end, until) - max(now, WARM_LIFETIMES)) * (end > WARM_LIFETIMES)
            now = end
            trial.give_back(row, placement)
            allocated -= row.gpu_milli
        area += allocated * max(0.0, min(arrival, until) - max(now, WARM_LIFETIMES))
        now = arrival
        row = rng.choice(rows)
        answer = trial.ask(row, requests[row.name])
        if answer:
            allocated += row.gpu_milli
            heapq.heappush(ends, (now + rng.expovariate(1.0), next(numbers), row, answer))
    if allocated != trial.referee.allocated_milli():
        raise WrongAnswer("the referee's books do not add up to what is placed")
    sums.churn.append(100 * area / capacity / MEASURED_LIFETIMES)
    sums.add(trial)


def _figures(policy: str, sums: Sums, workload: dict[str, Any], *, judged: bool) -> Iterator[Figure]:
    facts = {"policy": policy, **workload}
    for percent, shares in sums.filled.items():
        if shares:
            bar = BARS.get((policy, "filled", percent)) if judged else None
            yield _mean(f"{policy}: cards allocated at {percent} % arrivals", shares, sums.verified, bar, facts)
    if sums.churn:
        bar = BARS.get((policy, "churn", CHURN_LOAD_PERCENT)) if judged else None
        name = f"{policy}: cards allocated under churn at {CHURN_LOAD_PERCENT} %"
        yield _mean(name, sums.churn, sums.verified, bar, facts)
    if sums.dropped_without_card:
        dropped = statistics.fmean(sums.dropped_without_card)
        yield Figure(f"{policy}: refused without a card", dropped, "requests", sums.verified, facts=facts)
    facts = {**facts, "decisions": len(sums.milliseconds)}
    for percent, bar in ((50, P50_MS), (99, P99_MS)):
        value = percentile(sums.milliseconds, percent)
        yield Figure(f"{policy}: decision p{percent}", value, "ms", sums.verified, bar, "less", facts)
        value = percentile(sums.cpu_milliseconds, percent)
        yield Figure(f"{policy}: decision p{percent}, CPU time", value, "ms", sums.verified, None, "less", facts)


def _mean(name: str, shares: list[float], verified: str, bar: float | None, facts: dict[str, Any]) -> Figure:
    spread = {"runs": len(shares), "least": round(min(shares), 3), "most": round(max(shares), 3)}
    return Figure(name, statistics.fmean(shares), "%", verified, bar, facts={**facts, **spread})
