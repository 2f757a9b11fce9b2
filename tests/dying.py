"""Work that is killed: `every_way_to_die` ends it before its first statement, then before its second, and so on, as `kill -9` would.

Whatever was committed stays, nothing else does, and the next try goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction


class KilledError(BaseException):
    """The process is gone: nobody handles it."""


@contextmanager
def killed_before(statement: int) -> Iterator[None]:
    """Die instead of sending this statement, counted from 0."""
    sent = iter(range(1_000_000))

    def send(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        if (
            not sql.startswith("RELEASE") and next(sent) == statement
        ):  # a release stands for the commit, which is one step
            raise KilledError
        return execute(sql, *args)

    with connection.execute_wrapper(send):
        yield


def every_way_to_die(work: Callable[[], Any], check: Callable[[], None]) -> int:
    """Do the work again and again, each time dying one statement later, until it lives; `check` after each death."""
    statement = 0
    while True:
        try:
            with killed_before(statement):
                work()
        except KilledError:
            check()
            statement += 1
        else:
            check()
            return statement


def every_death_then_again(work: Callable[[], Any], check: Callable[[], None], done: Callable[[], None]) -> int:
    """From the same start each time, die before each statement, `check`, do the work again to its end, and see that it is `done`.

    For work that commits in steps: whichever step it dies in, the repeat finishes the rest. Answers how many statements there are.
    """
    statement, died = 0, True
    while died:
        with transaction.atomic():
            try:
                with killed_before(statement):
                    work()
                died = False
            except KilledError:
                check()
                work()
                statement += 1
            done()
            transaction.set_rollback(True)
    return statement
