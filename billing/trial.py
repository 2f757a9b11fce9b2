"""The trial balance: everything that is stored twice, computed again from the transfers and postings.

Guarantees: one consistent snapshot (repeatable read), nothing is written; agreement means to the micro-credit. Checked:
each wallet's balance and the running balance of each of its entries; net-allocated; what is held against the open
meters; each meter's total against its postings, its intervals and the formula; budgets' counters; that what was issued
is in wallets or was earned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from billing.domain.metering import cost_until
from billing.domain.pricing import charge_micro
from billing.models import MINT_ID, REVENUE_ID, Meter


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that does not agree: what it is, of which row, what is stored and what was computed."""

    what: str
    row: str
    stored: int
    computed: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The ledger in five figures, micro-credits."""

    issued: int
    earned: int
    in_wallets: int
    held: int
    transfers: int


_CHECKS = {
    "balance of wallet": """
        SELECT account.id::text, account.balance, coalesce(moved.amount, 0)
        FROM billing_account account
        LEFT JOIN (
            SELECT side.account_id, sum(side.amount) AS amount FROM (
                SELECT credit_id AS account_id, amount FROM billing_transfer
                UNION ALL SELECT debit_id, -amount FROM billing_transfer
            ) side GROUP BY side.account_id
        ) moved ON moved.account_id = account.id
        WHERE account.balance IS NOT NULL AND account.balance <> coalesce(moved.amount, 0)
    """,
    "entries of wallet": """
        SELECT account.id::text, account.entries, coalesce(counted.entries, 0)
        FROM billing_account account
        LEFT JOIN (
            SELECT side.account_id, count(*) AS entries FROM (
                SELECT credit_id AS account_id FROM billing_transfer WHERE credit_number IS NOT NULL
                UNION ALL SELECT debit_id FROM billing_transfer WHERE debit_number IS NOT NULL
            ) side GROUP BY side.account_id
        ) counted ON counted.account_id = account.id
        WHERE account.entries <> coalesce(counted.entries, 0)
    """,
    "running balance of entry": """
        SELECT id::text, balance, computed FROM (
            SELECT side.id, side.balance, side.number,
                   sum(side.amount) OVER wallet AS computed, row_number() OVER wallet AS position
            FROM (
                SELECT id, credit_id AS account_id, credit_number AS number, credit_balance AS balance, amount
                FROM billing_transfer WHERE credit_number IS NOT NULL
                UNION ALL
                SELECT id, debit_id, debit_number, debit_balance, -amount
                FROM billing_transfer WHERE debit_number IS NOT NULL
            ) side
            WINDOW wallet AS (PARTITION BY side.account_id ORDER BY side.number)
        ) entry WHERE balance <> computed OR number <> position
    """,
    "held of wallet": """
        SELECT account.id::text, account.held, coalesce(open.held, 0)
        FROM billing_account account
        LEFT JOIN (SELECT wallet_id, sum(held) AS held FROM billing_meter GROUP BY wallet_id) open
            ON open.wallet_id = account.id
        WHERE account.held <> coalesce(open.held, 0)
    """,
    "net allocated": """
        SELECT coalesce(kept.wallet_id, moved.wallet_id)::text || ' from ' || coalesce(kept.parent_id, moved.parent_id)::text,
               coalesce(kept.net, 0), coalesce(moved.net, 0)
        FROM billing_allocation kept
        FULL JOIN (
            SELECT side.wallet_id, side.parent_id, sum(side.amount) AS net FROM (
                SELECT credit_id AS wallet_id, debit_id AS parent_id, amount
                FROM billing_transfer WHERE kind IN ('allocate', 'grant')
                UNION ALL
                SELECT debit_id, credit_id, -amount FROM billing_transfer WHERE kind = 'reclaim'
            ) side GROUP BY side.wallet_id, side.parent_id
        ) moved ON moved.wallet_id = kept.wallet_id AND moved.parent_id = kept.parent_id
        WHERE coalesce(kept.net, 0) <> coalesce(moved.net, 0)
    """,
    "charged by meter": """
        SELECT meter.run_id::text, meter.charged, coalesce(posted.amount, 0)
        FROM billing_meter meter
        LEFT JOIN (
            SELECT posting.meter_id, sum(transfer.amount) AS amount
            FROM billing_posting posting JOIN billing_transfer transfer ON transfer.id = posting.transfer_id
            GROUP BY posting.meter_id
        ) posted ON posted.meter_id = meter.run_id
        WHERE meter.charged <> coalesce(posted.amount, 0)
    """,
    "charges without a posting": """
        SELECT transfer.id::text, transfer.amount, 0
        FROM billing_transfer transfer LEFT JOIN billing_posting posting ON posting.transfer_id = transfer.id
        WHERE (transfer.kind = 'charge') <> (posting.transfer_id IS NOT NULL)
    """,
    "closed microseconds of meter": """
        SELECT meter.run_id::text, meter.closed_us, coalesce(closed.us, 0)
        FROM billing_meter meter
        LEFT JOIN (
            SELECT meter_id, sum((extract(epoch FROM ends_at - starts_at) * 1000000)::bigint) AS us
            FROM billing_meterinterval WHERE ends_at IS NOT NULL GROUP BY meter_id
        ) closed ON closed.meter_id = meter.run_id
        WHERE meter.closed_us <> coalesce(closed.us, 0)
    """,
    "postings that overlap": """
        SELECT meter_id::text, 0, 1 FROM (
            SELECT meter_id, billed_from,
                   lag(billed_to) OVER (PARTITION BY meter_id ORDER BY billed_from) AS before
            FROM billing_posting
        ) posting WHERE billed_from < before
    """,
    "held on budget": """
        SELECT budget.id::text, budget.held, coalesce(open.held, 0)
        FROM billing_budget budget
        LEFT JOIN (
            SELECT key, sum(meter.held) AS held FROM billing_meter meter, unnest(meter.counted_by) key
            WHERE meter.held > 0 GROUP BY key
        ) open ON open.key = budget.id
        WHERE budget.held <> coalesce(open.held, 0)
    """,
    "spent in period of budget": """
        SELECT period.id::text, period.spent, coalesce(sum(charge.amount), 0)
        FROM billing_budgetperiod period
        JOIN billing_budget budget ON budget.id = period.budget_id AND budget.is_active
        LEFT JOIN (  -- by scope, so that each budget meets its own charges only
            SELECT scope.key, posting.billed_from, transfer.amount
            FROM billing_posting posting
            JOIN billing_transfer transfer ON transfer.id = posting.transfer_id
            JOIN billing_meter meter ON meter.run_id = posting.meter_id
            CROSS JOIN LATERAL (VALUES (meter.user_id), (meter.group_id), (meter.organisation_id)) AS scope (key)
        ) charge ON charge.key = coalesce(budget.user_id, budget.group_id, budget.organisation_id)
            AND charge.billed_from >= period.starts_at AND charge.billed_from < period.ends_at
        GROUP BY period.id, period.spent
        HAVING period.spent <> coalesce(sum(charge.amount), 0)
    """,
}


def differences() -> list[Difference]:
    """Everything that does not agree; empty when the books do."""
    with _snapshot():
        found = [
            Difference(what, row, stored, int(computed))
            for what, statement in _CHECKS.items()
            for row, stored, computed in _rows(statement)
        ]
        found += _formula()
        sums = _totals()
        if sums.issued != sums.earned + sums.in_wallets:
            found.append(Difference("issued", "ledger", sums.issued, sums.earned + sums.in_wallets))
        return found


def totals() -> Totals:
    """The ledger's figures in one snapshot."""
    with _snapshot():
        return _totals()


