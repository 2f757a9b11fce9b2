"""A bulkhead: of one kind of request only so many are worked on at a time in a process; the others wait in front of it.

(The pattern of M. Nygard, "Release It!"; names as in resilience4j.) Every request has a thread, and the thread a connection
of the pool until the response is closed. Requests that wait for each other inside the database
would so keep every connection, and whoever else needs one (a page, a stop, a health check) would fail with them.

Guarantees: who waits holds no connection; the line is first come, first served; who waits for longer than the patience
is refused with `unavailable` and when to come again, and has changed nothing.
Refuses: nothing while there is room or the line moves.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog
from django.db import connection
from django.utils.translation import gettext as _

from gshare_core.errors import DomainError

RETRY_SECONDS = 30

logger = structlog.get_logger(__name__)


class Bulkhead:
    """At most `limit` threads are inside at a time; the others wait for up to `patience`."""

    def __init__(self, name: str, *, limit: int, patience: timedelta) -> None:
        if limit < 1:
            raise ValueError("a bulkhead that lets nobody in")
        self.limit, self.patience = limit, patience
        self._name = name
        self._lock = threading.Lock()
        self._room = limit
        self._line: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    def deadline(self) -> float:
        """Until when somebody waits who comes now, on the monotonic clock: for who waits at several places in turn."""
        return time.monotonic() + self.patience.total_seconds()

    @contextmanager
    def entered(self, *, until: float | None = None) -> Iterator[None]:
        """Inside once there is room. Call it outside of transactions: inside one the connection cannot be given back.

        Raises DomainError `unavailable` when there was none for the whole patience, or before `until`, a `deadline`.
        """
        if not self._takes_room():
            give_connection_back()
            self._wait(self.deadline() if until is None else until)
        try:
            yield
        finally:
            self._leave()

    def _takes_room(self) -> bool:
        with self._lock:
            if self._room == 0:
                return False
            self._room -= 1
            return True

    def _wait(self, until: float) -> None:
        turn = threading.Event()
        with self._lock:
            if self._room:  # somebody left since
                self._room -= 1
                return
            self._line.append(turn)
        turn.wait(max(0.0, until - time.monotonic()))
        with self._lock:
            # Decided under the lock: whoever leaves at this instant either has given his room to this one or gives it to
            # the next, never to one who has gone.
            if turn.is_set():
                return
            self._line.remove(turn)
            waiting = len(self._line)
        raise self.refusal(waiting)

    def refusal(self, waiting: int) -> DomainError:
        """What somebody is told who has waited for longer than the patience; the log hears of it too."""
        logger.warning("bulkhead_full", name=self._name, waiting=waiting)
        return DomainError(
            "unavailable",
            _("Too many people ask for this at the same time."),
            remedy=_("Nothing was started. Try again in half a minute."),
            facts={"retry_after_seconds": RETRY_SECONDS},
        )

    def _leave(self) -> None:
        """Room passes straight to who has waited longest: a newcomer finds none to take, so nobody is overtaken."""
        with self._lock:
            if self._line:
                self._line.popleft().set()
            else:
                self._room += 1


def give_connection_back() -> None:
    """The thread's connection back to the pool until it asks the next thing; not out of a transaction, which it would end."""
    if not connection.in_atomic_block:
        connection.close()
