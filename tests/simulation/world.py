"""The event loop: simulated time, one queue of events, production code called at its edge, ticks by their one table.

Guarantees: nothing here waits for real time; every random choice comes from the seed, ids too, so that a seed is one
history; whatever changed rows is followed by the invariants before time goes on by more than `CHECK_EVERY`. Production
code runs as it is, on a real database with real commits; what is simulated is the clock, the broker and the clusters.
"""

from __future__ import annotations

import heapq
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any, TypeVar

import psycopg
from celery import Celery, current_app
from django.conf import settings
from django.db import connection
from django.test import override_settings

from cluster import fleets
from cluster.heartbeat import INTERNAL, stamp
from cluster.models import Heartbeat
from gshare_core import ids
from gshare_core.clock import ManualClock
from gshare_core.kit import clock
from sessions_app import requesters

T = TypeVar("T")

MONDAY = datetime(2026, 3, 2, 8, tzinfo=UTC)
CHECK_EVERY = timedelta(minutes=2)
_WRITES = re.compile(r"\bINSERT INTO\b|(?<!FOR )(?<!FOR NO KEY )\bUPDATE\b|\bDELETE FROM\b")


@lru_cache(maxsize=4096)
def changes_rows(sql: str) -> bool:
    """Whether a statement may change rows that others act on, also where it matches none. Leases guard turns, no more."""
    return "accounts_lease" not in sql and _WRITES.search(sql) is not None


def asked(sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """Rows of a question that the simulation asks again and again; PostgreSQL plans it once a connection."""
    connection.ensure_connection()
    connection.connection.prepare_threshold = 0  # Django's own cursors prepare nothing, whatever it is
    with psycopg.Cursor(connection.connection) as cursor:
        return list(cursor.execute(sql, parameters, prepare=True).fetchall())


class KilledError(BaseException):
    """The process that ran production code died (kill -9): no handler of its own may catch it."""


class BrokenInvariantError(AssertionError):
    """Something that must always hold did not."""


class Broker(Celery):
    """The broker as a fake at its port: what is sent by name is kept for the world to deliver, or to lose."""

    def __init__(self) -> None:
        super().__init__("simulated", set_as_current=False)
        self.sent: list[str] = []

    def send_task(self, name: str, *args: Any, **options: Any) -> None:
        """Keep the hint."""
        self.sent.append(name)


class Ears(logging.Handler):
    """Hears what production code swallowed: a sweep that failed for one session goes on, but not unnoticed here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep errors that come from an exception; others are alarms that faults are meant to raise."""
        told = record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}
        if str(told.get("event", "")).endswith("_failed") or record.exc_info:
            self.heard.append(str(told)[:3000])


def _forget() -> None:
    """What only the memory of a process knew."""
    fleets.forget()
    requesters.forget()


