"""Whose turn a piece of periodic work is: a named row with an end, taken by compare-and-set.

Guarantees: of any number of processes one gets the lease, by the database's clock; a holder that died blocks it only
until its end. A lease is no lock: work that outlasts it is still guarded batch by batch, and `renew` says whether the
turn is still one's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from accounts.models import Lease
from gshare_core.ids import uuid7
from gshare_core.kit import clock

_TAKE = """
INSERT INTO accounts_lease AS lease (name, holder, until) VALUES (%(name)s, %(holder)s, %(until)s)
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until
WHERE lease.until <= %(now)s
RETURNING 1
"""

_GIVE_BACK = "UPDATE accounts_lease SET until = %(now)s WHERE name = %(name)s AND holder = %(holder)s"


@dataclass
class Turn:
    """A lease in one's hands."""

    name: str
    holder: UUID
    until: datetime

    def renew(self, *, seconds: float) -> bool:
        """Begin the span anew from now; False when the turn was lost to somebody else meanwhile."""
        until = clock.now() + timedelta(seconds=seconds)
        kept = Lease.objects.filter(name=self.name, holder=self.holder).update(until=until) == 1
        if kept:
            self.until = until
        return kept


def take(name: str, *, seconds: float) -> Turn | None:
    """The lease for so many seconds, or None while somebody else has it."""
    now = clock.now()
    turn = Turn(name, uuid7(), now + timedelta(seconds=seconds))
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, {"name": name, "holder": turn.holder, "until": turn.until, "now": now})
        return turn if cursor.fetchone() else None


def give_back(turn: Turn) -> None:
    """End one's turn; harmless when it is over already."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_BACK, {"name": turn.name, "holder": turn.holder, "now": clock.now()})


@contextmanager
def hold(name: str, *, seconds: float) -> Iterator[Turn | None]:
    """`with hold("tick:x", seconds=30) as turn: if turn: …`; the lease is given back at the end of the block."""
    turn = take(name, seconds=seconds)
    try:
        yield turn
    finally:
        if turn is not None:
            give_back(turn)
