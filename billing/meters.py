"""The life of a meter: opened with a hold, started by the ready report, ended by who asks, settled once.

Guarantees: billing runs from max(hand-off, min(ready, now)) to the asked end, never past the proof of life nor past what
the hold covers; proof only moves forward; the first end that is asked for is the end; a meter is settled once and repeats
its answer; what no meter knows (a session without a card) costs nothing and is no error.
Refuses: a hold that the wallet or a blocking budget does not allow, before anything is written. Opening is `openings`'.

Every function runs inside `locks.ordered()` (or opens it) and takes `at`, read after the caller's locks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

from billing.books import Books
from billing.domain import budgets as periods_of_time
from billing.domain import metering
from billing.domain.facts import MoneyFacts, Settlement
from billing.models import Budget, Meter, MeterInterval
from billing.openings import check_room
from gshare_core.kit import locks
from gshare_core.kit.rows import Each, Prepared, insert, sample, update, write

NOTHING = Settlement()
_HAND_OFF = (
    "UPDATE billing_meter SET billable_from = %s"
    " WHERE run_id = ANY(%s) AND settled_at IS NULL AND started_at IS NULL AND billable_from < %s"
)
_PROVE = (
    "UPDATE billing_meter AS meter SET proven_until = seen.alive_at"
    " FROM unnest(%s::uuid[], %s::timestamptz[]) AS seen (run_id, alive_at)"
    " WHERE meter.run_id = seen.run_id AND (meter.proven_until IS NULL OR meter.proven_until < seen.alive_at)"
)
_CLOSED_INTERVALS = Prepared(
    lambda run: MeterInterval.objects.filter(meter=run, ends_at__isnull=False).order_by("-starts_at")[:1], sample(1)
)
_LOCKED_METERS = Prepared(
    lambda runs: Meter.objects.filter(pk__in=runs).order_by("pk").select_for_update(no_key=True), Each(sample(1))
)


def lock_meter(run_id: UUID) -> Meter | None:
    """Lock a run's meter; None for a run without one. Its turn is before counters, budgets and wallets."""
    return lock_meters([run_id]).get(run_id)


def holds_meter(run_id: UUID) -> bool:
    """Whether this transaction holds the run's meter already."""
    return locks.holds(locks.Rank.METER, [run_id])


def lock_meters(run_ids: Collection[UUID]) -> dict[UUID, Meter]:
    """The same for several runs, by run. One statement."""
    return {row.pk: row for row in locks.lock_found(locks.Rank.METER, _LOCKED_METERS, list(run_ids))}


def lock_money_of(meters: Collection[Meter], *, at: datetime) -> dict[UUID, MoneyFacts]:
    """What gates 5 and 6 look at for several (locked) meters, by run."""
    with locks.ordered():
        books = Books.open_for(list(meters), at)
        return {meter.pk: books.facts(meter.scopes, meter.wallet_id) for meter in meters}


def hand_off(*run_ids: UUID, at: datetime) -> None:
    """Runs were placed and handed to their clusters: nothing before it bills. For runs that waited in line."""
    with locks.ordered():
        for run_id in sorted(run_ids, key=str):
            locks.note(locks.Rank.METER, run_id)
        write(_HAND_OFF, [at, list(run_ids), at])


def meter_ready(run_id: UUID, *, ready_at: datetime, at: datetime) -> None:
    """The run is ready: open its interval. Repeated reports change nothing; one after the asked end bills nothing."""
    with locks.ordered():
        meter = lock_meter(run_id)
        if meter is not None and not meter.settled_at and _begin(meter, ready_at, at):
            schedule(meter)
            update(meter)


def _begin(meter: Meter, ready_at: datetime, at: datetime) -> bool:
    """Open the interval of a meter that runs from now on, if it does; the caller saves the meter."""
    if meter.suspended_at or meter.started_at:
        return False
    start = metering.interval_start(not_before=meter.billable_from, ready_at=ready_at, at=at)
    if meter.end_at is not None and start >= meter.end_at:
        return False
    insert(MeterInterval(meter=meter, starts_at=start))
    meter.started_at = meter.charged_until = start
    meter.proven_until = max(start, meter.proven_until or start)
    return True


