"""What a bulkhead promises: so many inside, the others in the order of their coming and without a connection, or refused."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction

from gshare_core.errors import DomainError
from gshare_core.kit.bulkhead import Bulkhead
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
LONG = timedelta(seconds=60)
SHORT = timedelta(milliseconds=50)


class Guest(threading.Thread):
    """Somebody with a connection who wants in, notes that he was, and leaves."""

    def __init__(self, bulkhead: Bulkhead, number: int, came: list[int]) -> None:
        super().__init__()
        self._bulkhead, self._number, self._came = bulkhead, number, came
        self.wrapper = Future[Any]()
        self.start()

    def run(self) -> None:
        try:
            connection.ensure_connection()
            self.wrapper.set_result(connections[DEFAULT_DB_ALIAS])
            with self._bulkhead.entered():
                self._came.append(self._number)
        finally:
            connection.close()


def test_who_waits_holds_no_connection_and_everybody_comes_in_in_the_order_in_which_he_came() -> None:
    bulkhead, came = Bulkhead("test", limit=1, patience=LONG), list[int]()
    guests: list[Guest] = []
    with bulkhead.entered():
        for number in range(5):
            guests.append(Guest(bulkhead, number, came))
            until(lambda: bulkhead.waiting == len(guests), what="the guest waits")
        for guest in guests:
            assert guest.wrapper.result(10).connection is None, "it went back"
        assert came == []
    for guest in guests:
        guest.join(10)
    assert came == [0, 1, 2, 3, 4]
    assert bulkhead.waiting == 0


def test_nobody_is_inside_beside_more_than_the_limit_and_an_error_makes_room_too() -> None:
    bulkhead, inside, most = Bulkhead("test", limit=3, patience=LONG), 0, 0
    lock = threading.Lock()

    def visit() -> None:
        nonlocal inside, most
        with bulkhead.entered():
            with lock:
                inside += 1
                most = max(most, inside)
            connection.ensure_connection()
            with lock:
                inside -= 1
            connection.close()
            raise LookupError

    with ThreadPoolExecutor(20) as pool:
        visits = [pool.submit(visit) for _number in range(60)]
        assert {type(found.exception(60)) for found in visits} == {LookupError}
    assert most <= 3
    with ExitStack() as all_of_it:
        for _number in range(3):
            all_of_it.enter_context(bulkhead.entered())


def test_who_has_waited_for_the_patience_is_told_when_to_come_again_and_takes_nobodys_turn() -> None:
    bulkhead = Bulkhead("test", limit=1, patience=SHORT)
    with bulkhead.entered(), pytest.raises(DomainError) as refused, bulkhead.entered():
        pytest.fail("there was no room")
    assert refused.value.code == "unavailable"
    assert refused.value.facts["retry_after_seconds"] > 0
    assert refused.value.remedy is not None
    with bulkhead.entered():
        assert bulkhead.waiting == 0


def test_a_transaction_is_not_ended_by_waiting() -> None:
    bulkhead = Bulkhead("test", limit=1, patience=SHORT)
    with bulkhead.entered(), transaction.atomic():
        with pytest.raises(DomainError), bulkhead.entered():
            pytest.fail("there was no room")
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def test_a_bulkhead_that_lets_nobody_in_is_a_fault() -> None:
    with pytest.raises(ValueError, match="nobody"):
        Bulkhead("test", limit=0, patience=LONG)
