"""kill -9 of web, internal listener, worker, beat, operator and PostgreSQL at random moments of the story.

Twenty seeded (or `GSHARE_TEST_SOAK_ROUNDS`) runs against the demo's own processes: pause, resume, restart, a volume mounted,
somebody in line who starts when the cards come free, while other sessions are paused by the idle rule, by their maximal
runtime and for want of credits (and resume by themselves). After each: the books balance to the micro-credit, what limits
count and the line agree (`manage.py reconcile --check`), no card is over-committed, nothing hangs past its deadline, each
session went through its states within bounds and ended, each run was settled and billed once by the formula, and somebody
else's session is still the same processes.

One seed again:  GSHARE_TEST_CHAOS_SEED=7 python -m pytest tests/chaos/test_kill_nine.py -x -q
Other seeds:     GSHARE_TEST_CHAOS_SEED=100,101 …
"""

from __future__ import annotations

from typing import Any

import pytest

from gshare_site.settings.test import GIVEN
from tests.chaos.companions import Companions
from tests.chaos.examiner import Examiner
from tests.chaos.processes import VICTIMS, belongings, find
from tests.chaos.story import Cast, Plan, Story, microseconds
from tests.e2e.running import Demo
from tests.waiting import until

HOUR_US = 3_600_000_000
_CHOSEN = GIVEN.get("GSHARE_TEST_CHAOS_SEED", "")
_ROUNDS = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0")) or 20
SEEDS = [int(seed) for seed in _CHOSEN.split(",")] if _CHOSEN else list(range(_ROUNDS))

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.e2e]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_nothing_is_lost_billed_twice_or_left_hanging(
    seed: int, demo: Demo, cast: Cast, companions: Companions, examiner: Examiner
) -> None:
    plan = Plan.of(seed)
    fed = companions.before()
    story = Story.tell(cast, plan)
    for session_id in story.sessions:
        until(lambda of=session_id: not belongings(of), within=30, what="the session's processes to end")
    until(lambda: all(find(demo, name) for name in VICTIMS), within=60, what="every process to be back")
    companions.after(fed=fed)
    seen = examiner.examine(*story.sessions, *companions.sessions)
    assert seen["disagreements"] == [], plan
    assert_billed_once(seen["runs"])
    for session_id, total in charged(seen["runs"]).items():
        told = cast.worker if session_id == story.session_id else cast.waiter
        if session_id in story.sessions:
            assert told.see(session_id)["cost"]["charged"] == f"{total // 1_000_000}.{total % 1_000_000:06d}", plan
    assert seen["paid"] == sum(run["charged"] for run in seen["runs"]), plan


def charged(runs: list[dict[str, Any]]) -> dict[str, int]:
    """What each session was charged, over its runs."""
    return {session: sum(run["charged"] for run in runs if run["session"] == session) for session in _sessions(runs)}


def _sessions(runs: list[dict[str, Any]]) -> set[str]:
    return {run["session"] for run in runs}


def assert_billed_once(runs: list[dict[str, Any]]) -> None:
    """Each settled run by the formula over its billed time, which ends where its end was asked for, and settled once."""
    for run in runs:
        assert len(run["intervals"]) <= 1, run
        assert run["settlements"] <= 1, run
        if not run["settled"]:
            continue
        billed = sum(microseconds(start, end) for start, end in run["intervals"])
        numerator, denominator = run["occupancy"]
        assert run["charged"] == run["rate"] * numerator * billed // (denominator * HOUR_US), run
        if run["intervals"] and run["end_asked_at"]:
            assert microseconds(run["intervals"][-1][1], run["end_asked_at"]) >= 0, run
