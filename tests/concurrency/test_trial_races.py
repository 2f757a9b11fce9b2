"""Trial balances beside traffic: what commits late, however early its id, is in the next one, and nothing is in none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from billing import ledger, trial
from billing import services as billing
from billing.models import MINT_ID, Checkpoint, TransferKind
from gshare_core.kit import locks
from tests.apps.billing.stage import T0, ended, opened, running
from tests.builders import a_customer, a_group, cr, fund_group
from tests.concurrency.rivals import Held, Waiting, together
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def credit(wallet: Any, key: str, amount: int = 1) -> None:
    """A correction of a wallet, as one transfer."""
    movement = ledger.Movement(TransferKind.ADJUST, MINT_ID, wallet, cr(amount), key, T0)
    with locks.ordered():
        ledger.transfer(movement)


def test_a_transfer_with_an_earlier_id_that_commits_later_is_in_the_next_check() -> None:
    early, late = a_customer(10), a_customer(10)
    assert trial.check().agrees

    def posting(pause: Callable[[], None]) -> None:
        with transaction.atomic():
            credit(early.wallet, "early")
            pause()

    held = Held(posting)  # its id and its time are made, its commit is not
    credit(late.wallet, "late")
    between = trial.check()
    held.release()
    after = trial.check()
    assert (between.differences, between.read) == (0, 1)
    assert (after.differences, after.read) == (0, 1)
    assert after.transfers == between.transfers + 1 == trial.totals().transfers
    assert trial.check(full=True).agrees


def test_a_charge_that_commits_while_a_check_looks_is_in_the_next_one_with_its_hold_and_its_meter() -> None:
    alice = a_customer(100)
    run = running(alice)
    assert trial.check().agrees

    def ending(pause: Callable[[], None]) -> None:
        with transaction.atomic():
            ended(run, at=30)
            pause()

    held = Held(ending)
    assert (trial.check().differences, trial.check().read) == (0, 0)
    held.release()
    after = trial.check()
    assert (after.differences, after.read) == (0, 1)


def test_two_checks_at_once_take_turns_and_the_second_goes_on_from_the_first() -> None:
    alice = a_customer(100)
    trial.check()
    ended(running(alice), at=30)

    def checking(pause: Callable[[], None]) -> Any:
        with transaction.atomic():
            row = trial.check()
            pause()
            return row

    held = Held(checking)
    second = Waiting(trial.check)
    until(second.is_blocked)
    first, then = held.release(), second.result()
    assert (first.read, then.read) == (1, 0)
    assert (then.number, first.differences, then.differences) == (first.number + 1, 0, 0)


def test_checks_beside_eight_that_move_credits_never_find_a_difference_and_know_every_transfer() -> None:
    group = a_group()
    wallet = fund_group(group, 1000)
    people = [a_customer(400, group=group) for _number in range(6)]
    trial.check()
    done = threading.Event()

    def life(number: int) -> None:
        alice = people[number]
        for turn in range(6):
            ended(running(alice, at=100 * turn), at=100 * turn + 30)
            billing.allocate(source=wallet, to=alice.wallet, amount=cr(2), by=None)
            opened(alice, at=100 * turn + 40)
            billing.reclaim(source=alice.wallet, to=wallet, amount=cr(1), by=None)

    def lives(mine: tuple[int, ...]) -> None:
        try:
            for number in mine:
                life(number)
        finally:
            done.set()

    def look() -> list[int]:
        found = []
        while not done.is_set() or len(found) < 3:
            found.append(trial.check().differences)
        return found

    results = together(*(partial(lives, (number,)) for number in range(6)), look, look)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    assert set(results[-1] + results[-2]) == {0}, Checkpoint.objects.exclude(differences=0).first().found  # type: ignore[union-attr]
    last = trial.check()
    assert last.agrees
    assert last.transfers == trial.totals().transfers
    assert sum(Checkpoint.objects.values_list("read", flat=True)) > 0
    assert trial.check(full=True).agrees
