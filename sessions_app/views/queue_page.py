"""Own entries in the lines, with place, reason, picture and estimate, and the lines that could be joined."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from catalog import queries as catalog
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer
from gshare_core.kit.pictures import Point, Series
from gshare_core.money import display_credits
from sessions_app import lanes, queries, recent_use
from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.queries import Details
from sessions_app.views import wait, words
from sessions_app.views.acts import signed_in
from sessions_app.views.money import live_of, purse_of
from sessions_app.views.shell import chosen_group

LIMIT = 100


@login_required
@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """The page, or its list."""
    user, now, group = signed_in(request), clock.now(), chosen_group(request)
    live = live_of(request)
    own = {session.pk: session.name for session, _run in live}
    found = queries.details_of(live, purse_of(request).costs)
    waiting = [session for session, _run in live if session.life is State.QUEUED and session.pk in found.places]
    waiting.sort(key=lambda session: (found.places[session.pk].entry.order_at, session.pk))
    held = sum(cost.held for session in waiting if (cost := found.open_cost_of(session)))
    shown = waiting[:LIMIT]
    around = wait.surroundings({session.pk: found.places[session.pk] for session in shown})
    entries = [
        _entry(session, found, now) | wait.wait_of(session, found.places[session.pk], around, own=own, now=now)
        for session in shown
    ]
    context = {
        "now": now,
        "queue_text": _text(len(waiting), held),
        "said": "; ".join(str(entry["said"]) for entry in entries),
        "entries": entries,
        "lanes": _lanes(now),
        "lanes_note": _note(recent_use.penalty_of(user.pk, group, at=now) if group else timedelta(0)),
        "versions": {"queue": ""},
    }
    return answer(request, "sessions_app/queue.html", context, fragments=("queue-list",))


def _text(count: int, held: int) -> str:
    if not count:
        return ""
    said = ngettext("%(n)d session waits", "%(n)d sessions wait", count) % {"n": count}
    return _("%(sessions)s, %(amount)s cr held") % {"sessions": said, "amount": display_credits(held)}


def _entry(session: Session, found: Details, now: datetime) -> dict[str, Any]:
    entry, cost = found.places[session.pk].entry, found.open_cost_of(session)
    return {
        "id": session.pk,
        "name": session.name,
        "url": reverse("session", args=[session.pk]),
        "state": session.state,
        "share": words.share_of(session),
        "what": _what(session),
        "waiting_text": _("waiting for %(time)s") % {"time": wording.duration(now - entry.enqueued_at)},
        "holds_micro": cost.held if cost else 0,
    }


def _what(session: Session) -> str:
    """Such as "XL of A100 80GB", "2 cards of H100 80GB, preemptible"."""
    gpu = session.offering.name if session.offering else ""
    size = words.size_name(session.tier, session.cards) or _("own shape")
    said = _("%(size)s of %(gpu)s") % {"size": size, "gpu": gpu} if gpu else size
    return _("%(what)s, preemptible") % {"what": said} if session.preemptible else said


# Lines ---------------------------------------------------------------------------------------------------------------


def _lanes(now: datetime) -> list[dict[str, Any]]:
    """One row an offering."""
    lines, curves = lanes.lines(now), lanes.curves(now)
    return [
        _lane(row.name, lines.get(row.id, lanes.Line()), curves.get(row.id), now) for row in catalog.active_offerings()
    ]


def _lane(name: str, row: lanes.Line, curve: list[tuple[datetime, int]] | None, now: datetime) -> dict[str, Any]:
    return {
        "name": name,
        "waiting": row.waiting,
        "first_wait": wording.duration(now - row.first_since) if row.first_since else "",
        "median_wait": _minutes(row.median),
        "longest_wait": _minutes(row.longest),
        "series": _series(curve, now),
    }


def _minutes(span: timedelta | None) -> str:
    """Whole minutes: seconds say nothing of a wait."""
    if span is None:
        return ""
    return wording.duration(span) if span >= timedelta(minutes=1) else _("%(minutes)d min") % {"minutes": 0}


def _series(curve: list[tuple[datetime, int]] | None, now: datetime) -> Series:
    start = now - lanes.DAY
    points = [Point(at, waiting, str(waiting)) for at, waiting in curve or [(start, 0), (now, 0)]]
    top = max(4, *(waiting for _at, waiting in curve or [(now, 0)]))
    return Series(name=_("Waiting"), points=points, start=start, end=now, top=top)


def _note(penalty: timedelta) -> str:
    order = _("priority first, then waiting time.")
    minutes = round(penalty / timedelta(minutes=1))
    if not minutes:
        return order
    moved = ngettext(
        "Your use of the last week moves you back %(n)d min",
        "Your use of the last week moves you back %(n)d min",
        minutes,
    )
    return f"{order} {moved % {'n': minutes}}"
