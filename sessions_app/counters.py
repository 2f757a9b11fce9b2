"""How much of each limited field every scope uses.

Guarantees: a session moves the same fields of the same scopes when it begins to count and when it stops counting; rows
are locked in the order of (scope, field) before any of them moves, running and waiting together, so that two admissions
never both pass on the last of anything.
Refuses: a counter below zero (the database's check).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Protocol
from uuid import UUID

from django.db import connection

from gshare_core.kit import locks
from gshare_core.kit.rows import prepared, write
from sessions_app.domain.lifecycle import TRAITS, State, counts_as_paused, counts_as_waiting

RUNNING_FIELDS = ("max_sessions", "cpu_milli", "memory_mib", "scratch_gib", "vram_mib", "core_percent", "cards")
WAITING_FIELD = "max_queued"
PAUSED_FIELD = "max_paused"
FIELDS = (*RUNNING_FIELDS, WAITING_FIELD, PAUSED_FIELD)
_MOVED = "unnest(%s::text[], %s::text[], %s::bigint[]) AS m (scope, field, amount)"

Used = Mapping[tuple[str, str], int]


class Demanding(Protocol):
    """What a shape and a session have in common."""

    @property
    def mode(self) -> str: ...
    @property
    def cards(self) -> int: ...
    @property
    def vram_mib(self) -> int: ...
    @property
    def core_percent(self) -> int: ...
    @property
    def cpu_milli(self) -> int: ...
    @property
    def memory_mib(self) -> int: ...
    @property
    def scratch_gib(self) -> int: ...


def demand(shape: Demanding) -> dict[str, int]:
    """What one running session of this shape adds to each field. Whole cards count with all their memory and cores."""
    return {
        "max_sessions": 1,
        "cpu_milli": shape.cpu_milli,
        "memory_mib": shape.memory_mib,
        "scratch_gib": shape.scratch_gib,
        "vram_mib": shape.vram_mib * shape.cards,
        "core_percent": shape.core_percent * shape.cards,
        "cards": shape.cards if shape.mode == "exclusive" else 0,
    }


def amounts(shape: Demanding, state: State, *, by_owner: bool) -> dict[str, int]:
    """What a session in this state adds to every field; `by_owner` when its owner asked for the pause."""
    running = demand(shape) if TRAITS[state].counts else {}
    waiting, paused = counts_as_waiting(state), counts_as_paused(state, by_owner=by_owner)
    return running | {WAITING_FIELD: int(waiting), PAUSED_FIELD: int(paused)}


def most(shape: Demanding) -> dict[str, int]:
    """What a new session adds at most, as long as it is open whether it runs or waits."""
    return demand(shape) | {WAITING_FIELD: 1}


def scopes_of(*, user: UUID, group: UUID, organisation: UUID) -> tuple[str, ...]:
    """The counters' scopes of a user's session in a group: his own, his within group and organisation, and theirs."""
    return (
        f"group:{group}",
        f"organisation:{organisation}",
        f"user:{user}",
        f"user:{user}@group:{group}",
        f"user:{user}@organisation:{organisation}",
    )


def prepare(scopes: tuple[str, ...]) -> None:
    """Make the rows that are not there yet; call it before the transaction that locks them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sessions_app_usage (scope, field, used)"
            " SELECT s, f, 0 FROM unnest(%s::text[]) s, unnest(%s::text[]) f"
            " WHERE NOT EXISTS (SELECT 1 FROM sessions_app_usage u WHERE u.scope = s AND u.field = f)"
            " ON CONFLICT DO NOTHING",
            [list(scopes), list(FIELDS)],
        )


def lock(scopes: tuple[str, ...]) -> Used:
    """Lock every counter of the scopes and read it as it is after the wait."""
    with prepared() as cursor:
        cursor.execute(
            "SELECT scope, field, used FROM sessions_app_usage WHERE scope = ANY(%s)"
            ' ORDER BY scope COLLATE "C", field COLLATE "C" FOR NO KEY UPDATE',
            [list(scopes)],
        )
        rows = cursor.fetchall()
    for scope, field, _ in rows:
        locks.note(locks.Rank.USAGE, f"{scope}/{field}")
    return {(scope, field): used for scope, field, used in rows}


def ensure_locked(scopes: tuple[str, ...]) -> None:
    """Lock the counters of the scopes unless this transaction holds them."""
    if not locks.holds(locks.Rank.USAGE, (f"{scope}/{field}" for scope in scopes for field in FIELDS)):
        lock(scopes)


def read(scopes: tuple[str, ...]) -> Used:
    """The counters without locks, for previews."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT scope, field, used FROM sessions_app_usage WHERE scope = ANY(%s)", [list(scopes)])
        return {(scope, field): used for scope, field, used in cursor.fetchall()}


def move(scopes: tuple[str, ...], amounts: Mapping[str, int], *, sign: int) -> None:
    """Add (`sign` 1) or take back (`sign` -1) `amounts` on every scope. The rows are locked already."""
    add([(scopes, {field: sign * amount for field, amount in amounts.items()})])


def add(moves: Iterable[tuple[tuple[str, ...], Mapping[str, int]]]) -> None:
    """Add amounts on scopes, those of several sessions in one statement. The rows are locked already.

    A row that is not there although it was made (the database was restored from before) is made now: nothing goes uncounted.
    """
    sums: dict[tuple[str, str], int] = {}
    for scopes, amounts in moves:
        for scope, (field, amount) in product(scopes, amounts.items()):
            sums[scope, field] = sums.get((scope, field), 0) + amount
    moved = {key: amount for key, amount in sums.items() if amount}
    if not moved:
        return
    columns = [[scope for scope, _field in moved], [field for _scope, field in moved], list(moved.values())]

    def make_missing(count: int) -> None:
        if count < len(moved):
            write(
                f"INSERT INTO sessions_app_usage (scope, field, used) SELECT m.scope, m.field, m.amount FROM {_MOVED}"  # noqa: S608 -- no outside text
                " WHERE NOT EXISTS (SELECT 1 FROM sessions_app_usage u WHERE u.scope = m.scope AND u.field = m.field)",
                columns,
            )

    write(
        f"UPDATE sessions_app_usage u SET used = u.used + m.amount FROM {_MOVED}"  # noqa: S608 -- no outside text
        " WHERE u.scope = m.scope AND u.field = m.field",
        columns,
        make_missing,
    )
