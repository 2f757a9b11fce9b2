"""kill -9 of web, internal listener, worker, beat, operator and PostgreSQL at random moments of the story.

Twenty seeded (or `GSHARE_TEST_SOAK_ROUNDS`) runs against the demo's own processes. After each: the books balance to the micro-credit, no card is
over-committed, the session went through its states within bounds and ended, each run was settled and billed once by the
formula, and somebody else's session is still the same processes.

One seed again:  GSHARE_TEST_CHAOS_SEED=7 python -m pytest tests/chaos -x -q
Other seeds:     GSHARE_TEST_CHAOS_SEED=100,101 …
"""

from __future__ import annotations

from typing import Any

import pytest

from gshare_site.settings.test import GIVEN
from tests.chaos.console import Console
from tests.chaos.examiner import examine
from tests.chaos.processes import VICTIMS, belongings, find
from tests.chaos.story import Bystander, Plan, microseconds, tell
from tests.e2e.conftest import Demo
from tests.waiting import until

HOUR_US = 3_600_000_000
_CHOSEN = GIVEN.get("GSHARE_TEST_CHAOS_SEED", "")
_ROUNDS = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0")) or 20
SEEDS = [int(seed) for seed in _CHOSEN.split(",")] if _CHOSEN else list(range(_ROUNDS))

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(scope="session")
def alice(demo: Demo) -> Console:
    """Has credits."""
    return Console.sign_in(demo, "alice")


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_nothing_is_lost_billed_twice_or_left_hanging(
    seed: int, demo: Demo, alice: Console, bystander: Bystander, image: str
) -> None:
    plan = Plan.of(seed)
    session_id = tell(alice, plan, image)
    until(lambda: not belongings(session_id), within=30, what="the session's processes to end")
    until(lambda: all(find(demo, name) for name in VICTIMS), within=60, what="every process to be back")
    seen = examine(demo, session_id)
    assert seen["disagreements"] == [], plan
    is_billed_once(alice, session_id, seen)
    assert bystander.console.see(bystander.session_id)["state"] == "running", plan
    assert belongings(bystander.session_id) == bystander.processes, plan


def is_billed_once(alice: Console, session_id: str, seen: dict[str, Any]) -> None:
    """Each run by the formula over its billed time, which ends where its end was asked for; the ledger says the same."""
    total = 0
    for run in seen["runs"]:
        billed = sum(microseconds(start, end) for start, end in run["intervals"])
        numerator, denominator = run["occupancy"]
        assert run["charged"] == run["rate"] * numerator * billed // (denominator * HOUR_US), run
        assert len(run["intervals"]) <= 1, run
        if run["intervals"] and run["end_asked_at"]:
            assert microseconds(run["intervals"][-1][1], run["end_asked_at"]) >= 0, run
        total += run["charged"]
    assert seen["paid"] == total
    charged = alice.see(session_id)["cost"]["charged"]
    assert charged == f"{total // 1_000_000}.{total % 1_000_000:06d}"
    assert all(run["settlements"] <= 1 for run in seen["runs"]), seen["runs"]
