"""The dashboard: money first, limits, notices, own sessions with what happens next, every card of every offering."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from accounts import notices
from accounts.queries import SeatRow
from billing import queries as billing
from cluster.loads import CardLoad, card_loads, pools_of, usable
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer
from gshare_core.kit.pictures import Bar, SplitPart
from gshare_core.money import display_credits
from sessions_app import overview, queries
from sessions_app.domain.lifecycle import COUNTING, State
from sessions_app.models import Session
from sessions_app.overview import LimitsInForce
from sessions_app.queries import Details
from sessions_app.views import cards, limits, words
from sessions_app.views.acts import signed_in
from sessions_app.views.first_step import first_step
from sessions_app.views.money import live_of, purse_of, running_of, until, wallet_of
from sessions_app.views.rows import rows
from sessions_app.views.shell import chosen_seat

if TYPE_CHECKING:
    from accounts.models import User

FRAGMENTS = ("money", "sessions", "free", "limits", "notices")
ROWS = 12
NOTICES = 4
SPEND_DAYS = 14


@login_required
@require_GET
def dashboard(request: HttpRequest) -> HttpResponse:
    """The page, or the part of it that asks."""
    user, now = signed_in(request), clock.now()
    live = live_of(request)
    own, found = [session for session, _run in live], queries.details_of(live, purse_of(request).costs)
    seat, mine = chosen_seat(request), {session.pk for session in own}
    in_force = overview.limits_in_force(user.pk, seat.group_id, seat.organisation_id) if seat else None
    every_load = card_loads()
    pools = _pools(seat, in_force, every_load)
    loads, offers = usable(every_load, pools, mine), overview.offers(pools)
    context = {
        "now": now,
        "wallet": money(request, own, found, now),
        "limits": limits.dashboard_rows(in_force) if in_force else [],
        "notices": _notices(user),
        "sessions": rows(own[:ROWS], found, now=now),
        "sessions_text": sessions_text(own),
        "offerings": _offerings(offers, loads, mine),
        "keys": cards.legend(loads),
        "first_step": first_step(offers) if not own else "",
        "versions": {"wallet": "", "sessions": "", "queue": ""},
    }
    return answer(request, "sessions_app/dashboard.html", context, fragments=FRAGMENTS)


def _pools(seat: SeatRow | None, in_force: LimitsInForce | None, loads: list[CardLoad]) -> tuple[UUID, ...]:
    """The pools of cards that may be used from this seat."""
    if seat is None or seat.group_id is None or in_force is None:
        return ()
    known = pools_of(loads)
    return known.eligible(
        group_id=seat.group_id, organisation_id=seat.organisation_id, shared=in_force.shared_pool
    ).pool_ids


def sessions_text(own: list[Session]) -> str:
    """Such as "3 running, 3 waiting, 1 paused"."""
    running = sum(session.life in COUNTING for session in own)
    waiting = sum(session.life is State.QUEUED for session in own)
    paused = sum(session.life is State.PAUSED for session in own)
    return words.counts_text(running, waiting, paused)


def money(request: HttpRequest, own: list[Session], found: Details, now: datetime) -> dict[str, Any]:
    """Balance, what is held for what, what runs and costs, how long it lasts, two weeks of spend."""
    wallet = wallet_of(request)
    running = waiting = rate = 0
    for session in own:
        cost = found.open_cost_of(session)
        if cost is None:
            continue
        if session.life is State.QUEUED:
            waiting += cost.held
        else:
            running += cost.held
            rate += cost.hourly if session.life in COUNTING else 0
    spend = _spend(wallet.id, now) if wallet.id else []
    total = sum(int(bar.value) for bar in spend)
    return {
        "balance_micro": wallet.balance,
        "held_micro": wallet.held,
        "available_micro": wallet.available,
        "rate_micro_per_hour": rate,
        "lasts_until": until(wallet.available + running_of(request).left, rate, now),
        "spend": spend if any(bar.value for bar in spend) else [],
        "spend_first": wording.month_day(now - timedelta(days=SPEND_DAYS - 1)) if spend else "",
        "spend_last": _("today %(amount)s cr") % {"amount": spend[-1].text} if spend else "",
        "spend_per_day_micro": total // SPEND_DAYS,
        "split": [
            SplitPart(wallet.available, "accent", _("available"), _cr(wallet.available)),
            SplitPart(running, "grey", _("running") if running else "", _cr(running)),
            SplitPart(waiting, "pale", _("waiting") if waiting else "", _cr(waiting)),
        ],
    }


def _cr(micro: int) -> str:
    return _("%(amount)s cr") % {"amount": display_credits(micro)}


def _spend(wallet_id: UUID, now: datetime) -> list[Bar]:
    zone = timezone.get_current_timezone()
    today = timezone.localtime(now).date()
    first = today - timedelta(days=SPEND_DAYS - 1)
    start = datetime(first.year, first.month, first.day, tzinfo=zone)
    assert isinstance(zone, ZoneInfo)
    by_day = {row.day: row.amount for row in billing.spend_per_day(wallet_id, start=start, end=now, zone=zone)}
    bars = []
    for offset in range(SPEND_DAYS):
        day = first + timedelta(days=offset)
        amount = by_day.get(day, 0)
        label = wording.day(datetime(day.year, day.month, day.day, 12, tzinfo=zone), now)
        bars.append(Bar(label, amount, display_credits(amount), current=day == today))
    return bars


def _notices(user: User) -> list[dict[str, Any]]:
    return [
        {"icon": "info", "tone": "accent", "title": row.title, "text": row.body, "url": row.link or ""}
        for row in notices.notices_of(user).filter(read_at=None).order_by("-id")[:NOTICES]
    ]


def _offerings(offers: list[overview.Offer], loads: list[CardLoad], own: set[UUID]) -> list[dict[str, Any]]:
    by_model = cards.by_model(loads)
    shown = []
    for offer in offers:
        of_model = by_model.get(offer.row.model, [])
        if not of_model:
            continue
        shown.append(
            {
                "name": offer.row.name,
                "rate_micro_per_hour": offer.rate or 0,
                "cards": cards.strip(of_model, own=own),
                "free": _free(offer),
                "waiting": offer.queue_length,
                "more": cards.strip_rest(of_model),
                "words": f"{offer.row.name}: {cards.strip_words(of_model)}",
            }
        )
    return shown


def _free(offer: overview.Offer) -> list[tuple[str | Fraction, int | None]]:
    """How many of each size would start now; None for sizes that the offering does not have."""
    counts: dict[str, int] = {}
    for tier in offer.tiers:
        name = "whole" if tier.tier == "exclusive" and tier.cards == 1 else tier.tier
        counts.setdefault(name, tier.free_now)
    shares = {"XL": Fraction(1, 2), "L": Fraction(1, 4), "M": Fraction(1, 8), "S": Fraction(1, 16)}
    whole: list[tuple[str | Fraction, int | None]] = [(_("Whole"), counts.get("whole"))]
    return whole + [(share, counts.get(tier)) for tier, share in shares.items()]
