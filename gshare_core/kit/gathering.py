"""Gathering: who asks while others are at work waits, and is then worked on together with all who wait.

(The idea of a group commit: what costs once for a transaction is shared by those who came in the meantime, and the busier it
gets the more they share.) One thread of the process leads at a time, behind the bulkhead, and works for the others of its group;
who leads next is the first of those who came since.

Guarantees: first come, first served; who waits holds no connection; who asks alone is worked on at once. Where several were just
worked on, who leads next gives them a moment to come again (`linger`): clients that ask one thing after the other would else form
two halves that take turns, each paying for a transaction of its own (as a database's commit delay). When a group takes
longer than `beside`, the next begins beside it, so that one that is held up does not hold up the rest, as far as the
bulkhead has room. Who gets no answer from the group's work, or meets a fault in it, is told None and does it alone: nobody
hears of another's fault.
Refuses: as the bulkhead does, who has waited for longer than its patience before anybody took him along.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Generic, TypeVar

import structlog

from gshare_core.kit.bulkhead import Bulkhead, give_connection_back

W = TypeVar("W")
A = TypeVar("A")
logger = structlog.get_logger(__name__)


class _Turn(Generic[W, A]):
    """One who asks: woken to lead, or with what somebody who led has for him."""

    def __init__(self, wish: W) -> None:
        self.wish = wish
        self.woken = threading.Event()
        self.leads = False
        self.answer: A | None = None


class Gathering(Generic[W, A]):
    """See the module. `work` answers wishes in their order; `most` of them are in a group."""

    def __init__(
        self,
        work: Callable[[Sequence[W]], Sequence[A | None]],
        *,
        bulkhead: Bulkhead,
        most: int,
        beside: timedelta,
        linger: timedelta = timedelta(0),
    ) -> None:
        self._work, self._bulkhead, self._most = work, bulkhead, most
        self._beside = beside.total_seconds()
        self._linger = linger.total_seconds()
        self._lock = threading.Lock()
        self._line: list[_Turn[W, A]] = []
        self._leading = 0
        self._began = 0.0
        self._expected = 0  # who was just worked on, and who came meanwhile: as many as may come together
        self._more = threading.Condition(self._lock)

    def ask(self, wish: W, *, until: float | None = None) -> A | None:
        """The answer to a wish, worked on by this thread or by another; None: do it alone. `until` as for the bulkhead.

        Call it outside of transactions: inside one the connection cannot be given back. Raises DomainError `unavailable`.
        """
        turn, until = _Turn[W, A](wish), self._bulkhead.deadline() if until is None else until
        with self._lock:
            self._line.append(turn)
            self._more.notify()
            if not self._leading:
                self._begin()
        if not turn.leads:
            self._wait(turn, until)
        if turn.leads:
            self._lead(turn, until)
        return turn.answer

    def _begin(self) -> None:
        """Wake the first in line who does not lead already to lead. The lock is held."""
        first = next((turn for turn in self._line if not turn.leads), None)
        if first is not None:
            first.leads, self._began = True, time.monotonic()
            self._leading += 1
            first.woken.set()

    def _wait(self, turn: _Turn[W, A], until: float) -> None:
        give_connection_back()
        while not turn.woken.wait(self._beside):
            with self._lock:
                now = time.monotonic()
                if now >= until and turn in self._line and not turn.leads:
                    self._line.remove(turn)
                    raise self._bulkhead.refusal(len(self._line))
                if now - self._began >= self._beside and self._leading < self._bulkhead.limit:
                    self._begin()

    def _lead(self, turn: _Turn[W, A], until: float) -> None:
        group: list[_Turn[W, A]] = []
        try:
            with self._bulkhead.entered(until=until):
                group = self._take(turn)
                self._answer(group)
        finally:
            with self._lock:
                if turn in self._line:
                    self._line.remove(turn)
                self._leading -= 1
                self._expected = len(group) + len(self._line)
                if not self._leading:
                    self._begin()
            for other in group:
                other.woken.set()

    def _take(self, turn: _Turn[W, A]) -> list[_Turn[W, A]]:
        """The leader and those who wait, out of the line; who leads another group stays for his own."""
        with self._lock:
            if self._expected > 1:
                self._more.wait_for(lambda: len(self._line) >= min(self._most, self._expected), self._linger)
            waiting = [other for other in self._line if not other.leads]
            group = [turn, *waiting[: self._most - 1]]
            self._line = [other for other in self._line if other not in group]
        return group

    def _answer(self, group: Sequence[_Turn[W, A]]) -> None:
        try:
            answers = self._work([turn.wish for turn in group])
        except Exception:  # whatever it was, each meets his own alone, and is told of no other's
            logger.warning("group_failed", size=len(group), exc_info=True)
            return
        for turn, answer in zip(group, answers, strict=True):
            turn.answer = answer