def _totals() -> Totals:
    ((issued, earned, transfers),) = _rows(
        "SELECT coalesce(sum(amount) FILTER (WHERE debit_id = %(mint)s), 0)"
        " - coalesce(sum(amount) FILTER (WHERE credit_id = %(mint)s), 0),"
        " coalesce(sum(amount) FILTER (WHERE credit_id = %(revenue)s), 0)"
        " - coalesce(sum(amount) FILTER (WHERE debit_id = %(revenue)s), 0),"
        " count(*) FROM billing_transfer",
        {"mint": MINT_ID, "revenue": REVENUE_ID},
    )
    ((in_wallets, held),) = _rows("SELECT coalesce(sum(balance), 0), coalesce(sum(held), 0) FROM billing_account")
    return Totals(int(issued), int(earned), int(in_wallets), int(held), transfers)


def _formula() -> Iterator[Difference]:
    """Each meter's total is the floor of rate, occupancy, factor and billed time, up to what it has charged to."""
    for meter in Meter.objects.filter(charged__gt=0).iterator(chunk_size=2_000):
        reading = meter.reading
        if reading.charged_until is None:
            computed = charge_micro(reading.price, reading.closed_us)
        else:
            computed = cost_until(reading, reading.charged_until)
        if computed != meter.charged:
            yield Difference("charge of meter by the formula", str(meter.run_id), meter.charged, computed)


def _rows(statement: str, parameters: dict[str, UUID] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()


@contextmanager
def _snapshot() -> Iterator[None]:
    """One consistent view. Inside an open transaction its own view has to do."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield
