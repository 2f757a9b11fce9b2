"""One's own wallet: balance with forecast, spend per day and session, holds, the ledger with filters."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from accounts.permissions import person_of
from billing import grants, queries, statements
from billing.api.documents import ENTRIES
from billing.models import TransferKind
from billing.queries import Purse
from billing.services import ensure_wallet
from billing.statements import EntryRow, HoldRow
from gshare_core.errors import DomainError
from gshare_core.kit import clock, lists, wording
from gshare_core.kit.htmx import answer
from gshare_core.kit.pictures import Bar, Point, Series
from gshare_core.kit.remembered import remembered
from gshare_core.money import MICRO_PER_CREDIT, display_credits

if TYPE_CHECKING:
    from accounts.models import User

RANGES = {"7": 7, "30": 30, "365": 365}
SPEND_DAYS = 31
TOP_SESSIONS = 5
FRAGMENTS = ("wallet-now", "wallet-holds", "ledger")


@login_required
@require_GET
def wallet(request: HttpRequest) -> HttpResponse:
    """The page, or the part of it that asks."""
    user, now = _me(request), clock.now()
    purse = remembered(request, "purse", lambda: queries.purse_of(user.pk, now))
    key = purse.wallet.id or ensure_wallet("user", user.pk)
    days = RANGES.get(request.GET.get("days", ""), 30)
    entries = _entries(request, key, user, now)
    context = {
        "now": now,
        "versions": {"wallet": ""},
        "wallet": _wallet(purse, key, now),
        "balance": _balance(key, days, now),
        "ranges": _ranges(days),
        **_spend(key, now),
        "holds": [_hold(row, now) for row in purse.holds],
        "spent": _spent(key, now),
        **entries,
        "csv_url": f"/api/v1/wallets/{key}/entries?format=csv",
        "may_request": True,
    }
    return answer(request, "billing/wallet.html", context, fragments=FRAGMENTS)


def _me(request: HttpRequest) -> User:
    person = person_of(request.user)
    assert person is not None
    return person


def _wallet(purse: Purse, key: UUID, now: datetime) -> dict[str, Any]:
    row, held = purse.wallet, purse.holds
    running = sum(hold.running for hold in held)
    costs = [purse.costs[hold.run_id] for hold in held if hold.running]
    rate = sum(cost.hourly for cost in costs)
    left = row.available + sum(max(0, cost.held - cost.accrued) for cost in costs)
    lasts = now + timedelta(seconds=left * 3600 // rate) if rate else None
    waiting = len(held) - running
    note = _("for %(running)d running") % {"running": running}
    if waiting and running:
        note = _("for %(running)d running, %(waiting)d waiting") % {"running": running, "waiting": waiting}
    elif waiting:
        note = _("for %(waiting)d waiting") % {"waiting": waiting}
    return {
        "id": key,
        "balance_micro": row.balance,
        "held_micro": row.held,
        "available_micro": row.available,
        "accrued_micro": purse.accrued,
        "lasts_until": lasts,
        "held_note": note if held else _("nothing runs or waits"),
        "next_grant": _next_grant(key, now),
    }


def _next_grant(key: UUID, now: datetime) -> dict[str, Any] | None:
    """What the start of the next month raises the wallet to, if anything does."""
    target = sum(grant.amount for grant in queries.grants_of([key])[key])
    if not target:
        return None
    when = wording.month_day(grants.next_month(grants.month_of(now)))
    return {"micro": target, "note": _("raised to this on %(day)s") % {"day": when}}


# Charts --------------------------------------------------------------------------------------------------------------


def _balance(key: UUID, days: int, now: datetime) -> Series | None:
    start = now - timedelta(days=days)
    steps = statements.balance_series(key, start=start, end=now)
    if len(steps) == 1 and not steps[0][1]:
        return None
    points: list[Point] = []
    for at, micro in steps:
        if points:  # a balance holds until it changes
            points.append(Point(at, points[-1].value, points[-1].text))
        points.append(Point(at, micro / MICRO_PER_CREDIT, display_credits(micro)))
    points.append(Point(now, points[-1].value, points[-1].text))
    top = max(point.value or 0 for point in points) or 1
    ticks = [start + (now - start) * part / 4 for part in range(4)]
    return Series(
        name=_("Balance"),
        points=points,
        start=start,
        end=now,
        top=top * 1.1,
        unit=_("cr"),
        levels=((top, f"{top:,.0f} {_('cr')}"), (top / 2, f"{top / 2:,.0f}"), (0, "0")),
        days=True,
        now_text=_("%(amount)s cr") % {"amount": points[-1].text},
        ticks=[*((at, wording.month_day(at)) for at in ticks), (now, _("now"))],
    )


def _ranges(days: int) -> list[dict[str, Any]]:
    names = {"7": _("7 days"), "30": _("Month"), "365": _("Year")}
    here = reverse("wallet")
    return [{"name": names[k], "url": f"{here}?days={k}", "current": n == days} for k, n in RANGES.items()]


def _spend(key: UUID, now: datetime) -> dict[str, Any]:
    """Spend of each day of this month."""
    zone = timezone.get_current_timezone()
    assert isinstance(zone, ZoneInfo)
    local = timezone.localtime(now)
    start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    by_day = {row.day: row.amount for row in statements.spend_per_day(key, start=start, end=now, zone=zone)}
    if not by_day:
        return {"spend": [], "spend_slots": None, "spend_note": "", "spend_ticks": [], "spend_levels": []}
    bars = []
    for number in range(1, local.day + 1):
        day = local.date().replace(day=number)
        amount = by_day.get(day, 0)
        label = wording.month_day(day)
        bars.append(Bar(label, amount / MICRO_PER_CREDIT, display_credits(amount), current=number == local.day))
    total, top = sum(by_day.values()), max(by_day.values()) / MICRO_PER_CREDIT
    average = _("%(amount)s cr a day on average") % {"amount": display_credits(total // local.day)}
    ticks = [(f"{(n - 0.5) * 100 / SPEND_DAYS:.2f}%", str(n)) for n in range(1, SPEND_DAYS + 1, 5)]
    levels = [("0%", f"{top:,.0f} {_('cr')}"), ("50%", f"{top / 2:,.0f}"), ("100%", "0")]
    return {
        "spend": bars,
        "spend_slots": SPEND_DAYS,
        "spend_note": average,
        "spend_ticks": ticks,
        "spend_levels": levels,
        "spend_top": top,
    }


# Holds and spend by session ------------------------------------------------------------------------------------------


def _hold(row: HoldRow, now: datetime) -> dict[str, Any]:
    covers = _("until %(when)s") % {"when": wording.clock(row.hold_ends_at, now)} if row.hold_ends_at else _("60 min")
    return {
        "state": "running" if row.running else "queued",
        "name": row.label,
        "url": reverse("session", args=[row.reference]),
        "covers": covers,
        "micro": row.amount,
    }


def _spent(key: UUID, now: datetime) -> dict[str, Any] | None:
    local = timezone.localtime(now)
    start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    rows = statements.spend_per_reference(key, start=start, end=now)
    if not rows:
        return None
    return {
        "title": _("Spent, %(first)s to %(last)s")
        % {"first": wording.month_day(start), "last": wording.month_day(now)},
        "rows": [
            {"name": row.label, "url": reverse("session", args=[row.reference]), "micro": row.amount}
            for row in rows[:TOP_SESSIONS]
        ],
        "most_micro": rows[0].amount,
        "all_text": _("All"),
        "all_micro": sum(row.amount for row in rows),
    }


# Ledger --------------------------------------------------------------------------------------------------------------


def _entries(request: HttpRequest, key: UUID, user: User, now: datetime) -> dict[str, Any]:
    rows = statements.entries(key, viewer=user)
    month = request.GET.get("month", "")
    narrowed = rows.filter(at__year=month[:4], at__month=month[5:]) if _is_month(month) else rows
    try:
        page = lists.page_of(narrowed, ENTRIES, request)
    except DomainError:
        # A filter that nobody offered: show all rather than an error page.
        plain = HttpRequest()
        plain.path = request.path
        page = lists.page_of(rows, ENTRIES, plain)
    count = ngettext("%(n)d entry", "%(n)d entries", page.count) % {"n": page.count}
    return {
        "ledger": _ledger([statements.entry_row(row, key) for row in page.rows], now),
        "filters": _filters(request, now),
        "entries_text": count if page.count_is_exact else f"{count}+",
        "older_url": lists.next_address(request, page) if page.next_cursor else "",
        "newer_url": "",
        "any": page.count > 0 or rows.exists(),
    }


def _ledger(rows: list[EntryRow], now: datetime) -> list[dict[str, Any]]:
    shown, last = [], ""
    for row in rows:
        day = wording.day(row.at, now)
        session = row.kind == TransferKind.CHARGE
        note = row.note or (_("run %(number)d") % {"number": row.run} if row.run else "")
        shown.append(
            {
                "id": row.id,
                "at": row.at,
                "day": day if day != last else "",
                "kind": row.kind,
                "kind_text": TransferKind(row.kind).label,
                "direction": row.direction,
                "with_name": row.name,
                "with_url": reverse("session", args=[row.reference]) if session and row.reference else "",
                "mono": session,
                "note": note,
                "amount_micro": row.amount,
                "balance_micro": row.balance,
            }
        )
        last = day
    return shown


def _filters(request: HttpRequest, now: datetime) -> dict[str, Any]:
    kind, month = request.GET.get("kind", ""), request.GET.get("month", "")
    kinds = [("", _("All kinds"), not kind), *((value, words, value == kind) for value, words in TransferKind.choices)]
    months = [("", _("Any month"), not month)]
    first = timezone.localtime(now).replace(day=1)
    for _number in range(6):
        value = f"{first:%Y-%m}"
        months.append((value, wording.month(first), value == month))
        first = (first - timedelta(days=1)).replace(day=1)
    return {"q": request.GET.get("q", ""), "kinds": kinds, "months": months, "sessions": []}


def _is_month(text: str) -> bool:
    year, dash, month = text.partition("-")
    return bool(dash) and year.isdigit() and len(year) == 4 and month.isdigit() and 1 <= int(month) <= 12