@dataclass
class World:
    """Time, events and chance. Parts (people, clusters, ticks, faults) put their events here and act through `serve`."""

    seed: int
    begins_at: datetime = MONDAY
    time: ManualClock = field(init=False)
    seen: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)  # of production code, by kind
    statements: Counter[str] = field(default_factory=Counter)  # that they took
    seconds: Counter[str] = field(default_factory=Counter)
    after_change: list[Callable[[], None]] = field(default_factory=list)
    check: Callable[[], None] = lambda: None
    deaf: bool = False  # the internal listener answers nobody
    gaps: list[tuple[str, datetime, datetime | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.time = ManualClock(self.begins_at)
        self.broker = Broker()
        self.ears = Ears()
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = count()
        self._dirty_since: datetime | None = None
        self._statements_left: int | None = None
        self.dies: Callable[[], int | None] = lambda: None

    # Time ------------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The simulated present."""
        return self.time.now()

    def random(self, what: str) -> Random:
        """A source of chance of its own for each part, so that one part's choices do not move another's."""
        return Random(f"{self.seed}:{what}")

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Do something at a moment; what lies in the past is done next."""
        heapq.heappush(self._events, (max(moment, self.now), next(self._numbers), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + timedelta(seconds=seconds), act)

    def run(self, until: datetime) -> None:
        """Let time pass. Invariants are looked at before it moves on by more than `CHECK_EVERY` after a change."""
        while self._events and self._events[0][0] <= until:
            moment, _number, act = heapq.heappop(self._events)
            if self._dirty_since is not None and moment - self._dirty_since > CHECK_EVERY:
                self._check()
            self._at_once = self._at_once + 1 if moment == self.now else 0
            if self._at_once > 10_000:
                raise BrokenInvariantError(f"time stands still at {moment}: {act}")
            self.time.set(moment)
            act()
            self._follow_up()
        self.time.set(until)
        self._check()

    def _check(self) -> None:
        self._dirty_since = None
        self.seen["checks"] += 1
        self.check()

    def _follow_up(self) -> None:
        if self.ears.heard:
            raise BrokenInvariantError("production code swallowed an error: " + "; ".join(self.ears.heard))
        if self._changed:
            self._changed = False
            self._dirty_since = self._dirty_since or self.now
            for follow in self.after_change:
                follow()

    def costs(self) -> str:
        """How often each kind of call was made, how many statements one took, and how much of our processor all took."""
        rows = sorted(self.statements.items(), key=lambda row: -row[1])
        return ", ".join(
            f"{name}: {self.calls[name]} × {total / max(1, self.calls[name]):.0f} ({self.seconds[name]:.1f} s)"
            for name, total in rows
        )

    _what = "the simulation itself"
    _changed = False
    _wrote = False  # whether the call under way wrote anything
    changes = 0  # calls of production code so far that others may have to follow up
    _at_once = 0

    # Production code -------------------------------------------------------------------------------------------------

    def serve(self, what: str, act: Callable[[], T]) -> T:
        """Run production code as a process would; now and then that process dies in the middle of it.

        Raises KilledError then: the transaction is rolled back, its connection and the fleet in its memory are gone.
        """
        self._wrote = False
        self._statements_left = self.dies()
        self.calls[what] += 1
        self._what = what
        began = time.process_time()
        try:
            return act()
        except KilledError:
            self.seen["processes killed"] += 1
            connection.close()
            _forget()
            raise
        finally:
            self.seconds[what] += time.process_time() - began
            if self._wrote or self.broker.sent:
                self._changed = True
                self.changes += 1
            self._statements_left = None
            self._what = "the simulation itself"

    def _mortal(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements[self._what] += 1
        self._wrote = self._wrote or changes_rows(sql)
        if self._statements_left is not None:
            self._statements_left -= 1
            if self._statements_left < 0:
                raise KilledError
        return execute(sql, params, many, context)

    # Listening -------------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """The internal listener has listened up to now, unless it is deaf. Shortcut: its stamps of every ten seconds in
        calm times are written when somebody is about to judge by them; nothing else reads them."""
        if not self.deaf:
            Heartbeat.objects.filter(name=INTERNAL).update(stamped_at=self.now)

    def be_deaf_for(self, span: timedelta) -> None:
        """Nobody answers clusters for a while."""
        if self.deaf:
            return
        self.listen()
        self.deaf = True
        self.open_gap("deaf")
        self.after(span.total_seconds(), self._hear_again)

    def _hear_again(self) -> None:
        self.deaf = False
        self._changed = True
        self.close_gap("deaf")
        stamp(self.now)

    def excuse(self) -> timedelta:
        """How much later than due a sweep may be now: it adds deaf time, and the workers may have been away."""
        since = self.now - timedelta(hours=6)
        late = timedelta(0)
        for kind, began, ended in self.gaps:
            until = ended or self.now
            if kind == "deaf" or until > self.now - timedelta(seconds=90):
                late += max(timedelta(0), until - max(began, since))
        return late

    def open_gap(self, kind: str) -> None:
        """From now on nobody listens (`deaf`), or nobody works (`away`)."""
        self.gaps.append((kind, self.now, None))

    def gap_open(self) -> bool:
        """Whether nobody listens or nobody works now."""
        return any(ended is None for _kind, _began, ended in self.gaps)

    def close_gap(self, kind: str) -> None:
        """They are back."""
        self.gaps = [
            (name, began, ended or self.now) if name == kind else (name, began, ended)
            for name, began, ended in self.gaps
        ]

    # Setting ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Simulated clock, ids and broker in force, pages nobody looks at left alone."""
        bits = self.random("ids")
        maker = ids.Maker(lambda: int(self.now.timestamp() * 1000), bits.getrandbits)
        before = current_app._get_current_object()
        with ExitStack() as stack:
            stack.enter_context(clock.using(self.time))
            stack.enter_context(ids.made_by(maker))
            # The fleet is read anew when the log of changes says so, not also when the wall's clock does: a seed is one history.
            # Who has no credits is not asked about every minute: each look is a whole preview.
            changed = {"fleet_reread_period": timedelta(days=10_000), "auto_resume_retry": timedelta(hours=1)}
            quiet = settings.GSHARE.model_copy(update=changed)
            stack.enter_context(override_settings(CHANNEL_LAYERS={}, GSHARE=quiet))
            logging.getLogger().addHandler(self.ears)
            stack.callback(logging.getLogger().removeHandler, self.ears)
            self.broker.set_current()
            stack.callback(before.set_current)
            _forget()
            stack.callback(_forget)
            stamp(self.now)
            with connection.execute_wrapper(self._mortal):
                yield
