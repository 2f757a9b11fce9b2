"""The door of the ledger: the only code that writes transfers and balances.

Guarantees: every change of a balance is one transfer between two accounts, so the sum of all accounts is always zero; a
key moves credits once; no wallet is overdrawn and no hold is spent by another's transfer; each wallet's transfers are
numbered without a gap and carry what it had afterwards. A transaction that goes round this door fails at its commit
(the tripwire of the schema).
Refuses: amounts that are not above zero, transfers from an account to itself, writing without the accounts' locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from billing.models import MINT_ID, REVENUE_ID, WALLET_KINDS, Entry, Transfer, TransferKind
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import locks
from gshare_core.kit.rows import prepared, write

UNSTORED = frozenset({MINT_ID, REVENUE_ID})  # accounts without a stored balance: never locked, never numbered


class Overdrawn(Exception):
    """A wallet has not what should be taken or held: the caller had to look before. The transaction must not commit."""


@dataclass(frozen=True, slots=True)
class Movement:
    """Credits to move. `key` is unique for ever; `from_held` is the part of `amount` that the debit wallet's hold pays."""

    kind: TransferKind
    debit: UUID
    credit: UUID
    amount: int
    key: str
    at: datetime
    from_held: int = 0
    reference: UUID | None = None
    label: str = ""
    note: str = ""
    actor_id: UUID | None = None

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise ValueError("a transfer moves more than nothing")
        if self.debit == self.credit:
            raise ValueError("a transfer needs two accounts")
        if not 0 <= self.from_held <= self.amount:
            raise ValueError("a hold pays at most the amount")


@dataclass(slots=True)
class Purse:
    """A locked wallet as this transaction sees it, its own changes included once they are written."""

    id: UUID
    balance: int
    held: int
    entries: int

    @property
    def available(self) -> int:
        """What is neither spent nor held."""
        return self.balance - self.held


_PURSES_OF = """
    SELECT user_id, id, coalesce(balance, 0), held, entries FROM billing_account
    WHERE user_id = ANY((SELECT %s)::uuid[]) ORDER BY id FOR NO KEY UPDATE
"""

_PURSES = f"""
    SELECT id, coalesce(balance, 0), held, entries FROM billing_account
    WHERE id = ANY(%s) AND kind IN ({", ".join(f"'{kind}'" for kind in WALLET_KINDS)})
    ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608 -- no outside text


# The charges of many meters in one statement, for a statement that has made the rows `charge` (id, wallet_id, amount,
# filling, place, reference, label, key) of locked wallets: `filling` is what the hold grows by before the charge is
# taken from it, `place` their order. As `post` would write them.
CHARGE = f"""
transfer AS (
    INSERT INTO billing_transfer (id, at, kind, debit_id, credit_id, amount, debit_number, debit_balance, reference, label,
        note, key)
    SELECT charge.id, %(at)s, '{TransferKind.CHARGE.value}', wallet.id, '{REVENUE_ID}', amount,
        wallet.entries + row_number() OVER turn, wallet.balance - (sum(amount) OVER turn)::bigint, reference, label, '', key
    FROM charge JOIN billing_account wallet ON wallet.id = charge.wallet_id WHERE amount <> 0
    WINDOW turn AS (PARTITION BY wallet.id ORDER BY place)
), wallet AS (
    UPDATE billing_account AS wallet SET balance = wallet.balance - moved.amount,
        held = wallet.held + moved.filling - moved.amount, entries = wallet.entries + moved.number
    FROM (SELECT wallet_id, sum(amount)::bigint AS amount, sum(filling)::bigint AS filling,
        count(*) FILTER (WHERE amount <> 0) AS number FROM charge GROUP BY wallet_id) AS moved
    WHERE wallet.id = moved.wallet_id
)"""  # noqa: S608 -- no outside text


def charge_key(run_id: UUID, start: datetime) -> str:
    """The key of the charge of what a run ran from `start` (UTC) on: a stretch is charged once."""
    return f"charge/{run_id}/{start.isoformat()}"


def charge_key_sql(run_id: str, start: str) -> str:
    """The same in SQL, of two columns."""
    there = f"{start} AT TIME ZONE 'UTC'"
    fraction = f"CASE WHEN date_trunc('second', {there}) = {there} THEN '' ELSE to_char({there}, '.US') END"
    return f"'charge/' || {run_id} || '/' || to_char({there}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || {fraction} || '+00:00'"


def lock_purses(ids: Iterable[UUID]) -> dict[UUID, Purse]:
    """Lock wallets in the order of their ids and read them; ids of mint and revenue are left out."""
    wanted = set(ids) - UNSTORED
    if not wanted:
        return {}
    with prepared() as cursor:
        cursor.execute(_PURSES, [list(wanted)])
        purses = [Purse(*row) for row in cursor.fetchall()]
    for purse in purses:
        locks.note(locks.Rank.WALLET, purse.id)
    return {purse.id: purse for purse in purses}


def lock_purses_of(user_ids: Iterable[UUID]) -> dict[UUID, Purse]:
    """Lock people's wallets in the order of their ids and read them, by person; who has none yet is not in the answer."""
    with prepared() as cursor:
        cursor.execute(_PURSES_OF, [list(user_ids)])
        purses = {row[0]: Purse(*row[1:]) for row in cursor.fetchall()}
    for purse in purses.values():
        locks.note(locks.Rank.WALLET, purse.id)
    return purses


