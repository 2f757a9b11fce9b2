"""What was used and charged in a stretch of time, by whom, where, on what, or when.

Guarantees: sums of charges, so every way of grouping comes to the same total, and that total is the ledger's; each charge is
counted once, in the stretch that its `billed_from` lies in (never multiplied by a join); exact arithmetic, shown with six
decimals. What ran and was not billed counts where its run was settled.
Refuses: what is not one of `BY`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

_UTC = ZoneInfo("UTC")
By = Literal["session", "user", "group", "organisation", "day"]

_KEYS: dict[By, tuple[str, str]] = {
    "session": ("meter.reference::text", "max(meter.label)"),
    "user": ("meter.user_id::text", "(SELECT email FROM accounts_user WHERE id = key::uuid)"),
    "group": ("meter.group_id::text", "(SELECT name FROM accounts_group WHERE id = key::uuid)"),
    "organisation": ("meter.organisation_id::text", "(SELECT name FROM accounts_organisation WHERE id = key::uuid)"),
    "day": ("(used.at AT TIME ZONE %(zone)s)::date::text", "key"),
}
_USED = """
    SELECT {key} AS key, max(meter.label) AS label, sum(used.amount) AS amount, sum(used.us) AS us,
           sum(used.us * meter.occupancy_numerator::numeric / meter.occupancy_denominator) AS card_us,
           count(DISTINCT meter.run_id) FILTER (WHERE used.us > 0) AS runs,
           count(DISTINCT meter.reference) FILTER (WHERE used.us > 0) AS sessions, sum(used.lost) AS lost
    FROM (
        SELECT posting.meter_id, posting.billed_from AS at, transfer.amount::numeric AS amount,
               (extract(epoch FROM posting.billed_to - posting.billed_from) * 1000000)::numeric AS us, 0::numeric AS lost
        FROM billing_posting posting JOIN billing_transfer transfer ON transfer.id = posting.transfer_id
        WHERE posting.billed_from >= %(start)s AND posting.billed_from < %(end)s
        UNION ALL
        SELECT run_id, settled_at, 0, 0, not_billed::numeric FROM billing_meter
        WHERE not_billed > 0 AND settled_at >= %(start)s AND settled_at < %(end)s
    ) used JOIN billing_meter meter ON meter.run_id = used.meter_id
    WHERE {scope}
    GROUP BY 1
"""
_SCOPES = {
    "all": "TRUE",
    "user": "meter.user_id = %(whose)s",
    "group": "meter.group_id = %(whose)s",
    "organisation": "meter.organisation_id = %(whose)s",
}


@dataclass(frozen=True, slots=True)
class ReportAsked:
    """What a report is about: [start, end), whose (`user`, `group`, `organisation` with an id, or `all`), days of a zone."""

    start: datetime
    end: datetime
    scope: Literal["all", "user", "group", "organisation"]
    whose: UUID | None = None
    zone: ZoneInfo = _UTC


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One line of a report. `card_us`: microseconds of whole cards, as an exact number."""

    key: str
    name: str
    amount: int
    running_us: int
    card_us: Decimal
    runs: int
    sessions: int
    not_billed: int


def usage(by: By, asked: ReportAsked) -> list[UsageRow]:
    """The report's lines: days in their order, others the dearest first. One statement."""
    key, name = _KEYS[by]
    inner = _USED.format(key=key, scope=_SCOPES[asked.scope])
    label = "label" if by == "session" else name
    order = "key" if by == "day" else "amount DESC, key"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT key, {label}, amount, us, card_us, runs, sessions, lost FROM ({inner}) line ORDER BY {order}",  # noqa: S608 -- our own words
            {"start": asked.start, "end": asked.end, "whose": asked.whose, "zone": asked.zone.key},
        )
        return [
            UsageRow(key, name or "", int(amount), int(us), card_us, runs, sessions, int(lost))
            for key, name, amount, us, card_us, runs, sessions, lost in cursor.fetchall()
        ]


def usage_total(rows: Sequence[UsageRow]) -> UsageRow:
    """All lines in one. Runs and sessions are those of the lines, so one that lies in two lines counts in both."""
    return UsageRow(
        key="",
        name="",
        amount=sum(row.amount for row in rows),
        running_us=sum(row.running_us for row in rows),
        card_us=sum((row.card_us for row in rows), Decimal(0)),
        runs=sum(row.runs for row in rows),
        sessions=sum(row.sessions for row in rows),
        not_billed=sum(row.not_billed for row in rows),
    )
