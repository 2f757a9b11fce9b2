"""Money of one person on pages: what runs and costs, and how long it lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest

from billing import queries as billing
from billing.queries import WalletRow
from gshare_core.kit import clock
from sessions_app import queries
from sessions_app.domain.lifecycle import COUNTING
from sessions_app.models import Run

if TYPE_CHECKING:
    from accounts.models import User

_FAR = timedelta(days=365)


T = TypeVar("T")


def remembered(request: HttpRequest, name: str, read: Callable[[], T]) -> T:
    """What `read` answers, asked once a request: the frame and the page show the same numbers."""
    memory: dict[str, Any] = request.__dict__.setdefault("_gshare_remembered", {})
    if name not in memory:
        memory[name] = read()
    found: T = memory[name]
    return found


def wallet_of(request: HttpRequest) -> WalletRow:
    """The wallet of who asks."""
    return remembered(request, "wallet", lambda: billing.wallet_of(request.user.pk))  # type: ignore[arg-type]  # signed in


@dataclass(frozen=True, slots=True)
class Running:
    """What somebody has live: the states of his sessions, and what they cost now."""

    states: tuple[str, ...]
    rate: int  # micro-credits an hour
    left: int = 0  # micro-credits of its holds that are not used up yet


def running_of(request: HttpRequest) -> Running:
    """Of who asks. Two statements, once a request."""
    return remembered(request, "running", lambda: _running(request.user))  # type: ignore[arg-type]  # signed in


def _running(user: User) -> Running:
    open_run = Run.objects.filter(session=OuterRef("pk"), closed_at=None).values("pk")[:1]
    rows = list(
        queries.sessions_of(user)
        .live()
        .order_by()
        .annotate(open_run=Subquery(open_run))
        .values_list("state", "open_run")
    )
    runs = [run for state, run in rows if run is not None and state in COUNTING]
    costs = billing.cost(runs, at=clock.now()).values()
    rate, left = sum(cost.hourly for cost in costs), sum(max(0, cost.held - cost.accrued) for cost in costs)
    return Running(tuple(state for state, _run in rows), rate, left)


def until(left: int, rate_micro_per_hour: int, now: datetime) -> datetime | None:
    """When these credits are used up at this rate; None when nothing costs, or it is too far away to say.

    `left` is what is free and what is still unused of the holds of what runs: so the answer stands still while time passes.
    """
    if rate_micro_per_hour <= 0:
        return None
    span = timedelta(seconds=left * 3600 // rate_micro_per_hour)
    return now + span if span < _FAR else None