def transfer(movement: Movement) -> Transfer:
    """Move credits once: the same key with the same content answers the transfer that exists and moves nothing.

    Locks both wallets. Raises DomainError `idempotency_mismatch` when the key moved something else, `Overdrawn` when
    the debit wallet has not enough free.
    """
    purses = lock_purses((movement.debit, movement.credit))
    known = Transfer.objects.filter(key=movement.key).first()
    if known is not None:
        _check_same(known, movement)
        return known
    (key,) = post([movement], purses)
    return Transfer.objects.get(pk=key)


def post(
    movements: Sequence[Movement], purses: Mapping[UUID, Purse], holds: Mapping[UUID, int] | None = None
) -> list[UUID]:
    """Write transfers in order, and the changes of holds by wallet; answers the transfers' ids.

    `purses` are the locked wallets that take part; they are brought up to date. `holds` is what each wallet's `held`
    changes by beside what the movements' `from_held` uses up. Raises `Overdrawn`; a key that exists is a broken
    invariant and fails with IntegrityError.
    """
    before = {key: purse.entries for key, purse in purses.items()}
    rows = [_row(movement, purses) for movement in movements]
    for key, change in (holds or {}).items():
        purses[key].held += change
    touched = [purses[key] for key in sorted({*_wallets_of(movements), *(holds or {})})]
    for purse in touched:
        if not 0 <= purse.held <= purse.balance:
            raise Overdrawn(f"wallet {purse.id} would have {purse.balance} with {purse.held} held")
    if rows:
        _insert(rows)
    _update(touched, before)
    return [row.id for row in rows]


def entries_of(account_id: UUID) -> QuerySet[Entry]:
    """The transfers of one wallet with its own `entry_number`, `balance_after` and signed `change`, unordered."""
    return Entry.objects.filter(wallet=account_id, entry_number__isnull=False)


@dataclass(frozen=True, slots=True)
class _Row:
    """A transfer as it is written."""

    id: UUID
    movement: Movement
    debit_number: int | None
    debit_balance: int | None
    credit_number: int | None
    credit_balance: int | None


def _row(movement: Movement, purses: Mapping[UUID, Purse]) -> _Row:
    debit = None if movement.debit in UNSTORED else purses[movement.debit]
    credit = None if movement.credit in UNSTORED else purses[movement.credit]
    if debit is not None:
        debit.balance -= movement.amount
        debit.held -= movement.from_held
        debit.entries += 1
    if credit is not None:
        credit.balance += movement.amount
        credit.entries += 1
    return _Row(
        uuid7(),
        movement,
        debit.entries if debit else None,
        debit.balance if debit else None,
        credit.entries if credit else None,
        credit.balance if credit else None,
    )


def _wallets_of(movements: Iterable[Movement]) -> set[UUID]:
    return {key for movement in movements for key in (movement.debit, movement.credit)} - UNSTORED


def _check_same(known: Transfer, movement: Movement) -> None:
    before = (known.kind, known.debit_id, known.credit_id, known.amount, known.reference)
    now = (movement.kind.value, movement.debit, movement.credit, movement.amount, movement.reference)
    if before != now:
        raise DomainError("idempotency_mismatch", "This key has already moved other credits.")


def _insert(rows: Sequence[_Row]) -> None:
    columns: list[list[object]] = [
        [row.id for row in rows],
        [row.movement.at for row in rows],
        [row.movement.kind.value for row in rows],
        [row.movement.debit for row in rows],
        [row.movement.credit for row in rows],
        [row.movement.amount for row in rows],
        [row.debit_number for row in rows],
        [row.debit_balance for row in rows],
        [row.credit_number for row in rows],
        [row.credit_balance for row in rows],
        [row.movement.reference for row in rows],
        [row.movement.label for row in rows],
        [row.movement.note for row in rows],
        [row.movement.actor_id for row in rows],
        [row.movement.key for row in rows],
    ]
    write(
        "INSERT INTO billing_transfer (id, at, kind, debit_id, credit_id, amount, debit_number, debit_balance,"
        " credit_number, credit_balance, reference, label, note, actor_id, key)"
        " SELECT * FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[], %s::uuid[], %s::uuid[], %s::bigint[],"
        " %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::uuid[],"
        " %s::text[])",
        columns,
    )


def _update(purses: Sequence[Purse], before: Mapping[UUID, int]) -> None:
    """Write the wallets. The lock keeps them still; that `entries` is what was read proves that the lock was taken."""
    if not purses:
        return

    def check(count: int) -> None:
        if count != len(purses):
            raise RuntimeError("a wallet changed under its lock: it was written round the door")

    write(
        "UPDATE billing_account AS account SET balance = new.balance, held = new.held, entries = new.entries"
        " FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])"
        " AS new (id, balance, held, entries, before)"
        " WHERE account.id = new.id AND account.entries = new.before",
        [
            [purse.id for purse in purses],
            [purse.balance for purse in purses],
            [purse.held for purse in purses],
            [purse.entries for purse in purses],
            [before[purse.id] for purse in purses],
        ],
        check,
    )
