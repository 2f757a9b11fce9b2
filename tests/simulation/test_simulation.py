"""Days of a whole GShare in seconds: the production code on simulated time, with faults, invariants after every batch.

The suite runs three short worlds; a month of 300 people on 64 cards is `make simulate` (another one: `SEED=7`), and part of
`make soak`, once.
A failure prints the one command that repeats it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from gshare_core.errors import DomainError
from gshare_site.settings.test import GIVEN
from sessions_app.domain.lifecycle import Event
from sessions_app.models import Session, TimelineEntry
from tests.cleaning import Cleaner
from tests.services import Addresses, with_database
from tests.simulation.load import Reading
from tests.simulation.stage import FEW_CARDS, Simulation, staged
from tests.simulation.world import BrokenInvariantError

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(3600)]

_ROUNDS = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0"))
_CHOSEN = GIVEN.get("GSHARE_TEST_SIMULATION_SEED", "")
SEEDS = [int(seed) for seed in _CHOSEN.split(",")] if _CHOSEN else [1] if _ROUNDS else [1, 2, 3]
DAYS = float(GIVEN.get("GSHARE_TEST_SIMULATION_DAYS", "30" if _ROUNDS else "0.5"))
PEOPLE = int(GIVEN.get("GSHARE_TEST_SIMULATION_PEOPLE", "300" if _ROUNDS else "40"))
# A short run begins in the morning of a working day; its faults strike more often, so that it meets them at all.
FAULTS = 1.0 if DAYS >= 7 else 4.0


@contextmanager
def quick_collector() -> Iterator[None]:
    """What is loaded already stays; looking through it again and again is a tenth of the time."""
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@pytest.mark.parametrize("seed", SEEDS)
def test_days_with_faults_break_no_invariant(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = Reading.now()
    with quick_collector(), staged(seed, people=PEOPLE, faults=FAULTS) as simulation:
        try:
            for _day in simulation.days(timedelta(days=DAYS)):
                if DAYS >= 7:
                    with capsys.disabled():
                        print(f"{simulation.world.now:%d %b}, {Reading.now().since(before)}", flush=True)
        except (AssertionError, DomainError, BrokenInvariantError) as error:
            again = f"make simulate SEED={seed} DAYS={DAYS:g} PEOPLE={PEOPLE}"
            raise BrokenInvariantError(f"seed {seed}, {simulation.world.now}: {error}\n\nAgain: {again}") from error
        taken = Reading.now().since(before)
        with capsys.disabled():
            print(f"\nseed {seed}: {DAYS:g} days of {PEOPLE} people in {taken}\n{_told(simulation)}")
        if DAYS >= 7:
            assert _not_met(simulation) == []


def test_a_day_on_few_cards_has_a_line_that_is_used_and_breaks_no_invariant() -> None:
    with quick_collector(), staged(4, people=200, faults=1.0, metal=FEW_CARDS) as simulation:
        simulation.run(timedelta(days=1))
        waited, asked = _in_line()
        assert asked >= 15
        assert waited >= 0.3 * asked, f"{waited} of {asked} waited"
        assert simulation.world.seen["placed from the line"] >= 3


def test_the_same_seed_tells_the_same_story(services: Addresses, database_name: str) -> None:
    cleaner = Cleaner(with_database(services.owner, database_name))
    try:
        first = _story(11)
        cleaner.clean()
    finally:
        cleaner.close()

    assert first != []
    assert _story(11) == first


def _story(seed: int) -> list[tuple[object, ...]]:
    """What happened to every session, in order, with its ids and times."""
    with staged(seed, people=40, faults=4.0) as simulation:
        simulation.run(timedelta(hours=2))
    rows = TimelineEntry.objects.order_by("at", "id")
    return list(rows.values_list("id", "session_id", "at", "event", "to_state", "charged"))


def _told(simulation: Simulation) -> str:
    world = simulation.world
    seen = ", ".join(f"{name} {number}" for name, number in sorted(world.seen.items()))
    refused = ", ".join(f"{name} {number}" for name, number in sorted(simulation.people.refused.items()))
    waited, asked = _in_line()
    line = f"of {asked} sessions on cards {waited} waited in line, {_woken()} resumed by themselves"
    return f"calls × statements: {world.costs()}\nseen: {seen}\nrefused: {refused}\n{line}"


def _in_line() -> tuple[int, int]:
    """How many sessions waited in line because they asked (a start that failed apart), of how many that asked for cards."""
    on_cards = Session.objects.exclude(mode="cpu")
    return on_cards.filter(timeline__event=Event.ENQUEUED).distinct().count(), on_cards.count()


def _woken() -> int:
    return Session.objects.exclude(woken_at=None).count()


def _not_met(simulation: Simulation) -> list[str]:
    """What a long run has to have met, or it proves less than it says."""
    met = {*simulation.world.seen, *(refusal.split(": ")[1] for refusal in simulation.people.refused)}
    wanted = [
        "processes killed",
        "hints lost",
        "answers lost",
        "reports doubled",
        "reports stale",
        "created and queued",
        "placed from the line",
        "preempted",
        "created 8 cards",
        "created cpu",
        "classes",
        "forgotten",
        "insufficient_credit",
        "quota_exceeded",
        "not_found",
        *(f"fault: {kind}" for kind in ("cluster_cut", "machine_silent", "machine_removed", "deaf", "workers_away")),
        *(f"fate: {kind}" for kind in ("pull_fails", "start_hangs", "wrong_card", "crash_loop", "unkillable", "exits")),
    ]
    waited, asked = _in_line()
    few = [f"waits: {waited} of {asked}"] if waited < 0.15 * asked else []
    return [*few, *(name for name in wanted if name not in met), *([] if _woken() else ["resumes by themselves"])]
