"""Own entries in the lines, with place and reason, and the lines that could be joined."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer
from gshare_core.money import display_credits
from sessions_app import overview, queries
from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.queries import Details
from sessions_app.views import words
from sessions_app.views.acts import signed_in

LIMIT = 100


@login_required
@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """The page, or its list."""
    user, now = signed_in(request), clock.now()
    waiting = list(queries.sessions_of(user).filter(state=State.QUEUED).order_by("line_at", "id")[:LIMIT])
    found = queries.details(waiting)
    held = sum(cost.held for session in waiting if (cost := found.open_cost_of(session)))
    context = {
        "now": now,
        "queue_text": _text(len(waiting), held),
        "entries": [_entry(session, found, now) for session in waiting],
        "lanes": [
            {
                "name": offer.row.name,
                "waiting": offer.queue_length,
                "first_wait": "",
                "median_wait": "",
                "longest_wait": "",
                "series": None,
            }
            for offer in overview.offers()
        ],
        "lanes_note": "",
        "versions": {"queue": ""},
    }
    return answer(request, "sessions_app/queue.html", context, fragments=("queue-list",))


def _text(count: int, held: int) -> str:
    if not count:
        return ""
    said = ngettext("%(n)d session waits", "%(n)d sessions wait", count) % {"n": count}
    return _("%(sessions)s, %(amount)s cr held") % {"sessions": said, "amount": display_credits(held)}


def _entry(session: Session, found: Details, now: Any) -> dict[str, Any]:
    place, cost = found.places.get(session.pk), found.open_cost_of(session)
    entry = place.entry if place else None
    return {
        "id": session.pk,
        "name": session.name,
        "url": reverse("session", args=[session.pk]),
        "state": session.state,
        "share": words.share_of(session),
        "what": session.offering.name if session.offering else "",
        "waiting_text": _("waiting for %(time)s") % {"time": wording.duration(now - entry.enqueued_at)}
        if entry
        else "",
        "holds_micro": cost.held if cost else 0,
        "place": place.position if place else None,
        "of_text": _("of %(n)d in line") % {"n": place.length} if place else "",
        "title": capfirst(words.queue_reason(place)) if place else "",
        "text": words.queue_text(place) if place else "",
        "picture": None,
        "at": None,
        "basis": _("nothing says when others end"),
    }
