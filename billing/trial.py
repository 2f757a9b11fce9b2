"""The trial balance: everything that is stored twice, computed again from the transfers and postings.

Guarantees: one consistent snapshot (repeatable read); agreement means to the micro-credit. Checked: each wallet's balance
and the running balance of each of its entries; net-allocated; what is held against the open meters; each meter's total
against its postings, its intervals and the formula; budgets' counters; that what was issued is in wallets or was earned.
`check` goes on from the last check that agreed and reads what came after it (`trial_checks.py`), now and then everything;
what it found and, when it agreed, how far everything is verified is written in the same transaction, all or nothing.
`differences` reads everything and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet, Sum
from prometheus_client import Gauge

from billing.domain.metering import cost_until
from billing.domain.pricing import charge_micro
from billing.models import Account, Checkpoint, Meter, VerifiedMeter
from billing.trial_checks import KEEP, KEPT_WRONGLY, TOTALS, statement
from gshare_core.ids import earliest
from gshare_core.kit import clock

logger = structlog.get_logger(__name__)

DIFFERENCES = Gauge(
    "gshare_trial_balance_differences", "Differences that the last trial balance found.", multiprocess_mode="mostrecent"
)
TOLD = 20  # differences that a checkpoint names
LATE = 3  # periods after which somebody should have looked
MARGIN = timedelta(hours=1)
"""By how much the clocks of the processes that open meters may differ, for a meter to be looked at as a new one."""


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


@dataclass(frozen=True, slots=True)
class _Read:
    """One comparison: what does not agree, and the figures of the entries that were read."""

    differences: list[Difference]
    figures: Mapping[str, int]


def differences() -> list[Difference]:
    """Everything that does not agree; empty when the books do. Reads everything, writes nothing."""
    with _snapshot():
        read = _everything()
        return read.differences


def totals() -> Totals:
    """The ledger's figures in one snapshot."""
    with _snapshot():
        figures = _compare(later=False).figures
        return Totals(*(figures[name] for name in ("issued", "earned", "in_wallets", "held", "transfers")))


def totals_of(checked: Checkpoint) -> Totals:
    """The ledger's figures as of a check that agreed; what is held as of now."""
    held = Account.objects.wallets().aggregate(held=Sum("held"))["held"]
    return Totals(checked.issued, checked.earned, checked.issued - checked.earned, held or 0, checked.transfers)


def check(*, full: bool = False) -> Checkpoint:
    """Compare what came after the last check that agreed, or everything (also when none has agreed yet); keep the result.

    One check at a time, the others wait and go on from what it verified.
    """
    with _turn():
        before = Checkpoint.objects.filter(differences=0).order_by("-number").first()
        at = clock.now()
        if full or before is None:
            base, read = None, _everything()
            found = read.differences or _rows(KEPT_WRONGLY)
        else:
            base, read = before, _later(before)
            found = read.differences
        row = _checkpoint(at, base, read.figures, found)
        if not read.differences:  # what was kept wrongly is put right by keeping it anew
            with connection.cursor() as cursor:
                for keep in KEEP:
                    cursor.execute(keep)
    _tell(row)
    return row


def watch() -> int:
    """A tick: a check, seldom of everything; answers how many entries it read."""
    last_full = Checkpoint.objects.filter(is_full=True).order_by("-number").first()
    due = last_full is None or last_full.at <= clock.now() - settings.GSHARE.trial_full_period
    return check(full=due).read


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the books now. `at` None: never checked; `agreed_at` while they differ; `is_late`: nobody looked lately."""

    at: datetime | None
    differences: int
    first: Difference | None
    agreed_at: datetime | None
    is_late: bool

    @property
    def agrees(self) -> bool:
        """Nothing differed when somebody last looked."""
        return self.differences == 0


_STATE = """
    SELECT last.at, coalesce(last.differences, 0), (last.found -> 0)::text,
           CASE WHEN last.differences > 0 THEN (SELECT at FROM billing_checkpoint WHERE differences = 0
               ORDER BY number DESC LIMIT 1) END,
           CASE WHEN last.at IS NULL THEN (SELECT at FROM billing_transfer ORDER BY at, id LIMIT 1) END
    FROM (SELECT) always
    LEFT JOIN (SELECT at, differences, found FROM billing_checkpoint ORDER BY number DESC LIMIT 1) last ON TRUE
"""


def state(now: datetime) -> State:
    """When the books were last compared and whether they agreed. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_STATE)
        at, differences, found, agreed_at, since = cursor.fetchone()
    looked = at or since  # before the first check: since when there is anything to check
    late = looked is not None and looked < now - LATE * settings.GSHARE.trial_period
    return State(at, differences, Difference(*json.loads(found)) if found else None, agreed_at, is_late=late)


# Inside ---------------------------------------------------------------------------------------------------------------


def _everything() -> _Read:
    read = _compare(later=False)
    read.differences.extend([*_formula(Meter.objects.all()), *_issued(None, read.figures)])
    return read


def _later(before: Checkpoint) -> _Read:
    recent = earliest(before.at - MARGIN)
    read = _compare(later=True, recent=recent)
    ids = (
        Meter.objects.open()
        .values("pk")
        .union(VerifiedMeter.objects.values("pk"), Meter.objects.filter(pk__gte=recent).values("pk"))
    )
    read.differences.extend([*_formula(Meter.objects.filter(pk__in=ids)), *_issued(before, read.figures)])
    return read


def _compare(*, later: bool, recent: UUID | None = None) -> _Read:
    rows = _by_index(recent) if later else _rows(statement(later=False))
    found = [row for row in rows if row.what != TOTALS]
    return _Read(found, {row.row: row.stored for row in rows if row.what == TOTALS})


def _by_index(recent: UUID | None) -> list[Difference]:
    """What came after, found by keys: a table that was small when its statistics were taken may be the whole ledger now."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan TO off")
        rows = _rows(statement(later=True), {"recent": recent})
        cursor.execute("SET LOCAL enable_seqscan TO DEFAULT")
    return rows


def _issued(before: Checkpoint | None, figures: Mapping[str, int]) -> Iterator[Difference]:
    """What was issued was earned or is in wallets."""
    issued = figures["issued"] + (before.issued if before else 0)
    kept = figures["earned"] + (before.earned if before else 0) + figures["in_wallets"]
    if issued != kept:
        yield Difference("issued", "ledger", issued, kept)


def _formula(meters: QuerySet[Meter]) -> Iterator[Difference]:
    """Each meter's total is the floor of rate, occupancy, factor and billed time, up to what it has charged to."""
    for meter in meters.filter(charged__gt=0).iterator(chunk_size=2_000):
        reading = meter.reading
        if reading.charged_until is None:
            computed = charge_micro(reading.price, reading.closed_us)
        else:
            computed = cost_until(reading, reading.charged_until)
        if computed != meter.charged:
            yield Difference("charge of meter by the formula", str(meter.run_id), meter.charged, computed)


def _checkpoint(
    at: datetime, before: Checkpoint | None, figures: Mapping[str, int], found: list[Difference]
) -> Checkpoint:
    last = Checkpoint.objects.order_by("-number").values_list("number", flat=True).first() or 0
    sums = {
        name: figures[name] + (getattr(before, name) if before else 0) for name in ("issued", "earned", "transfers")
    }
    return Checkpoint.objects.create(
        number=last + 1,
        at=at,
        is_full=before is None,
        differences=len(found),
        found=[[one.what, one.row, one.stored, one.computed] for one in found[:TOLD]],
        read=figures["entries"],
        **sums,
    )


def _tell(row: Checkpoint) -> None:
    DIFFERENCES.set(row.differences)
    for what, key, stored, computed in row.found:
        logger.error("the books do not agree", what=what, row=key, stored=stored, computed=computed)


def _rows(sql: str, parameters: Mapping[str, Any] | None = None) -> list[Difference]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [Difference(what, row, int(stored), int(computed)) for what, row, stored, computed in cursor.fetchall()]


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


@contextmanager
def _turn() -> Iterator[None]:
    """One consistent view, and nobody else checks: the table is locked before the view is taken, so it shows what the one before kept."""
    began = not connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        if began:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("LOCK TABLE billing_verifiedwallet IN SHARE ROW EXCLUSIVE MODE")
        yield
