"""A run's life in a few words, for the tests of money. Times are minutes after `T0`; the price is 12.5 credits an hour."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from uuid import UUID

from billing import services as billing
from billing.domain.pricing import Price, hold_micro
from billing.models import Account, Allocation, Meter, Posting, Transfer
from billing.trial import differences
from gshare_core.clock import ManualClock
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.builders import Customer, cr

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
QUARTER = Price(cr(50), Fraction(1, 4))
HOLD = cr("12.5")


def t(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def opened(customer: Customer, *, at: float = 0, price: Price = QUARTER, hold: int | None = None) -> UUID:
    """A run that was admitted: its meter is open and its hold taken. Answers the run's id."""
    run_id = uuid7()
    hold = hold_micro(price, HOUR) if hold is None else hold
    billing.open_meter(
        billing.Opening(run_id, billing.Purpose(uuid7(), "vit-ft"), customer.scopes, price, hold), at=t(at)
    )
    return run_id


def running(customer: Customer, *, at: float = 0, price: Price = QUARTER, hold: int | None = None) -> UUID:
    """A run that was admitted and is ready at once."""
    run_id = opened(customer, at=at, price=price, hold=hold)
    billing.meter_ready(run_id, ready_at=t(at), at=t(at))
    return run_id


def alive(*run_ids: UUID, at: float) -> None:
    """They were seen alive."""
    billing.prove(dict.fromkeys(run_ids, t(at)), at=t(at))


def ended(run_id: UUID, *, at: float, gone: float | None = None) -> billing.Settlement:
    """Stop is asked for at `at`; gone, and last seen alive, a minute later unless said otherwise."""
    last = at + 1 if gone is None else gone
    billing.request_end(run_id, at=t(at))
    return billing.settle(run_id, at=t(last), last_alive_at=t(last))


@contextmanager
def at_time(minutes: float) -> Iterator[None]:
    """The clock in force shows this."""
    with clock.using(ManualClock(t(minutes))):
        yield


def tick(minutes: float, *run_ids: UUID) -> billing.TickResult:
    """A tick at this time, the runs seen alive up to it."""
    if run_ids:
        alive(*run_ids, at=minutes)
    with at_time(minutes):
        return billing.top_up_due()


def meter(run_id: UUID) -> Meter:
    return Meter.objects.get(pk=run_id)


def wallet(customer: Customer) -> tuple[int, int]:
    """Balance and held."""
    row = Account.objects.get(pk=customer.wallet)
    assert row.balance is not None
    return row.balance, row.held


def charges(run_id: UUID) -> list[tuple[float, float, int]]:
    """From, to (minutes after T0) and amount of what was posted for a run."""
    rows = Posting.objects.filter(meter_id=run_id).order_by("billed_from").select_related("transfer")
    minute = timedelta(minutes=1)
    return [((row.billed_from - T0) / minute, (row.billed_to - T0) / minute, row.transfer.amount) for row in rows]


def net(child: UUID, parent: UUID) -> int:
    return Allocation.objects.values_list("net", flat=True).get(wallet_id=child, parent_id=parent)


def transfers() -> int:
    return Transfer.objects.count()


def books_agree() -> bool:
    """Everything recomputed; fails with the first differences."""
    found = differences()
    assert not found, found[:5]
    return True
