"""A wallet's statement: its entries with the running balance, what it holds, what it spent on what and when.

Guarantees: sums equal the ledger, for they are sums of its transfers, and nothing is counted twice by a join; the running
balance of an entry is what the ledger wrote with it, whatever the filters leave out. A charge leads to its run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from accounts.permissions import reach
from billing import ledger
from billing.models import Account, Entry, Meter, Posting
from billing.models.ledger import owners_of

if TYPE_CHECKING:
    from accounts.models import User

_OWNERS = owners_of("debit", "credit")


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry of a wallet. `amount` is signed, `balance` what the wallet had afterwards.

    `name` is the session's for a charge (with `run` and the stretch it pays for), else the other side's owner.
    """

    id: UUID
    number: int
    at: datetime
    kind: str
    direction: Literal["in", "out"]
    name: str
    amount: int
    balance: int
    note: str
    reference: UUID | None
    run: int | None
    billed_from: datetime | None
    billed_to: datetime | None


def entries(wallet_id: UUID, *, viewer: User | None = None) -> QuerySet[Entry]:
    """A wallet's transfers with `entry_number`, `balance_after`, `change` and what `entry_row` needs; unordered.

    A `viewer` who does not own the wallet sees of a person's only what concerns the places that he administers.
    """
    rows = ledger.entries_of(wallet_id).select_related(*_OWNERS, "posting__meter")
    if viewer is None or viewer.is_super_admin:
        return rows
    owner_id = Account.objects.filter(pk=wallet_id).values_list("user_id", flat=True).first()
    if owner_id in {None, viewer.pk}:
        return rows
    mine = reach(viewer)
    return rows.filter(
        Q(posting__meter__group_id__in=mine.groups)
        | Q(posting__meter__organisation_id__in=mine.organisations)
        | Q(debit__group_id__in=mine.groups)
        | Q(credit__group_id__in=mine.groups)
    )


def entry_row(row: Entry, wallet_id: UUID) -> EntryRow:
    """The frozen form of a row of `entries`."""
    posting = posting_of(row)
    out = row.debit_id == wallet_id
    other = row.credit if out else row.debit
    return EntryRow(
        id=row.pk,
        number=row.entry_number,
        at=row.at,
        kind=row.kind,
        direction="out" if out else "in",
        name=row.label or other.owner_name,
        amount=row.change,
        balance=row.balance_after,
        note=row.note,
        reference=row.reference,
        run=posting.meter.number if posting else None,
        billed_from=posting.billed_from if posting else None,
        billed_to=posting.billed_to if posting else None,
    )


def posting_of(row: Entry) -> Posting | None:
    """The stretch that a charge pays for; None for every other transfer. Of a row of `entries`, which has read it."""
    return row.posting


STEPS = 400
"""So many steps a chart of a balance has room for; of more entries the last of each of as many stretches is told."""
_BALANCES = """
    WITH placed AS (
        SELECT at, entry_number, balance_after, count(*) OVER () AS entries,
            floor(extract(epoch FROM at - %(start)s) * %(steps)s / extract(epoch FROM %(end)s - %(start)s)) AS stretch
        FROM billing_entry WHERE wallet_id = %(wallet)s AND entry_number IS NOT NULL AND at >= %(start)s AND at < %(end)s
    ), step AS (SELECT *, lead(stretch) OVER (ORDER BY entry_number) AS following FROM placed)
    SELECT 0 AS place, 0 AS entry_number, %(start)s, balance_after FROM (
        SELECT balance_after FROM billing_entry WHERE wallet_id = %(wallet)s AND entry_number IS NOT NULL AND at < %(start)s
        ORDER BY entry_number DESC LIMIT 1
    ) before
    UNION ALL
    SELECT 1, entry_number, at, balance_after FROM step WHERE entries <= %(steps)s OR following IS DISTINCT FROM stretch
    ORDER BY place, entry_number
"""


def balance_series(wallet_id: UUID, *, start: datetime, end: datetime) -> list[tuple[datetime, int]]:
    """The balance at `start`, then after each entry in [start, end), in order; of more than `STEPS` entries not every one.

    The last step is the balance after the last entry whatever is left out. One statement.
    """
    given: dict[str, Any] = {"wallet": wallet_id, "start": start, "end": end, "steps": STEPS}
    with connection.cursor() as cursor:
        cursor.execute(_BALANCES, given)
        found = [(place, (at.astimezone(UTC), balance)) for place, _number, at, balance in cursor.fetchall()]
    steps = [step for _place, step in found]
    return steps if found and found[0][0] == 0 else [(start, 0), *steps]


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A hold: for which run of which session, how much is left of it, until when it reaches (None: not running yet)."""

    run_id: UUID
    reference: UUID
    label: str
    number: int
    amount: int
    hold_ends_at: datetime | None
    running: bool


def holds_of(wallet_id: UUID) -> list[HoldRow]:
    """What a wallet holds, oldest session first. One statement."""
    rows = Meter.objects.open().filter(wallet_id=wallet_id, held__gt=0).order_by("reference")
    return [hold_row(row) for row in rows]


def hold_row(row: Meter) -> HoldRow:
    """The frozen form of what a meter holds."""
    return HoldRow(
        row.run_id, row.reference, row.label, row.number, row.held, row.hold_ends_at, row.started_at is not None
    )


@dataclass(frozen=True, slots=True)
class SpendOfDay:
    """What was charged on one day."""

    day: date
    amount: int


def spend_per_day(wallet_id: UUID, *, start: datetime, end: datetime, zone: ZoneInfo) -> list[SpendOfDay]:
    """Charges by the local day of their posting, in [start, end); days without spend are left out. One statement."""
    rows = (
        _charges(wallet_id, start, end)
        .annotate(day=TruncDate("transfer__at", tzinfo=zone))
        .values("day")
        .annotate(amount=Sum("transfer__amount"))
        .order_by("day")
    )
    return [SpendOfDay(row["day"], row["amount"]) for row in rows]


@dataclass(frozen=True, slots=True)
class SpendOfReference:
    """What one session was charged in a stretch of time, and by how many of its runs."""

    reference: UUID
    label: str
    amount: int
    runs: int
    billed_from: datetime
    billed_to: datetime


def spend_per_reference(wallet_id: UUID, *, start: datetime, end: datetime, limit: int = 100) -> list[SpendOfReference]:
    """Charges by session in [start, end), the dearest first. One statement."""
    rows = (
        _charges(wallet_id, start, end)
        .values("meter__reference")
        .annotate(
            label=Max("meter__label"),
            amount=Sum("transfer__amount"),
            runs=Count("meter", distinct=True),
            first=Min("billed_from"),
            last=Max("billed_to"),
        )
        .order_by("-amount", "meter__reference")[:limit]
    )
    return [
        SpendOfReference(row["meter__reference"], row["label"], row["amount"], row["runs"], row["first"], row["last"])
        for row in rows
    ]


def _charges(wallet_id: UUID, start: datetime, end: datetime) -> QuerySet[Posting]:
    return Posting.objects.filter(transfer__debit_id=wallet_id, transfer__at__gte=start, transfer__at__lt=end)
