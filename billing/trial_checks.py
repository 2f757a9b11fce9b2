"""What a trial balance compares, in one statement: of everything, or of what came after the last check that agreed.

Guarantees: both ways look at the same figures by the same rules. What came after is told by each wallet's own numbers:
they are handed out under the wallet's lock, without a gap, and shown at its commit, so that a transfer that committed
late is read by the next check, however early its id or its time. A figure that was verified before is taken as it was
verified; one that was not (a new wallet, meter or period) is computed from all of its own rows.
Refuses: judging anew what was verified. Rows that somebody changed since, round the door and its triggers, are found by
the full check only.
"""

from __future__ import annotations

from billing.models import MINT_ID, REVENUE_ID

# Entries: (wallet_id, id, kind, number, balance, change, other_id), a transfer once for each wallet that it moved.
_ALL_ENTRIES = """
    SELECT credit_id AS wallet_id, id, kind, credit_number AS number, credit_balance AS balance, amount AS change,
           debit_id AS other_id FROM billing_transfer WHERE credit_number IS NOT NULL
    UNION ALL
    SELECT debit_id, id, kind, debit_number, debit_balance, -amount, credit_id
    FROM billing_transfer WHERE debit_number IS NOT NULL
"""
# Every wallet is asked, also one whose count of entries stands still: an entry beside the count is a difference.
_LATER_ENTRIES = """
    SELECT account.id AS wallet_id, entry.* FROM billing_account account
    LEFT JOIN seen_wallet seen ON seen.wallet_id = account.id
    CROSS JOIN LATERAL (
        SELECT id, kind, credit_number AS number, credit_balance AS balance, amount AS change, debit_id AS other_id
        FROM billing_transfer WHERE credit_id = account.id AND credit_number > coalesce(seen.entries, 0)
        UNION ALL
        SELECT id, kind, debit_number, debit_balance, -amount, credit_id
        FROM billing_transfer WHERE debit_id = account.id AND debit_number > coalesce(seen.entries, 0)
    ) entry
    WHERE account.balance IS NOT NULL
"""
_ALL_METERS = "SELECT run_id FROM billing_meter"
_LATER_METERS = """
    SELECT run_id FROM billing_meter WHERE settled_at IS NULL
    UNION SELECT run_id FROM seen_meter
    UNION SELECT meter_id FROM charges
    UNION SELECT run_id FROM billing_meter WHERE run_id >= %(recent)s
"""
_ALL_OVERLAPS = """
    SELECT meter_id FROM (
        SELECT meter_id, billed_from, lag(billed_to) OVER (PARTITION BY meter_id ORDER BY billed_from) AS before
        FROM billing_posting
    ) posting WHERE billed_from < before
"""
# Of two neighbours one at least is new, else they were verified. No two of a meter start at the same instant.
_LATER_OVERLAPS = """
    SELECT DISTINCT charge.meter_id FROM charges charge
    LEFT JOIN LATERAL (SELECT billed_to FROM billing_posting WHERE meter_id = charge.meter_id
        AND billed_from < charge.billed_from ORDER BY billed_from DESC LIMIT 1) before ON TRUE
    LEFT JOIN LATERAL (SELECT billed_from FROM billing_posting WHERE meter_id = charge.meter_id
        AND billed_from > charge.billed_from ORDER BY billed_from LIMIT 1) after ON TRUE
    WHERE before.billed_to > charge.billed_from OR after.billed_from < charge.billed_to
"""
# What charges count in a period: (period_id, amount). Whose period is new to the check, all there are; else the later ones.
_OF_PERIOD = """
    JOIN billing_meter meter ON meter.run_id = charge.meter_id
    CROSS JOIN LATERAL (VALUES (meter.user_id), (meter.group_id), (meter.organisation_id)) AS scope (key)
    JOIN period ON period.key = scope.key
        AND charge.billed_from >= period.starts_at AND charge.billed_from < period.ends_at
"""
# The postings of entries. LATERAL with a limit: by the key, one by one, whatever the planner thinks of how many there are.
_ALL_POSTINGS = "LEFT JOIN billing_posting posting ON posting.transfer_id = entry.id"
_LATER_POSTINGS = """
    LEFT JOIN LATERAL (SELECT meter_id, billed_from, billed_to FROM billing_posting WHERE transfer_id = entry.id LIMIT 1)
        posting ON TRUE
"""
_CLOSED = """
    SELECT meter_id, sum((extract(epoch FROM ends_at - starts_at) * 1000000)::bigint) AS us
    FROM billing_meterinterval WHERE ends_at IS NOT NULL
"""
_ALL_CLOSED = f"LEFT JOIN ({_CLOSED} GROUP BY meter_id) closed ON closed.meter_id = meter.run_id"
_LATER_CLOSED = f"LEFT JOIN LATERAL ({_CLOSED} AND meter_id = meter.run_id GROUP BY meter_id) closed ON TRUE"
_NEW_PERIODS = f"""
    UNION ALL
    SELECT period.id, transfer.amount FROM billing_posting charge
    JOIN billing_transfer transfer ON transfer.id = charge.transfer_id {_OF_PERIOD}
    WHERE EXISTS (SELECT FROM period WHERE seen IS NULL) AND period.seen IS NULL AND charge.billed_from >= (SELECT min(starts_at) FROM period WHERE seen IS NULL)
"""  # noqa: S608 -- our own words
_NEW_METERS = """
    UNION ALL
    SELECT meter.run_id, transfer.amount FROM meters meter
    CROSS JOIN LATERAL (SELECT transfer_id FROM billing_posting WHERE meter_id = meter.run_id OFFSET 0) posting
    CROSS JOIN LATERAL (SELECT amount FROM billing_transfer WHERE id = posting.transfer_id LIMIT 1) transfer
    WHERE meter.seen IS NULL
"""

