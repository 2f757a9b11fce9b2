"""Sessions as rows of the dashboard and the list: one shape for `components/session_row.html`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.queries import Details
from sessions_app.views import idle, wait, words

_ACTS = {
    State.RUNNING: "open",
    State.PAUSED: "resume",
    State.PAUSING: "resume",
    State.QUEUED: "cancel",
    State.STARTING: "stop",
    State.LOST: "stop",
}


def rows(sessions: Iterable[Session], found: Details, *, now: datetime) -> list[dict[str, Any]]:
    """One dictionary a session, as the row component wants it."""
    return [_row(session, found, now) for session in sessions]


def _row(session: Session, found: Details, now: datetime) -> dict[str, Any]:
    run, cost = found.run_of(session), found.cost_of(session)
    charged, place = found.cost_so_far(session), found.places.get(session.pk)
    activity = found.activity_of(session)
    pause_at = activity.pause_at if activity and idle.is_counting(session, activity, now) else None
    never_ran = session.life is State.QUEUED and charged == 0
    return {
        "id": session.pk,
        "url": reverse("session", args=[session.pk]),
        "name": session.name,
        "state": session.state,
        "share": words.share_of(session),
        "cards": session.cards,
        "offering": session.offering.name if session.offering else "",
        "node": run.node if run and run.closed_at is None else "",
        "use": None,
        "use_text": "",
        "rate_micro_per_hour": cost.hourly if cost else 0,
        "free_now": _("free while paused") if session.life is State.PAUSED else "",
        "cost_micro": None if never_ran else charged,
        "version": session.version,
        "next": wait.next_of(place, now) if place else words.next_of(session, run, now, pause_at),
        "act": _ACTS.get(session.life, ""),
        "apps": words.open_apps(session, run),
    }
