"""The journal, the timelines and the trail of `bench pages`, by statements over whole sets: a million rows in a minute.

Guarantees: every transfer is numbered in both of its wallets without a gap and says what they had afterwards, as the
ledger's door would have; the schema's checks and the tripwire judge the rows as they judge everybody's. What meters say
was charged is what was posted for them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from accounts import audit
from accounts.domain.chain import GENESIS, seal_hash
from accounts.models import AuditEntry, AuditSeal
from billing.models import MINT_ID, REVENUE_ID, SYSTEM_ID
from gshare_site.benches.page_sessions import STRETCH
from gshare_site.benches.page_town import BATCH, many

MONTHS = 12
SHARE = 10**12  # what everybody is given each month
NOTICES = 20

# A UUIDv7 of a moment, as the models' own.
_IDS = """
    CREATE FUNCTION pg_temp.id_at(timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
        SELECT (lpad(to_hex((extract(epoch FROM $1) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
            || 'a' || substr(md5(random()::text), 1, 15))::uuid
    $$
"""

_GIVEN = """
    CREATE TEMP TABLE move ON COMMIT DROP AS
    WITH place AS (
        SELECT u.id AS account, g.id AS above, o.id AS top FROM billing_account u
        JOIN accounts_membership m ON m.user_id = u.user_id AND m.group_id IS NOT NULL
        JOIN accounts_group t ON t.id = m.group_id
        JOIN billing_account g ON g.group_id = t.id
        JOIN billing_account o ON o.organisation_id = t.organisation_id
    ), month AS (SELECT m, date_trunc('hour', now()) - interval '410 days' + m * interval '30 days' AS at
        FROM generate_series(0, %(months)s - 1) m
    ), given AS (
        SELECT 1 AS step, 'issue' AS kind, %(mint)s::uuid AS debit, %(system)s::uuid AS credit, count(*) AS shares FROM place
        UNION ALL SELECT 2, 'allocate', %(system)s::uuid, top, count(*) FROM place GROUP BY top
        UNION ALL SELECT 3, 'allocate', top, above, count(*) FROM place GROUP BY top, above
        UNION ALL SELECT 4, 'allocate', above, account, 1 FROM place
    )
    SELECT row_number() OVER (ORDER BY m, step) AS n, at, kind, debit, credit, (shares * %(share)s)::bigint AS amount,
        'fill/' || m || '/' || debit || '/' || credit AS key, NULL::uuid AS reference, '' AS label, NULL::uuid AS meter,
        NULL::timestamptz AS billed_from, NULL::timestamptz AS billed_to, pg_temp.id_at(at) AS id
    FROM given CROSS JOIN month
"""
_CHARGED = """
    INSERT INTO move
    SELECT 10000000 + row_number() OVER (), at, 'charge', wallet_id, %(revenue)s::uuid, amount,
        'charge/' || run_id || '/' || to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || '+00:00',
        reference, label, run_id, since, at, pg_temp.id_at(at)
    FROM (
        SELECT wallet_id, run_id, reference, label, opened_at + n * %(stretch)s AS since, opened_at + (n + 1) * %(stretch)s AS at,
            (rate_micro_per_hour * occupancy_numerator / occupancy_denominator / 2)::bigint AS amount
        FROM billing_meter CROSS JOIN LATERAL generate_series(0, charged / (rate_micro_per_hour * occupancy_numerator
            / occupancy_denominator / 2) - 1) n
        WHERE charged > 0 ORDER BY since
    ) stretch
"""
_SIDES = """
    CREATE TEMP TABLE side ON COMMIT DROP AS
    SELECT n, account, row_number() OVER wallet AS number, (sum(amount) OVER wallet)::bigint AS balance FROM (
        SELECT n, at, credit AS account, amount FROM move UNION ALL SELECT n, at, debit, -amount FROM move
    ) one WHERE account NOT IN (%(mint)s, %(revenue)s) WINDOW wallet AS (PARTITION BY account ORDER BY at, n)
"""
_TRANSFERS = """
    INSERT INTO billing_transfer (id, at, kind, debit_id, credit_id, amount, debit_number, debit_balance, credit_number,
        credit_balance, reference, label, note, key)
    SELECT move.id, at, kind, debit, credit, amount, d.number, d.balance, c.number, c.balance, reference, label, '', key
    FROM move LEFT JOIN side d ON d.n = move.n AND d.account = debit LEFT JOIN side c ON c.n = move.n AND c.account = credit
    ORDER BY at, move.n
"""
_POSTINGS = """
    INSERT INTO billing_posting (transfer_id, meter_id, billed_from, billed_to)
    SELECT id, meter, billed_from, billed_to FROM move WHERE meter IS NOT NULL ORDER BY billed_from
"""
_ALLOCATIONS = """
    INSERT INTO billing_allocation (id, wallet_id, parent_id, net)
    SELECT pg_temp.id_at(now()), credit, debit, sum(amount) FROM move WHERE kind = 'allocate' GROUP BY credit, debit
"""
_HELD = """
    UPDATE billing_account a SET held = m.held
    FROM (SELECT wallet_id, sum(held)::bigint AS held FROM billing_meter WHERE held > 0 GROUP BY wallet_id) m
    WHERE m.wallet_id = a.id
"""
_BALANCES = """
    UPDATE billing_account a SET balance = s.balance, entries = s.entries FROM (
        SELECT account, sum(amount)::bigint AS balance, count(*) AS entries FROM (
            SELECT credit_id AS account, amount FROM billing_transfer UNION ALL SELECT debit_id, -amount FROM billing_transfer
        ) side GROUP BY account
    ) s WHERE s.account = a.id AND a.balance IS NOT NULL
"""
_PERIODS = """
    INSERT INTO billing_budgetperiod (id, budget_id, starts_at, ends_at, spent)
    SELECT pg_temp.id_at(now()), b.id, m.at AT TIME ZONE b.time_zone,
        (m.at + interval '1 month') AT TIME ZONE b.time_zone, coalesce(s.spent, 0)
    FROM billing_budget b
    CROSS JOIN (SELECT date_trunc('month', now() AT TIME ZONE 'Asia/Seoul') - n * interval '1 month' AS at
        FROM generate_series(0, 2) n) m
    LEFT JOIN (
        SELECT scope, date_trunc('month', p.billed_from AT TIME ZONE 'Asia/Seoul') AS month, sum(t.amount)::bigint AS spent
        FROM billing_posting p JOIN billing_transfer t ON t.id = p.transfer_id JOIN billing_meter m ON m.run_id = p.meter_id
        CROSS JOIN LATERAL (VALUES (m.user_id), (m.group_id), (m.organisation_id)) v (scope) GROUP BY 1, 2
    ) s ON s.scope = coalesce(b.user_id, b.group_id, b.organisation_id) AND s.month = m.at
"""
_TOLD = """
    INSERT INTO sessions_app_timelineentry (id, session_id, run, at, event, from_state, to_state, actor, reason, detail, charged, held)
    WITH ran AS (
        SELECT s.id, s.owner_id, s.state, s.created_at, h.closed_at, h.hold_micro, h.charged, u.email
        FROM sessions_app_session s JOIN sessions_app_run h ON h.session_id = s.id JOIN accounts_user u ON u.id = s.owner_id
    ), told (id, at, event, before, after, actor, charged, held) AS (
        SELECT id, created_at, 'placed', '', 'starting', email, 0, hold_micro FROM ran
        UNION ALL SELECT id, created_at + interval '9 s', 'ready', 'starting', 'running', 'system', 0, 0 FROM ran
        UNION ALL SELECT id, closed_at - interval '3 s', 'stop', 'running', 'stopping', email, 0, 0 FROM ran
            WHERE closed_at IS NOT NULL
        UNION ALL SELECT id, closed_at, 'gone', 'stopping', state, 'system', charged, 0 FROM ran WHERE closed_at IS NOT NULL
        UNION ALL SELECT id, created_at + n * interval '1 minute', 'priority', '', '', email, 0, 0
            FROM ran, generate_series(1, 500) n WHERE state = 'running' AND owner_id = %(heavy)s
    )
    SELECT pg_temp.id_at(at), id, 1, at, event, before, after, actor, '', '', charged, held FROM told
"""
_TRAIL = """
    INSERT INTO accounts_auditentry (id, at, actor_id, actor_label, act, target_kind, target_id, target_label, organisation_id,
        organisation_label, group_id, group_label, before, after, reason, request_id)
    SELECT pg_temp.id_at(e.at), e.at, u.id, u.email, (ARRAY['session.stop', 'session.create', 'user.register', 'policy.set',
        'credits.allocate'])[1 + n %% 5], 'session', s.id::text, s.name, s.organisation_id, o.name, s.group_id, g.name,
        '{"state": "running"}', '{"state": "stopped"}', '', md5(n::text)
    FROM (SELECT n, now() - (%(audit)s - n) * interval '2 minutes' AS at FROM generate_series(1, %(audit)s) n) e
    JOIN (SELECT row_number() OVER (ORDER BY id) AS place, * FROM sessions_app_session) s ON s.place = 1 + n %% %(sessions)s
    JOIN accounts_user u ON u.id = s.owner_id JOIN accounts_group g ON g.id = s.group_id
    JOIN accounts_organisation o ON o.id = s.organisation_id
    ORDER BY n
"""
_NOTICES = """
    INSERT INTO accounts_notification (id, user_id, kind, title, body, link, at, read_at)
    SELECT pg_temp.id_at(e.at), e.id, 'session', 'Paused', 'idle', '', e.at, CASE WHEN n > 3 THEN e.at END
    FROM (SELECT u.id, n, now() - n * interval '3 days' AS at FROM accounts_user u, generate_series(1, %(notices)s) n
        UNION ALL SELECT %(heavy)s, n, now() - n * interval '1 hour' FROM generate_series(1, 2000) n) e
"""


def write_journal(*, heavy: UUID, analyse: Callable[[], None]) -> None:
    """Every allocation and charge, then balances, holds and what budgets count; statistics between, for the tripwire's looks."""
    values: dict[str, Any] = {
        "mint": MINT_ID,
        "revenue": REVENUE_ID,
        "system": SYSTEM_ID,
        "share": SHARE,
        "months": MONTHS,
        "notices": NOTICES,
        "stretch": STRETCH,
        "heavy": heavy,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_IDS)
        for statement in (
            _GIVEN,
            _CHARGED,
            "ANALYZE move",
            _SIDES,
            "ANALYZE side",
            _TRANSFERS,
            _POSTINGS,
            _ALLOCATIONS,
        ):
            cursor.execute(statement, values)
    analyse()
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in (_BALANCES, _HELD, _PERIODS, _TOLD, _NOTICES):
            cursor.execute(statement, values)


def write_trail(entries: int, *, sessions: int) -> None:
    """Entries of the audit trail over the last months, sealed. Behind the journal, whose function it uses."""
    with connection.cursor() as cursor:
        cursor.execute(_TRAIL, {"audit": entries, "sessions": sessions})
    before, seals = GENESIS, []
    for seq, entry in enumerate(AuditEntry.objects.order_by("pk").iterator(BATCH), 1):
        before = seal_hash(seq, before, {name: getattr(entry, name) for name in audit.SEALED_FIELDS})
        seals.append(AuditSeal(seq=seq, entry=entry, hash=before, sealed_at=entry.at))
        if len(seals) == BATCH:
            many(seals)
            seals.clear()
    if seals:
        many(seals)


assert timedelta(minutes=30) == STRETCH, "amounts above are of half an hour"