_GIVEN = """
    SELECT wallet_id, parent_id, sum(net) AS net FROM (
        SELECT wallet_id, parent_id, net FROM seen_allocation
        UNION ALL SELECT wallet_id, other_id, change FROM entries
        WHERE (kind IN ('allocate', 'grant') AND change > 0) OR (kind = 'reclaim' AND change < 0)
    ) side GROUP BY wallet_id, parent_id
"""

CHECKS = {
    "balance of wallet": """
        SELECT account.id::text, account.balance, coalesce(seen.balance, 0) + coalesce(moved.amount, 0)
        FROM billing_account account LEFT JOIN seen_wallet seen ON seen.wallet_id = account.id
        LEFT JOIN moved ON moved.wallet_id = account.id
        WHERE account.balance IS NOT NULL
            AND account.balance <> coalesce(seen.balance, 0) + coalesce(moved.amount, 0)
    """,
    "entries of wallet": """
        SELECT account.id::text, account.entries, coalesce(seen.entries, 0) + coalesce(moved.entries, 0)
        FROM billing_account account LEFT JOIN seen_wallet seen ON seen.wallet_id = account.id
        LEFT JOIN moved ON moved.wallet_id = account.id
        WHERE account.entries <> coalesce(seen.entries, 0) + coalesce(moved.entries, 0)
    """,
    "running balance of entry": """
        SELECT id::text, balance, computed FROM (
            SELECT entry.id, entry.balance, entry.number,
                   coalesce(seen.balance, 0) + sum(entry.change) OVER wallet AS computed,
                   coalesce(seen.entries, 0) + row_number() OVER wallet AS position
            FROM entries entry LEFT JOIN seen_wallet seen ON seen.wallet_id = entry.wallet_id
            WINDOW wallet AS (PARTITION BY entry.wallet_id ORDER BY entry.number)
        ) entry WHERE balance <> computed OR number <> position
    """,
    "held of wallet": """
        SELECT account.id::text, account.held, coalesce(open.held, 0)
        FROM billing_account account
        LEFT JOIN (SELECT wallet_id, sum(held) AS held FROM billing_meter WHERE settled_at IS NULL GROUP BY wallet_id)
            open ON open.wallet_id = account.id
        WHERE account.held <> coalesce(open.held, 0)
    """,
    "net allocated": f"""
        SELECT coalesce(kept.wallet_id, moved.wallet_id)::text || ' from ' || coalesce(kept.parent_id, moved.parent_id)::text,
               coalesce(kept.net, 0), coalesce(moved.net, 0)
        FROM billing_allocation kept FULL JOIN ({_GIVEN}) moved
            ON moved.wallet_id = kept.wallet_id AND moved.parent_id = kept.parent_id
        WHERE coalesce(kept.net, 0) <> coalesce(moved.net, 0)
    """,  # noqa: S608 -- our own words
    "charged by meter": """
        SELECT meter.run_id::text, meter.charged, coalesce(meter.seen, 0) + coalesce(posted.amount, 0)
        FROM meters meter LEFT JOIN posted ON posted.meter_id = meter.run_id
        WHERE meter.charged <> coalesce(meter.seen, 0) + coalesce(posted.amount, 0)
    """,
    "charges without a posting": """
        SELECT DISTINCT id::text, abs(change), 0 FROM with_posting WHERE (kind = 'charge') <> (meter_id IS NOT NULL)
    """,
    "closed microseconds of meter": """
        SELECT meter.run_id::text, meter.closed_us, coalesce(closed.us, 0)
        FROM meters meter {closed}
        WHERE meter.closed_us <> coalesce(closed.us, 0)
    """,
    "postings that overlap": "SELECT meter_id::text, 0, 1 FROM ({overlaps}) overlap",
    "held on budget": """
        SELECT budget.id::text, budget.held, coalesce(open.held, 0)
        FROM billing_budget budget
        LEFT JOIN (
            SELECT key, sum(meter.held) AS held FROM billing_meter meter, unnest(meter.counted_by) key
            WHERE meter.settled_at IS NULL AND meter.held > 0 GROUP BY key
        ) open ON open.key = budget.id
        WHERE budget.held <> coalesce(open.held, 0)
    """,
    "spent in period of budget": """
        SELECT period.id::text, period.spent, coalesce(period.seen, 0) + coalesce(counted.amount, 0)
        FROM period
        LEFT JOIN (SELECT id, sum(amount) AS amount FROM counted GROUP BY id) counted ON counted.id = period.id
        WHERE period.spent <> coalesce(period.seen, 0) + coalesce(counted.amount, 0)
    """,
}
TOTALS = "totals"
_TOTALS = f"""
    SELECT 'issued' AS figure, coalesce(sum(change) FILTER (WHERE other_id = '{MINT_ID}'), 0) AS amount FROM entries
    UNION ALL
    SELECT 'earned', -coalesce(sum(change) FILTER (WHERE other_id = '{REVENUE_ID}'), 0) FROM entries
    UNION ALL SELECT 'transfers', count(DISTINCT id) FROM entries
    UNION ALL SELECT 'entries', count(*) FROM entries
    UNION ALL SELECT 'in_wallets', coalesce(sum(balance), 0) FROM billing_account
    UNION ALL SELECT 'held', coalesce(sum(held), 0) FROM billing_account
"""  # noqa: S608 -- our own words


def statement(*, later: bool) -> str:
    """The whole comparison: rows of (what, row, stored, computed), and the figures as rows of (`TOTALS`, figure, amount, 0).

    `later`: what came after the last check that agreed; takes the parameter `recent`, an id that no meter opened since has below.
    The totals are of the entries that were read.
    """
    parts = {
        "seen": "TRUE" if later else "FALSE",
        "entries": _LATER_ENTRIES if later else _ALL_ENTRIES,
        "meters": _LATER_METERS if later else _ALL_METERS,
        "postings": _LATER_POSTINGS if later else _ALL_POSTINGS,
        "closed": _LATER_CLOSED if later else _ALL_CLOSED,
        "overlaps": _LATER_OVERLAPS if later else _ALL_OVERLAPS,
        "new_meters": _NEW_METERS if later else "",
        "old_meters": "WHERE meter_id IN (SELECT run_id FROM meters WHERE seen IS NOT NULL)" if later else "",
        "new_periods": _NEW_PERIODS if later else "",
        "old_periods": "WHERE period.seen IS NOT NULL" if later else "",
    }
    branches = [
        f"SELECT '{what}' AS what, * FROM ({check}) found (row, stored, computed)"  # noqa: S608 -- our own words
        for what, check in CHECKS.items()
    ]
    branches.append(f"SELECT '{TOTALS}', figure, amount, 0 FROM ({_TOTALS}) figure")  # noqa: S608 -- likewise
    return (_WITH + "\nUNION ALL\n".join(branches)).format(**parts, of_period=_OF_PERIOD)


