"""Threads with connections of their own that begin at the same instant."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection

PATIENCE = 60


def together(*calls: Callable[[], Any], patience: float = PATIENCE) -> list[Any]:
    """Run the calls at once, each on its own connection; answers their results, or the exceptions they raised.

    `patience`: seconds after which a call that has not ended fails the test.
    """
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            start.wait(PATIENCE)
            return call()
        except Exception as error:  # noqa: BLE001 -- the test judges what a rival ran into
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(patience) for future in [pool.submit(run, call) for call in calls]]


def times(number: int, call: Callable[[], Any]) -> Sequence[Callable[[], Any]]:
    """The same call, so many times."""
    return [call] * number


class Held:
    """A thread that runs `call` and then keeps its transaction open until it is released."""

    def __init__(self, body: Callable[[Callable[[], None]], Any]) -> None:
        self._reached = threading.Event()
        self._go_on = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(self._run, body)
        if not self._reached.wait(PATIENCE):
            raise AssertionError("the held transaction did not reach its pause")

    def _run(self, body: Callable[[Callable[[], None]], Any]) -> Any:
        try:
            return body(self._pause)
        finally:
            self._reached.set()
            connection.close()

    def _pause(self) -> None:
        self._reached.set()
        if not self._go_on.wait(PATIENCE):
            raise AssertionError("nobody released the held transaction")

    def release(self) -> Any:
        """Let it commit; answers what it returned."""
        self._go_on.set()
        result = self._future.result(PATIENCE)
        self._pool.shutdown()
        return result


class Waiting:
    """A call in a thread of its own, to see whether it waits for a lock."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self.pid: int | None = None
        self._known = threading.Event()
        self._future = self._pool.submit(self._run, call)
        self._known.wait(PATIENCE)

    def _run(self, call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            self.pid = connection.connection.info.backend_pid
            self._known.set()
            return call()
        except Exception as error:  # noqa: BLE001 -- the test judges it
            return error
        finally:
            self._known.set()
            connection.close()

    def is_blocked(self) -> bool:
        """Does its database session wait for somebody's lock right now?"""
        with connection.cursor() as cursor:
            cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [self.pid])
            row = cursor.fetchone()
        return bool(row and row[0])

    def result(self) -> Any:
        value = self._future.result(PATIENCE)
        self._pool.shutdown()
        return value
