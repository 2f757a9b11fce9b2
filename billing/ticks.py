"""The tick of money: charges that are due, holds that run low, warnings before they end.

Guarantees: what is due is read from rows and judged again under their locks, so two ticks at once, late or repeated ones
come to the same total; the oldest session of a wallet is filled first, partly if need be; a run that outran its hold
while no tick came is charged from what is free and keeps running. One transaction holds at most `meter_batch` meters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts import notices
from billing.books import Books
from billing.domain import budgets as periods_of_time
from billing.domain import metering
from billing.domain.facts import TickResult
from billing.filling import due_of, fill
from billing.low_balance import forget_idle, tell_of_low_wallets
from billing.meters import schedule
from billing.models import Meter
from gshare_core.kit import clock, live, locks
from gshare_core.kit.rows import prepared

LIMIT = 200_000


def top_up_due(*, limit: int = LIMIT) -> TickResult:
    """Look after every meter that is due: post its charge, fill its hold."""
    forget_idle()
    return _run(Meter.objects.filter(due_at__lte=clock.now()), limit)


def top_up_ended(*, limit: int = LIMIT) -> TickResult:
    """The same for the meters whose hold has ended, at once: what is still ended afterwards is really exhausted."""
    return _run(Meter.objects.running().filter(hold_ends_at__lte=clock.now()), limit)


def _run(due: QuerySet[Meter], limit: int) -> TickResult:
    result = TickResult()
    for batch in _batches(due, limit):
        result += _look_after_all(batch)
    return result


def _batches(due: QuerySet[Meter], limit: int) -> Iterator[list[UUID]]:
    """The ids of due meters, by wallet, the oldest session first; read without locks, each once a tick."""
    size = settings.GSHARE.meter_batch
    ordered = due.order_by("wallet_id", "reference", "run_id").values_list("run_id", flat=True)
    run_ids = list(ordered[:limit])
    for start in range(0, len(run_ids), size):
        yield run_ids[start : start + size]


def _look_after_all(run_ids: Sequence[UUID]) -> TickResult:
    """One transaction. The race it prevents: two ticks that both charge or fill what only one may."""
    with locks.ordered():
        locked = _lock(run_ids)
        at = clock.now()
        due = due_of(locked, at)
        if not due:
            return TickResult(looked_at=len(locked))
        books = Books.open_for(due, at)
        filled = fill(due, books)
        changed = set(filled.relieved)
        result = TickResult(looked_at=len(locked)) + filled.result
        if filled.left:
            books.read_purses_again()
            meters = _read(filled.left)
            short = {meter.run_id: meter.short for meter in meters}
            for meter in meters:
                result += _look_after(meter, books, at)
            changed |= {meter.user_id for meter in meters if meter.short or meter.short != short[meter.run_id]}
        else:
            meters = []
        books.close()
        _save(meters)
        _warn([meter.run_id for meter in meters if meter.warned_at == at], at)
        tell_of_low_wallets({one.wallet_id for one in due}, at)
        for user_id in changed:
            live.poke(f"wallet:{user_id}")  # charges and fillings that went well are seen at the next re-fetch
        return result


# Written so that only the key is an index for it, whatever the planner thinks of the other columns.
_LOCK = """
    SELECT run_id FROM billing_meter
    WHERE run_id = ANY(%s) AND coalesce(settled_at, end_at) IS NULL AND started_at IS NOT NULL
    ORDER BY run_id FOR NO KEY UPDATE
