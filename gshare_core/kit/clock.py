"""The one clock of money and deadlines: the database's, behind a port.

Services read it once per transaction, after their locks, so that what they write is not older than what they waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from django.db import connection

from gshare_core.clock import Clock


class DatabaseClock:
    """Reads PostgreSQL's `clock_timestamp()`: one clock for all processes, and not frozen at the transaction's start."""

    def now(self) -> datetime:
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            row = cursor.fetchone()
        at: datetime = row[0]
        return at.astimezone(UTC)


class Standing:
    """A clock that is read once, when it is first asked, and stands still from then on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: datetime | None = None

    def now(self) -> datetime:
        if self._at is None:
            self._at = self._clock.now()
        return self._at


_clock: ContextVar[Clock] = ContextVar("gshare_clock", default=DatabaseClock())  # noqa: B039 -- stateless


def now() -> datetime:
    """The present by the clock in force, aware, UTC."""
    return _clock.get().now()


@contextmanager
def using(clock: Clock) -> Iterator[Clock]:
    """Put `clock` in force for this context; for simulations and tests."""
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


@contextmanager
def standing() -> Iterator[None]:
    """Let the clock in force be read once at most: for what only reads and shows one instant. Never around a service."""
    with using(Standing(_clock.get())):
        yield