def prove(alive: Mapping[UUID, datetime], *, at: datetime) -> None:
    """Runs were seen alive: move each one's proof forward, never back and never past `at`. Unknown runs are passed over.

    Proof that comes after the settlement is recorded and bills nothing.
    """
    if not alive:
        return
    with locks.ordered():
        if not locks.holds(locks.Rank.METER, alive):
            locks.lock_rows(locks.Rank.METER, Meter.objects.filter(pk__in=alive).only("pk"))
        write(_PROVE, [list(alive), [min(seen, at) for seen in alive.values()]])


def request_end(run_id: UUID, *, at: datetime) -> None:
    """Pause, restart or stop was asked for: billing ends here, once; never before what is already charged."""
    with locks.ordered():
        meter = lock_meter(run_id)
        if meter is None or meter.settled_at or meter.end_at:
            return
        meter.end_at = max(at, meter.charged_until or at)
        meter.due_at = None
        update(meter, ["end_at", "due_at"])


def settle(
    run_id: UUID, *, at: datetime, last_alive_at: datetime | None = None, ready_at: datetime | None = None
) -> Settlement:
    """The run is over: charge what it ran, give the rest of the hold back. Once; repeated calls answer the same.

    `ready_at` counts when the meter never ran: a `gone` that overtook `running` still bills from its ready time, one after the
    asked end bills nothing.
    """
    with locks.ordered():
        meter = lock_meter(run_id)
        if meter is None:
            return NOTHING
        if meter.settled_at is not None:
            return _settlement(meter)
        if ready_at is not None and not meter.closed_us:
            _begin(meter, ready_at, at)
        _take_proof(meter, last_alive_at, at)
        books = Books.open_for([meter], at)
        _close_interval(meter, books, at)
        released = books.release(meter)
        books.close()
        meter.settled_at = at
        meter.due_at = None
        update(meter)
        return _settlement(meter, released)


def suspend(run_id: UUID, *, at: datetime) -> Settlement:
    """Nothing is heard of the run: charge it up to its last proof of life and give its hold back; it may come back."""
    with locks.ordered():
        meter = lock_meter(run_id)
        if meter is None:
            return NOTHING
        if meter.settled_at or meter.suspended_at:
            return _settlement(meter)
        books = Books.open_for([meter], at)
        _close_interval(meter, books, at)
        released = books.release(meter)
        books.close()
        meter.suspended_at = at
        meter.due_at = meter.end_at = None
        update(meter)
        return _settlement(meter, released)


def reopen(run_id: UUID, *, at: datetime) -> int:
    """A suspended run came back: take a new full hold at its frozen price; the next interval opens when it is ready.

    Answers what is held. Raises DomainError `budget_exceeded` or `insufficient_credit` and changes nothing then.
    """
    with locks.ordered():
        meter = lock_meter(run_id)
        if meter is None or meter.settled_at:
            return 0
        if meter.suspended_at is None:
            return meter.held
        books = Books.open_for([meter], at)
        check_room(books.facts(meter.scopes, meter.wallet_id), meter.target)
        meter.suspended_at = None
        meter.billable_from = max(at, meter.billable_from, _last_end(meter) or at)
        books.join(meter)
        books.hold(meter, meter.target)
        books.close()
        update(meter)
        return meter.held