"""


def _lock(run_ids: Sequence[UUID]) -> list[UUID]:
    """Lock the meters that run, in the order of their ids."""
    with prepared() as cursor:
        cursor.execute(_LOCK, [list(run_ids)])
        found = [run_id for (run_id,) in cursor.fetchall()]
    for run_id in found:
        locks.note(locks.Rank.METER, run_id)
    return found


def _read(run_ids: Sequence[UUID]) -> list[Meter]:
    """Locked meters, by wallet, the oldest session first."""
    rows = Meter.objects.filter(pk__in=run_ids)
    return sorted(rows, key=lambda row: (row.wallet_id, row.reference, row.run_id))


def _look_after(meter: Meter, books: Books, at: datetime) -> TickResult:
    """Fill one hold that runs low and post what its run has cost."""
    charged_before, wanted = meter.charged, metering.lack(meter.reading, at)
    filled = 0
    if wanted:
        books.join(meter)
        room = books.room(meter.scopes, meter.wallet_id)
        filled = min(wanted, room.amount)
        books.hold(meter, filled)
        meter.short = "" if filled == wanted else room.reason
    _charge(meter, books, at, topped_up=filled > 0)
    schedule(meter, books)
    ended = meter.hold_ends_at is not None and meter.hold_ends_at <= at
    meter.exhausted_at = (meter.exhausted_at or at) if ended and meter.short else None
    _note_warning(meter, at)
    return TickResult(
        posted=int(meter.charged > charged_before),
        filled=int(0 < wanted == filled),
        short=int(bool(meter.short)),
        charged=meter.charged - charged_before,
    )


def _charge(meter: Meter, books: Books, at: datetime, *, topped_up: bool) -> None:
    """Post up to now with a top-up, else up to the last boundary of a budget's period that is behind and proven."""
    reading = meter.reading
    if reading.charged_until is None:
        return
    until = metering.billable_until(reading, at)
    if not topped_up:
        edges = periods_of_time.boundaries(books.rules(meter.scopes), reading.charged_until, until)
        if not edges:
            return
        until = max(edges)
    books.charge(meter, until)


def _note_warning(meter: Meter, at: datetime) -> None:
    """The last stretch of a hold that could not be filled is the warning period; told once, again after a filling."""
    if not meter.short or meter.hold_ends_at is None:
        meter.warned_at = None
    elif meter.warned_at is None and meter.hold_ends_at - settings.GSHARE.grace <= at:
        meter.warned_at = at


def _warn(run_ids: Sequence[UUID], at: datetime) -> None:
    if not run_ids:
        return
    for meter in Meter.objects.filter(pk__in=run_ids).select_related("user"):
        assert meter.hold_ends_at is not None
        zone = ZoneInfo(meter.user.time_zone or settings.GSHARE.time_zone)
        with override(meter.user.language or settings.LANGUAGE_CODE):
            if meter.short == "budget_exhausted":
                body = _("A budget leaves no more credits for it. Ask who set the budget.")
            else:
                body = _("Your wallet has no more credits for it. Request credits to keep it running.")
            words = {"name": meter.label, "time": f"{meter.hold_ends_at.astimezone(zone):%H:%M}"}
            title = _("%(name)s pauses at %(time)s") % words
            notices.notify(user_id=meter.user_id, kind="hold_ends", title=title, body=body, at=at, link="/wallet/")


def _save(meters: Sequence[Meter]) -> None:
    """Write what a tick may change of locked meters, in one statement."""
    if not meters:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_meter AS meter SET held = new.held, charged = new.charged, charged_until = new.charged_until,"
            " counted_by = new.counted_by::uuid[], hold_ends_at = new.hold_ends_at, due_at = new.due_at,"
            " short = new.short, exhausted_at = new.exhausted_at, warned_at = new.warned_at"
            " FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::timestamptz[], %s::text[], %s::timestamptz[],"
            " %s::timestamptz[], %s::text[], %s::timestamptz[], %s::timestamptz[])"
            " AS new (run_id, held, charged, charged_until, counted_by, hold_ends_at, due_at, short, exhausted_at,"
            " warned_at) WHERE meter.run_id = new.run_id",
            [
                [meter.run_id for meter in meters],
                [meter.held for meter in meters],
                [meter.charged for meter in meters],
                [meter.charged_until for meter in meters],
                ["{" + ",".join(map(str, meter.counted_by)) + "}" for meter in meters],
                [meter.hold_ends_at for meter in meters],
                [meter.due_at for meter in meters],
                [meter.short for meter in meters],
                [meter.exhausted_at for meter in meters],
                [meter.warned_at for meter in meters],
            ],
        )
