"""The bound on waiting finds who waits for ever, and nobody else; it is part of what the simulation checks."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from cluster import fleets
from cluster.models import Card
from gshare_core.ids import uuid7
from tests.simulation.stage import staged
from tests.simulation.waits import Entry, Waits, longest_at_the_head
from tests.simulation.world import MONDAY, BrokenInvariantError

HOUR = timedelta(hours=1)


def _line(*sessions: UUID, for_room: bool = True) -> list[Entry]:
    return [Entry(session, "lane", "A100", for_room) for session in sessions]


def test_who_heads_a_lane_for_longer_than_the_bound_is_found() -> None:
    waits, head = Waits(bound=4 * HOUR), uuid7()

    assert waits.look(_line(head), (), MONDAY) == []
    assert waits.look(_line(head), (), MONDAY + 4 * HOUR) == []
    assert f"({head})" in waits.look(_line(head), (), MONDAY + 5 * HOUR)[0]


def test_who_is_passed_again_and_again_is_found_though_the_head_is_another_each_time() -> None:
    waits, passed, found = Waits(bound=4 * HOUR), uuid7(), []

    for hour in range(12):
        found += waits.look(_line(uuid7(), passed), (), MONDAY + hour * HOUR)

    assert len(found) == 3  # at 9, 10 and 11 hours: one was before it, so that it may wait for twice the bound
    assert all(f"({passed})" in words for words in found)


def test_each_of_higher_priority_who_ever_stood_before_somebody_counts() -> None:
    waits, passed, found = Waits(bound=4 * HOUR), uuid7(), []

    for hour in range(0, 20, 2):  # ten of them, two hours each
        line = [Entry(uuid7(), "lane", "A100", True, priority=1), *_line(passed)]
        found += waits.look(line, (), MONDAY + hour * HOUR)
    assert found == []
    assert waits.look(_line(passed), (), MONDAY + 44 * HOUR) == []
    assert waits.look(_line(uuid7(), passed), (), MONDAY + 49 * HOUR) != []  # 11 before it: 48 hours


def test_trouble_with_the_metal_and_other_reasons_begin_the_clock_anew() -> None:
    waits, head = Waits(bound=4 * HOUR), uuid7()

    waits.look(_line(head), (), MONDAY)
    assert waits.look(_line(head), ["A100"], MONDAY + 5 * HOUR) == []
    assert waits.look(_line(head), ["H100"], MONDAY + 9 * HOUR) == []
    assert waits.look(_line(head, for_room=False), (), MONDAY + 10 * HOUR) == []
    assert waits.look(_line(head), (), MONDAY + 11 * HOUR) == []
    assert waits.look(_line(head), ["H100"], MONDAY + 16 * HOUR) != []


def test_the_bound_follows_from_the_longest_run() -> None:
    assert longest_at_the_head(12 * HOUR) - longest_at_the_head(2 * HOUR) == 10 * HOUR
    assert longest_at_the_head(12 * HOUR) < 16 * HOUR


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)
def test_the_simulation_finds_a_line_that_does_not_move() -> None:
    with staged(5, people=30, faults=0) as simulation:
        Card.objects.update(is_draining=True)
        fleets.forget()
        simulation.invariants.waits.bound = 4 * HOUR

        with pytest.raises(BrokenInvariantError, match="heads its lane since"):
            simulation.run(timedelta(days=1))
