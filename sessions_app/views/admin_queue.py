"""Who waits in a scope: line by line in its order, why, since when, and with what priority."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from accounts.administrators import Administrator, administrators_only
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer
from sessions_app import oversight, queries
from sessions_app.models import QueueEntry
from sessions_app.queries import Place
from sessions_app.views import wait, words
from sessions_app.views.admin_overview import wants

LIMIT = 200


@administrators_only
@require_GET
def queue(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The page, or its list."""
    now = clock.now()
    waiting = oversight.waiting(administrator.reach, LIMIT)
    places = queries.places([entry.session_id for entry in waiting.rows]) if waiting.rows else {}
    context = {
        "now": now,
        "lanes": _lanes(waiting.rows, places, now),
        "queue_text": _text(waiting, now),
        "left_out": max(0, waiting.count - len(waiting.rows)),
    }
    return answer(request, "sessions_app/admin/queue.html", context, fragments=("queue-list",))


def _text(waiting: oversight.Waiting, now: datetime) -> str:
    if not waiting.count or waiting.first_since is None:
        return ""
    said = ngettext("%(n)d session waits", "%(n)d sessions wait", waiting.count) % {"n": waiting.count}
    longest = wording.duration(now - waiting.first_since)
    return _("%(sessions)s, the longest for %(time)s") % {"sessions": said, "time": longest}


def _lanes(entries: tuple[QueueEntry, ...], places: Mapping[UUID, Place], now: datetime) -> list[dict[str, Any]]:
    """One dictionary a lane. Lanes of one GPU differ by the pools that who stands in them may use."""
    by_lane: dict[str, list[QueueEntry]] = {}
    for entry in entries:
        if entry.session_id in places:  # who left meanwhile is no longer in line
            by_lane.setdefault(entry.lane, []).append(entry)
    seen: dict[str, int] = {}
    lanes = []
    for number, rows in enumerate(by_lane.values(), 1):
        offering = rows[0].session.offering
        name = offering.name if offering else _("Without a GPU")
        seen[name] = seen.get(name, 0) + 1
        length = places[rows[0].session_id].length
        title = name if seen[name] == 1 else _("%(gpu)s, other pools") % {"gpu": name}
        shown = [_row(entry, places[entry.session_id], now) for entry in rows]
        lanes.append({"key": f"lane-{number}", "name": title, "text": _of(len(rows), length), "rows": shown})
    return lanes


def _of(shown: int, length: int) -> str:
    said = ngettext("%(n)d waits", "%(n)d wait", length) % {"n": length}
    return said if shown >= length else _("%(all)s, %(shown)d of them in your scope") % {"all": said, "shown": shown}


def _row(entry: QueueEntry, place: Place, now: datetime) -> dict[str, Any]:
    session, likely = entry.session, wait.likely(place, now)
    moved = round((entry.order_at - entry.enqueued_at) / timedelta(minutes=1))
    return {
        "id": session.pk,
        "name": session.name,
        "url": reverse("admin_session", args=[session.pk]),
        "owner": session.owner.email,
        "group": session.group.name,
        "position": place.position,
        "share": words.share_of(session),
        "wants": wants(session),
        "since": entry.enqueued_at,
        "waits": wording.duration(now - entry.enqueued_at),
        "moved": _("moved back %(n)d min by recent use") % {"n": moved} if moved > 0 else "",
        "why": words.queue_reason(place),
        "priority": entry.priority,
        "estimate": likely["at"],
        "basis": likely["basis"],
    }
