"""Days of a whole GShare in seconds: the production code on simulated time, with faults, invariants after every batch.

A month of 300 people on 64 cards: `make simulate`, one seed again: `make simulate SEED=7` (or what a failure prints).
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from gshare_site.settings.test import GIVEN
from tests.simulation.load import Reading
from tests.simulation.stage import staged

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

_CHOSEN = GIVEN.get("GSHARE_TEST_SIMULATION_SEED", "")
SEEDS = [int(seed) for seed in _CHOSEN.split(",")] if _CHOSEN else [1]
DAYS = float(GIVEN.get("GSHARE_TEST_SIMULATION_DAYS", "0.5"))
PEOPLE = int(GIVEN.get("GSHARE_TEST_SIMULATION_PEOPLE", "30"))


@pytest.mark.parametrize("seed", SEEDS)
def test_days_with_faults_break_no_invariant(seed: int) -> None:
    before = Reading.now()
    with staged(seed, people=PEOPLE) as simulation:
        simulation.run(timedelta(days=DAYS))
    print(f"\nseed {seed}: {DAYS} days of {PEOPLE} people in {Reading.now().since(before)}")
    print(simulation.world.costs())
    print(sorted(simulation.world.seen.items()), simulation.people.refused)
