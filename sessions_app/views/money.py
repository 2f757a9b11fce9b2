"""Money of one person on pages: what runs and costs, and how long it lasts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest

from billing import queries as billing
from billing.queries import Purse, WalletRow
from gshare_core.kit import clock
from gshare_core.kit.remembered import is_remembered, remembered
from sessions_app import queries
from sessions_app.domain.lifecycle import COUNTING
from sessions_app.models import Run, Session

_FAR = timedelta(days=365)


Live = list[tuple[Session, Run]]


def live_of(request: HttpRequest) -> Live:
    """The live sessions of who asks with their current runs, newest first; for pages that show them."""
    return remembered(request, "live", lambda: queries.live_of(request.user))  # type: ignore[arg-type]  # signed in


def purse_of(request: HttpRequest) -> Purse:
    """The wallet of who asks, with what his live sessions cost."""
    runs = [run.pk for _session, run in live_of(request)] if is_remembered(request, "live") else []
    return remembered(request, "purse", lambda: billing.purse_of(request.user.pk, clock.now(), runs))  # type: ignore[arg-type]  # signed in


def wallet_of(request: HttpRequest) -> WalletRow:
    """The wallet of who asks."""
    return purse_of(request).wallet


@dataclass(frozen=True, slots=True)
class Running:
    """What somebody has live: the states of his sessions, and what they cost now."""

    states: tuple[str, ...]
    rate: int  # micro-credits an hour
    left: int = 0  # micro-credits of its holds that are not used up yet


def running_of(request: HttpRequest) -> Running:
    """Of who asks. At most two statements, once a request."""
    return remembered(request, "running", lambda: _running(request))


def _running(request: HttpRequest) -> Running:
    rows = _live_states(request)
    costs = purse_of(request).costs
    known = [costs[run] for state, run in rows if run is not None and state in COUNTING and run in costs]
    rate, left = sum(cost.hourly for cost in known), sum(max(0, cost.held - cost.accrued) for cost in known)
    return Running(tuple(state for state, _run in rows), rate, left)


def _live_states(request: HttpRequest) -> list[tuple[str, UUID | None]]:
    """The states of the live sessions with their open runs."""
    if is_remembered(request, "live"):
        return [(session.state, run.pk if run.closed_at is None else None) for session, run in live_of(request)]
    open_run = Run.objects.filter(session=OuterRef("pk"), closed_at=None).values("pk")[:1]
    live = Session.objects.filter(owner=request.user.pk).live().order_by()
    return list(live.annotate(open_run=Subquery(open_run)).values_list("state", "open_run"))


def until(left: int, rate_micro_per_hour: int, now: datetime) -> datetime | None:
    """When these credits are used up at this rate; None when nothing costs, or it is too far away to say.

    `left` is what is free and what is still unused of the holds of what runs: so the answer stands still while time passes.
    """
    if rate_micro_per_hour <= 0:
        return None
    span = timedelta(seconds=left * 3600 // rate_micro_per_hour)
    return now + span if span < _FAR else None
