"""What a gathering promises: who comes while others are at work is worked on with all who wait; nobody pays for another's fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from gshare_core.errors import DomainError
from gshare_core.kit.bulkhead import Bulkhead
from gshare_core.kit.gathering import Gathering
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
LONG = timedelta(seconds=60)


class Work:
    """Doubles numbers; waits in every group that has a gate."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gates: dict[int, threading.Event] = {}

    def gate(self, number: int) -> threading.Event:
        """The group with this number stands still until the gate is set."""
        return self.gates.setdefault(number, threading.Event())

    def __call__(self, numbers: Sequence[int]) -> list[int | None]:
        self.groups.append(list(numbers))
        for number in numbers:
            if number in self.gates:
                assert self.gates[number].wait(60)
        if any(number < 0 for number in numbers):
            raise LookupError("a fault")
        return [None if number == 0 else 2 * number for number in numbers]


def gathering(
    work: Work,
    *,
    limit: int = 2,
    patience: timedelta = LONG,
    beside: timedelta = LONG,
    linger: timedelta = timedelta(0),
) -> Gathering[int, int]:
    """Groups of up to four."""
    room = Bulkhead("test", limit=limit, patience=patience)
    return Gathering(work, bulkhead=room, most=4, beside=beside, linger=linger)


def all_wait(
    work: Work, pool: ThreadPoolExecutor, group: Gathering[int, int], *numbers: int
) -> list[Future[int | None]]:
    """Everybody asks in this order, while the group of 1 is at work."""
    asked = []
    for number in numbers:
        asked.append(pool.submit(group.ask, number))
        until(lambda: len(group._line) == len(asked), what="it waits")
    return asked


def test_who_asks_alone_is_worked_on_at_once_by_himself() -> None:
    work = Work()
    assert gathering(work).ask(3) == 6
    assert work.groups == [[3]]


def test_who_comes_meanwhile_is_worked_on_together_in_the_order_of_coming_and_no_more_than_fit() -> None:
    work = Work()
    group, gate = gathering(work), work.gate(1)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        others = all_wait(work, pool, group, 2, 3, 4, 5, 6)
        gate.set()
        assert [asked.result(60) for asked in (first, *others)] == [2, 4, 6, 8, 10, 12]
    assert work.groups == [[1], [2, 3, 4, 5], [6]]


def test_who_was_worked_on_a_moment_ago_may_come_again_with_those_who_came_meanwhile() -> None:
    work = Work()
    group, gate = gathering(work, linger=LONG), work.gate(1)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        others = all_wait(work, pool, group, 2, 3)
        gate.set()
        assert first.result(60) == 2
        time.sleep(0.05)
        assert work.groups == [[1]]  # the next waits for who was answered
        assert group.ask(4) == 8
        assert [asked.result(60) for asked in others] == [4, 6]
    assert work.groups == [[1], [2, 3, 4]]


def test_who_comes_alone_after_several_waits_no_longer_than_the_moment_and_the_next_alone_not_at_all() -> None:
    work = Work()
    group, gate = gathering(work, linger=timedelta(milliseconds=300)), work.gate(1)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        others = all_wait(work, pool, group, 2, 3, 4, 5)
        gate.set()
        assert [asked.result(60) for asked in (first, *others)] == [2, 4, 6, 8, 10]
    started = time.monotonic()
    assert group.ask(6) == 12
    waited = time.monotonic() - started
    assert waited >= 0.3
    started = time.monotonic()
    assert group.ask(7) == 14
    assert time.monotonic() - started < waited


def test_a_fault_and_a_missing_answer_are_told_as_none_and_the_next_group_works() -> None:
    work = Work()
    group, gate = gathering(work), work.gate(1)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        others = all_wait(work, pool, group, 2, -1, 0, 5, 0, 7)
        gate.set()
        assert [asked.result(60) for asked in others] == [None, None, None, None, None, 14]
        assert first.result(60) == 2
    assert group.ask(8) == 16


def test_a_group_that_is_held_up_holds_up_no_other() -> None:
    work = Work()
    group, gate = gathering(work, beside=timedelta(milliseconds=20)), work.gate(1)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        assert pool.submit(group.ask, 2).result(60) == 4
        assert not first.done()
        gate.set()
        assert first.result(60) == 2


def test_who_waits_longer_than_the_patience_is_refused_and_the_line_goes_on() -> None:
    work = Work()
    short = timedelta(milliseconds=50)
    group, gate = gathering(work, limit=1, patience=short, beside=timedelta(milliseconds=20)), work.gate(1)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        with pytest.raises(DomainError, match="Too many people") as refused:
            group.ask(2)
        assert refused.value.code == "unavailable"
        gate.set()
        assert first.result(60) == 2
    assert group.ask(3) == 6
    assert work.groups == [[1], [3]]


def test_who_is_made_to_lead_late_waits_no_second_patience_for_room() -> None:
    work, bulkhead = Work(), Bulkhead("a test", limit=1, patience=timedelta(seconds=60))
    group = Gathering(work, bulkhead=bulkhead, most=4, beside=timedelta(milliseconds=20))
    with bulkhead.entered(), pytest.raises(DomainError, match="Too many people"):
        group.ask(1, until=time.monotonic() + 0.05)
    assert group.ask(2) == 4


def test_who_waits_holds_no_connection() -> None:
    work = Work()
    group, gate = gathering(work), work.gate(1)
    seen: Future[object] = Future()

    def with_a_connection() -> int | None:
        connection.ensure_connection()
        mine = connection.connection
        seen.set_result(mine)
        try:
            return group.ask(2)
        finally:
            assert connection.connection is not mine, "it went back"
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(group.ask, 1)
        until(lambda: work.groups == [[1]], what="the first is at work")
        second = pool.submit(with_a_connection)
        until(lambda: len(group._line) == 1, what="it waits")
        gate.set()
        assert (first.result(60), second.result(60)) == (2, 4)
    assert seen.done()