def carry_meter(*, from_run: UUID, to_run: UUID, at: datetime, last_alive_at: datetime | None = None) -> Settlement:
    """A run is followed by the next of its session: settle it, and let the next have what is left of its hold.

    Price, scopes and the size of a full hold stay. Once; repeated calls answer the same.
    """
    with locks.ordered():
        meter = lock_meter(from_run)
        if meter is None:
            return NOTHING
        if meter.settled_at is not None:
            return _settlement(meter)
        _take_proof(meter, last_alive_at, at)
        books = Books.open_for([meter], at)
        _close_interval(meter, books, at)
        books.close()
        rest, counted_by = meter.held, meter.counted_by
        meter.held, meter.counted_by, meter.settled_at, meter.due_at = 0, [], at, None
        update(meter)
        _next_meter(meter, to_run, at, held=rest, counted_by=counted_by).save(force_insert=True)
        return _settlement(meter)


def schedule(meter: Meter, books: Books | None = None) -> None:
    """Write down how far the hold reaches and when a tick has to look: half used, or a budget's period ends."""
    reading = meter.reading
    meter.hold_ends_at = metering.hold_ends_at(reading)
    low_from = metering.low_from(reading)
    if low_from is None or reading.charged_until is None:
        meter.due_at = None
        return
    rules = books.rules(meter.scopes) if books else [row.rule for row in Budget.objects.of([meter.scopes])]
    edges = (periods_of_time.next_boundary(rule, reading.charged_until) for rule in rules)
    meter.due_at = min([low_from, *(edge for edge in edges if edge is not None)])


def _take_proof(meter: Meter, last_alive_at: datetime | None, at: datetime) -> None:
    """What the last report says of its own life counts, like any proof only forward and not past now."""
    if last_alive_at is not None:
        seen = min(last_alive_at, at)
        meter.proven_until = max(seen, meter.proven_until or seen)


def _close_interval(meter: Meter, books: Books, at: datetime) -> None:
    """Charge the open interval to its end and close it.

    A run that outran its hold while no tick came is topped up from what is free, up to its end; what cannot be had is
    noted as not billed. Once a tick has found the hold at its end and nothing to fill it with, that end is final.
    """
    reading = meter.reading
    if reading.started_at is None:
        return
    end = metering.runs_until(reading, at)
    over = metering.overrun(reading, end)
    if over and meter.exhausted_at is None:
        books.join(meter)
        books.hold(meter, min(over, books.room(meter.scopes, meter.wallet_id).amount))
    until = metering.billable_until(meter.reading, end)
    meter.not_billed += metering.cost_until(reading, end) - metering.cost_until(reading, until)
    books.charge(meter, until)
    MeterInterval.objects.filter(meter=meter, ends_at=None).update(ends_at=until)
    meter.closed_us += metering.span_us(reading.started_at, until)
    meter.started_at = meter.charged_until = meter.hold_ends_at = meter.exhausted_at = None
    meter.short = ""


def _next_meter(meter: Meter, run_id: UUID, at: datetime, *, held: int, counted_by: list[UUID]) -> Meter:
    return Meter(
        run_id=run_id,
        reference=meter.reference,
        number=meter.number + 1,
        label=meter.label,
        user_id=meter.user_id,
        group_id=meter.group_id,
        organisation_id=meter.organisation_id,
        wallet_id=meter.wallet_id,
        rate_micro_per_hour=meter.rate_micro_per_hour,
        occupancy_numerator=meter.occupancy_numerator,
        occupancy_denominator=meter.occupancy_denominator,
        factor_milli=meter.factor_milli,
        opened_at=at,
        billable_from=at,
        target=meter.target,
        held=held,
        counted_by=counted_by,
    )


def _last_end(meter: Meter) -> datetime | None:
    return MeterInterval.objects.filter(meter=meter).order_by("-starts_at").values_list("ends_at", flat=True).first()


def _settlement(meter: Meter, released: int = 0) -> Settlement:
    last = _CLOSED_INTERVALS.first(meter.pk)
    ran = last is not None and last.ends_at != last.starts_at
    start, end = (last.starts_at, last.ends_at) if last is not None and ran else (None, None)
    return Settlement(meter.charged, released, meter.not_billed, start, end, meter.closed_us)
