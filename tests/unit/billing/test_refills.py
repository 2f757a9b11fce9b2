"""The refills of the next month, seen from before: the arithmetic of the tick, without moving anything."""

from __future__ import annotations

from uuid import UUID

from billing.domain.refills import Ahead, Promise, ahead
from gshare_core.ids import uuid7

SYSTEM, ORGANISATION, GROUP, OTHER, ALICE = (uuid7() for _number in range(5))


def promise(wallet: UUID, parent: UUID, amount: int, level: int) -> Promise:
    return Promise(wallet, parent, amount, level)


def test_what_comes_from_above_is_there_when_the_places_below_are_raised() -> None:
    promises = [
        promise(ALICE, GROUP, 40, 2),
        promise(GROUP, ORGANISATION, 60, 1),
        promise(ORGANISATION, SYSTEM, 100, 0),
    ]
    purses = {SYSTEM: (1_000, 0), ORGANISATION: (30, 0), GROUP: (10, 0), ALICE: (15, 5)}
    assert ahead(promises, purses) == {
        SYSTEM: Ahead(children=1, needs=70, has=1_000),
        ORGANISATION: Ahead(children=1, needs=50, has=100),
        GROUP: Ahead(children=1, needs=25, has=60),
    }


def test_what_a_parent_lacks_is_missing_below_it_too() -> None:
    promises = [
        promise(ORGANISATION, SYSTEM, 100, 0),
        promise(GROUP, ORGANISATION, 60, 1),
        promise(OTHER, ORGANISATION, 40, 1),
    ]
    purses = {SYSTEM: (75, 5), ORGANISATION: (0, 0), GROUP: (0, 0), OTHER: (0, 0)}
    found = ahead(promises, purses)
    assert (found[SYSTEM].needs, found[SYSTEM].has, found[SYSTEM].short) == (100, 70, 30)
    assert (found[ORGANISATION].needs, found[ORGANISATION].has, found[ORGANISATION].short) == (100, 70, 30)


def test_who_has_enough_takes_nothing_and_several_parents_share_what_is_lacking() -> None:
    promises = [promise(ALICE, GROUP, 30, 2), promise(ALICE, OTHER, 10, 2)]
    rich = {GROUP: (100, 0), OTHER: (100, 0), ALICE: (40, 0)}
    assert {row.needs for row in ahead(promises, rich).values()} == {0}
    poor = rich | {ALICE: (20, 0)}
    found = ahead(promises, poor)
    assert (found[GROUP].needs, found[OTHER].needs) == (15, 5)
