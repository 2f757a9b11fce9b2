"""Locks in their order, so that no two transactions wait for each other.

`ordered()` opens the transaction; inside it every lock is taken through this module, which keeps a record of what the
transaction holds and raises `LockOrderError` when a lock would be taken out of the order of `Rank`, or, within a rank,
out of the order of keys. It refuses to lock outside such a transaction. The order is that of `docs/internals/locking.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from django.db import connection, models, transaction

from gshare_core.kit import rows

M = TypeVar("M", bound=models.Model)


class Rank(IntEnum):
    """What is locked, in the order in which it may be."""

    REQUESTER = 1
    MEMBERSHIP = 2
    IDEMPOTENCY = 3
    LANE = 4
    SESSION = 5
    METER = 6
    USAGE = 7
    BUDGET = 8
    PERIOD = 9
    WALLET = 10
    VOLUME = 11
    ATTACHMENT = 12
    NODE = 13
    CARD = 14
    CLUSTER_SEQUENCE = 15
    TIMELINE = 16
    AUDIT = 17


class LockOrderError(RuntimeError):
    """A lock was asked for against the order, or outside `ordered()`: a fault in the code, never the user's."""


@dataclass
class _Held:
    """What the open transaction holds: every (rank, key), and the highest so far."""

    keys: set[tuple[Rank, str]] = field(default_factory=set)
    highest: tuple[Rank, str] = (Rank.REQUESTER, "")


_held: ContextVar[_Held | None] = ContextVar("gshare_locks", default=None)


@contextmanager
def ordered() -> Iterator[None]:
    """A transaction that takes its locks in order. Joins the one that is open, without a savepoint of its own."""
    if _held.get() is not None:
        yield
        return
    token = _held.set(_Held())
    try:
        with transaction.atomic(), rows.together():
            yield
    finally:
        _held.reset(token)


@contextmanager
def attempt() -> Iterator[None]:
    """A savepoint inside `ordered()`: when it rolls back, PostgreSQL drops its locks and so does the record."""
    held = _current()
    keys, highest = set(held.keys), held.highest
    try:
        with transaction.atomic():
            yield
    except BaseException:
        held.keys, held.highest = keys, highest
        raise


def note(rank: Rank, key: object) -> None:
    """Record a lock that the next statement takes by itself (a conditional UPDATE, an INSERT on a unique key).

    Raises LockOrderError when it comes too late in the order.
    """
    held = _current()
    wanted = (rank, _key(key))
    if wanted in held.keys:
        return
    if wanted < held.highest:
        raise LockOrderError(f"{rank.name} {key} is asked for after {held.highest[0].name} {held.highest[1]}")
    held.keys.add(wanted)
    held.highest = wanted


def holds(rank: Rank, keys: Iterable[object]) -> bool:
    """Whether this transaction holds all of these locks already."""
    held = _current().keys
    return all((rank, _key(key)) in held for key in keys)


def _key(key: object) -> str:
    """Numbers are padded, so that the record sorts them as the database does."""
    return f"{key:020d}" if isinstance(key, int) else str(key)


def lock_rows(rank: Rank, rows: models.QuerySet[M]) -> list[M]:
    """Lock rows in the order of their ids, `FOR NO KEY UPDATE`, and read them as they are after the wait."""
    return _noted(rank, list(rows.order_by("pk").select_for_update(no_key=True, of=("self",))))


def lock_row(rank: Rank, rows: models.QuerySet[M]) -> M | None:
    """Lock the one row of `rows`, if there is one."""
    found = lock_rows(rank, rows)
    return found[0] if found else None


def lock_found(rank: Rank, found: Callable[..., list[M]], *arguments: object) -> list[M]:
    """Run a prepared statement that locks the rows it finds in the order of their ids, and record the locks."""
    _current()
    return _noted(rank, found(*arguments))


def share_rows(rank: Rank, rows: models.QuerySet[M]) -> list[M]:
    """Lock rows `FOR SHARE` in the order of their ids: others may read and share, nobody may change or delete them."""
    _current()
    sql, parameters = rows.order_by("pk").query.sql_with_params()
    table = connection.ops.quote_name(rows.model._meta.db_table)
    return _noted(rank, list(rows.model._default_manager.raw(f"{sql} FOR SHARE OF {table}", parameters)))


def lock_name(rank: Rank, name: str) -> None:
    """Lock a name until the transaction's end (an advisory lock; `hashtextextended` makes the 64-bit key)."""
    note(rank, name)
    with rows.prepared() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def _current() -> _Held:
    held = _held.get()
    if held is None:
        raise LockOrderError("locks are taken inside gshare_core.kit.locks.ordered() only")
    return held


def _noted(rank: Rank, rows: Iterable[Any]) -> list[Any]:
    found = list(rows)
    for row in found:
        note(rank, row.pk)
    return found