_WITH = """
WITH seen_wallet AS MATERIALIZED (SELECT wallet_id, entries, balance FROM billing_verifiedwallet WHERE {seen}),
seen_allocation AS (SELECT wallet_id, parent_id, net FROM billing_verifiedallocation WHERE {seen}),
seen_meter AS MATERIALIZED (SELECT run_id, charged FROM billing_verifiedmeter WHERE {seen}),
entries AS MATERIALIZED ({entries}),
moved AS MATERIALIZED (SELECT wallet_id, sum(change) AS amount, count(*) AS entries FROM entries GROUP BY wallet_id),
with_posting AS MATERIALIZED (
    SELECT entry.id, entry.kind, entry.change, posting.meter_id, posting.billed_from, posting.billed_to
    FROM entries entry {postings}
),
charges AS MATERIALIZED (
    SELECT meter_id, billed_from, billed_to, -change AS amount
    FROM with_posting WHERE change < 0 AND meter_id IS NOT NULL
),
meters AS MATERIALIZED (
    SELECT meter.run_id, meter.charged, meter.closed_us, seen.charged AS seen
    FROM ({meters}) of JOIN billing_meter meter ON meter.run_id = of.run_id
    LEFT JOIN seen_meter seen ON seen.run_id = meter.run_id
),
posted AS MATERIALIZED (
    SELECT meter_id, sum(amount) AS amount FROM (
        SELECT meter_id, amount FROM charges {old_meters} {new_meters}
    ) posting GROUP BY meter_id
),
period AS MATERIALIZED (
    SELECT period.id, period.starts_at, period.ends_at, period.spent, seen.spent AS seen,
           coalesce(budget.user_id, budget.group_id, budget.organisation_id) AS key
    FROM billing_budgetperiod period JOIN billing_budget budget ON budget.id = period.budget_id AND budget.is_active
    LEFT JOIN billing_verifiedperiod seen ON seen.period_id = period.id AND {seen}
),
counted AS MATERIALIZED (
    SELECT period.id, charge.amount FROM charges charge {of_period} {old_periods} {new_periods}
)
"""

# What is verified from now on, of the same snapshot that was checked.
KEEP = (
    """
    INSERT INTO billing_verifiedwallet AS kept (wallet_id, entries, balance)
    SELECT id, entries, balance FROM billing_account WHERE balance IS NOT NULL
    ON CONFLICT (wallet_id) DO UPDATE SET entries = EXCLUDED.entries, balance = EXCLUDED.balance
    WHERE (kept.entries, kept.balance) <> (EXCLUDED.entries, EXCLUDED.balance)
    """,
    """
    INSERT INTO billing_verifiedallocation AS kept (id, wallet_id, parent_id, net)
    SELECT id, wallet_id, parent_id, net FROM billing_allocation
    ON CONFLICT (id) DO UPDATE SET net = EXCLUDED.net WHERE kept.net <> EXCLUDED.net
    """,
    """
    DELETE FROM billing_verifiedmeter kept WHERE NOT EXISTS (
        SELECT FROM billing_meter meter WHERE meter.run_id = kept.run_id AND meter.settled_at IS NULL)
    """,
    """
    INSERT INTO billing_verifiedmeter AS kept (run_id, charged)
    SELECT run_id, charged FROM billing_meter WHERE settled_at IS NULL AND charged > 0
    ON CONFLICT (run_id) DO UPDATE SET charged = EXCLUDED.charged WHERE kept.charged <> EXCLUDED.charged
    """,
    """
    DELETE FROM billing_verifiedperiod kept WHERE NOT EXISTS (
        SELECT FROM billing_budgetperiod period JOIN billing_budget budget ON budget.id = period.budget_id
        WHERE period.id = kept.period_id AND budget.is_active)
    """,
    """
    INSERT INTO billing_verifiedperiod AS kept (period_id, spent)
    SELECT period.id, period.spent FROM billing_budgetperiod period
    JOIN billing_budget budget ON budget.id = period.budget_id AND budget.is_active
    ON CONFLICT (period_id) DO UPDATE SET spent = EXCLUDED.spent WHERE kept.spent <> EXCLUDED.spent
    """,
)
# What was kept, against what is now known to be right: in a full check only, after it found the ledger itself in order.
KEPT_WRONGLY = """
    SELECT 'checkpoint of wallet', kept.wallet_id::text, kept.balance, coalesce(stood.balance, 0)
    FROM billing_verifiedwallet kept
    LEFT JOIN LATERAL (
        SELECT balance FROM (
            SELECT credit_balance AS balance FROM billing_transfer
            WHERE credit_id = kept.wallet_id AND credit_number = kept.entries
            UNION ALL
            SELECT debit_balance FROM billing_transfer WHERE debit_id = kept.wallet_id AND debit_number = kept.entries
        ) entry LIMIT 1
    ) stood ON TRUE
    WHERE kept.balance <> coalesce(stood.balance, 0)
"""
