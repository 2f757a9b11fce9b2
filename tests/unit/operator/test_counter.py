"""CPU of a pod: all its processes, also those that ended, nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest

from cluster.operator.substrates.local.counter import TICKS_PER_SECOND, Counter
from cluster.operator.substrates.local.processes import MARK, Process, Stat, stats_of
from tests.waiting import until

BURN = "while True: pass"
# Leaves its parent, its group, its session: only the mark in its environment tells whose it is.
DETACHED = (
    "import subprocess, sys, time\n"
    f"subprocess.Popen([sys.executable, '-c', '{BURN}'], start_new_session=True)\n"
    "time.sleep(600)\n"
)
# Work that is over before anybody looks: its parent waited for it.
SHORT = (
    "import subprocess, sys, time\n"
    "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.6: pass'])\n"
    "print('done', flush=True)\n"
    "time.sleep(600)\n"
)


def stat(pid: int, own: int, everything: int | None = None, *, parent: int = 1, started: int = 7) -> Stat:
    return Stat(Process(pid, started), parent, None, own, own if everything is None else everything, 0)


LOOKS = {
    "two processes": ([[stat(10, 5), stat(11, 3, parent=10)], [stat(10, 6), stat(11, 8, parent=10)]], 14),
    "a child that ended is in its parent's sum": (
        [[stat(10, 5), stat(11, 30, parent=10)], [stat(10, 5, 5 + 40)]],
        5 + 40,
    ),
    "a child that lived and died unseen": ([[stat(10, 5)], [stat(10, 5, 5 + 20)]], 25),
    "an orphan that ended takes nothing back": ([[stat(10, 5), stat(11, 30, parent=1)], [stat(10, 7)]], 5 + 30 + 2),
    "a child of the dead that nobody waited for": (
        [[stat(10, 5), stat(11, 30, parent=10)], [stat(10, 7)]],
        5 + 30 + 2,
    ),
    "another process with the same pid": ([[stat(10, 50)], [stat(10, 4, started=9)]], 54),
    "nothing left": ([[stat(10, 50)], []], 50),
}


@pytest.mark.parametrize("name", LOOKS)
def test_the_counter_counts_everything_once(name: str) -> None:
    looks, expected = LOOKS[name]
    counter = Counter()
    for stats in looks:
        counter = Counter.model_validate_json(counter.advanced(stats).model_dump_json())
    assert counter.ticks == expected
    assert counter.usec == expected * 1_000_000 // TICKS_PER_SECOND


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    children: list[subprocess.Popen[str]] = []
    yield children
    for child in children:
        child.kill()
        child.wait()


def pod(program: str, started: list[subprocess.Popen[str]]) -> str:
    """A process that carries a mark of its own."""
    mark = f"pod-{uuid4().hex}"
    child = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, text=True
    )
    started.append(child)
    return mark


def test_a_detached_child_counts_and_the_busy_neighbour_does_not(started: list[subprocess.Popen[str]]) -> None:
    busy, quiet = pod(DETACHED, started), pod("import time; time.sleep(600)", started)
    counters = {busy: Counter(), quiet: Counter()}

    def burned() -> bool:
        for mark, stats in stats_of(dict.fromkeys(counters)).items():
            counters[mark] = counters[mark].advanced(stats)
        return counters[busy].usec > 1_000_000

    try:
        until(burned, within=60, what="a second of CPU")
        assert counters[quiet].usec < 500_000, "a neighbour's use does not count"
    finally:
        for one in stats_of({busy: None})[busy]:
            os.kill(one.process.pid, 9)


def test_work_that_was_over_before_anybody_looked_counts(started: list[subprocess.Popen[str]]) -> None:
    mark = pod(SHORT, started)
    before = Counter().advanced(stats_of({mark: None})[mark])
    output = started[0].stdout
    assert output is not None
    assert output.readline().strip() == "done"
    after = before.advanced(stats_of({mark: None})[mark])
    assert after.usec >= 500_000
