"""One session: state and reason in words, applications, figures, where it runs, timeline with money."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET

from cluster.loads import card_loads
from cluster.queries import volumes_by_id
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer
from gshare_core.money import display_credits
from sessions_app import queries
from sessions_app.domain.lifecycle import TERMINAL, Event, State
from sessions_app.models import Run, Session, TimelineEntry
from sessions_app.queries import Details
from sessions_app.representation import running_seconds
from sessions_app.views import cards, idle, wait, words
from sessions_app.views.acts import signed_in
from sessions_app.views.money import live_of

FRAGMENTS = ("session-head", "session-now", "session-use", "session-side", "timeline")
TIMELINE_ROWS = 100


@login_required
@require_GET
def session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The page, or the part of it that asks."""
    found = get_object_or_404(queries.visible_sessions(signed_in(request)), pk=session_id)
    return answer(request, "sessions_app/session.html", facts(request, found, clock.now()), fragments=FRAGMENTS)


def facts(request: HttpRequest, found: Session, now: datetime) -> dict[str, Any]:
    """What there is to say of a session, for whichever console shows it."""
    details = queries.details([found])
    run, activity = details.run_of(found), details.activity_of(found)
    timeline = queries.timeline(found, TIMELINE_ROWS)
    return {
        "now": now,
        "session": _head(found, run, now),
        "figures": _figures(found, details),
        "news": _news(found, run) or idle.longest_run(found, activity, now),
        "wakes": _wakes(found, now),
        "wait": _wait(request, found, details, now),
        "idle": idle.window(found, activity, now),
        "awake": idle.awake(found, run, activity, now),
        "was_idle": idle.was_idle(found, activity, now),
        "place": _place(request, found, run),
        "setup": _setup(found, run)
        if run is None or run.closed_at
        else _setup(found, run, idle.setup_facts(activity, now)),
        "volumes": _volumes(found),
        "charts": [],
        "ranges": [],
        "live_text": "",
        "timeline": timeline_rows(timeline, now),
        "total": _total(found, details),
        "older_url": "",
        "logs_url": reverse("session_logs", args=[found.pk]) if run else "",
        "summary": _summary(found, run, now),
    }


def _head(session: Session, run: Run | None, now: datetime) -> dict[str, Any]:
    ran = running_seconds(session, run, now)
    text = _("%(time)s, run %(number)d") % {"time": wording.duration(ran), "number": session.run_number}
    return {
        "id": session.pk,
        "name": session.name,
        "url": "",
        "state": session.state,
        "running_text": text if ran else "",
        "version": session.version,
        "reason_text": _state_text(session),
        "allowed": session.allowed,
        "apps": words.open_apps(session, run),
        "stop_word": _("Cancel") if session.life is State.QUEUED else _("Stop"),
    }


def _state_text(session: Session) -> str:
    """Why it is in this state, in a sentence."""
    why = wording.reason_words(session.reason)
    match session.life:
        case State.QUEUED:
            return _("It starts by itself when its turn comes.")
        case State.STARTING:
            return _("Its applications open here when it runs.")
        case State.PAUSING:
            return _("It gives its card back.") + (f" ({why})" if why else "")
        case State.PAUSED:
            said = _("Paused: free, volumes kept.")
            own = words.own_words(session.detail) if session.reason in {"", "user"} else ""  # else the news tells it
            return f"{said} {own}".strip()
        case State.STOPPING:
            return _("It shuts down.")
        case State.LOST:
            return _("Its cluster is silent. Nothing is billed until it is heard again.")
        case State.STOPPED | State.FAILED:
            state = str(wording.state_look(session.state).word)
            said = _("%(state)s: %(why)s") % {"state": capfirst(state), "why": why} if why else ""
            return " ".join(filter(None, (said, words.own_words(session.detail))))
    return ""


def _figures(session: Session, details: Details) -> list[dict[str, Any]]:
    cost = details.cost_of(session)
    if session.mode == "cpu":
        return [{"name": _("Rate"), "micro": 0, "per": "h", "note": _("sessions without a GPU are free")}]
    of_run, so_far = cost.total if cost else 0, details.cost_so_far(session)
    figures: list[dict[str, Any]] = [
        {"name": _("Rate"), "micro": cost.hourly if cost else 0, "per": "h"},
        {"name": _("This run"), "micro": of_run, "per": ""},
        {"name": _("All runs"), "micro": so_far, "per": ""},
        {"name": _("Held"), "micro": cost.held if cost else 0, "per": ""},
    ]
    if cost and cost.hold_ends_at:
        figures.append({"name": _("Hold lasts until"), "micro": None, "at": cost.hold_ends_at})
    return figures


def _news(session: Session, run: Run | None) -> dict[str, Any] | None:
    """What needs telling beside the state: coming up, pulling, failed with the container's own words."""
    said = run.message if run else ""
    if session.life is State.STARTING:
        pulling = session.detail == "pulling"
        title = _("Pulling the image") if pulling else _("Coming up")
        text = _("Not billed until it is ready.") if session.mode != "cpu" else _("It takes a few seconds.")
        return {"tone": "starting", "icon": "moving", "title": title, "text": text, "words": said, "percent": None}
    if session.life is State.FAILED:
        title = capfirst(wording.reason_words(session.reason)) or _("It failed")
        return {
            "tone": "failed",
            "icon": "failed",
            "title": title,
            "text": words.own_words(session.detail),
            "words": said,
            "percent": None,
        }
    if session.life is State.LOST:
        text = _("It may still run. Nothing is billed; it comes back or is paused by itself.")
        return {"tone": "lost", "icon": "lost", "title": _("Silent"), "text": text, "words": "", "percent": None}
    if session.life is State.PAUSED and session.reason not in {"", "user"}:
        title = capfirst(wording.reason_words(session.reason))
        kept = (
            _("What its volumes hold is kept.")
            if session.resume_at
            else _("Resume it to go on. What its volumes hold is kept.")
        )
        return {
            "tone": "paused",
            "icon": "paused",
            "title": title,
            "text": words.own_words(session.detail) or kept,
            "words": "",
            "percent": None,
        }
    return None


def _wakes(session: Session, now: datetime) -> dict[str, str] | None:
    """When a paused session resumes by itself, or what for; None where it does not."""
    if session.life is not State.PAUSED or session.resume_at is None:
        return None
    due = {"time": wording.clock(max(session.resume_at, now), now)}
    waits_for = _WAITS_FOR.get(session.reason)
    if waits_for:
        return {"title": str(waits_for), "text": _("It is tried again at %(time)s.") % due}
    soon = _("Resumes by itself in a moment")
    title = _("Resumes by itself at %(time)s") % due if session.resume_at > now else soon
    return {"title": title, "text": _("It then starts, or waits in line, like any resume.")}


_WAITS_FOR = {
    "credit_exhausted": gettext_lazy("Resumes by itself when there are credits again"),
    "budget_exhausted": gettext_lazy("Resumes by itself when the budget has room again"),
}


def _own(request: HttpRequest, session: Session) -> dict[UUID, str]:
    """The names that the viewer may read on a card: this session's, and for its owner those of his others."""
    if session.owner_id != request.user.pk:
        return {session.pk: session.name}
    return {other.pk: other.name for other, _run in live_of(request)} | {session.pk: session.name}


def _wait(request: HttpRequest, session: Session, details: Details, now: datetime) -> dict[str, Any] | None:
    place = details.places.get(session.pk)
    if place is None:
        return None
    return wait.wait_of(session, place, wait.surroundings(details.places), own=_own(request, session), now=now)


def _place(request: HttpRequest, session: Session, run: Run | None) -> dict[str, Any] | None:
    if run is None or not run.node or run.closed_at is not None:
        return None
    note = _("no card, host only") if session.mode == "cpu" else (session.offering.name if session.offering else "")
    place: dict[str, Any] = {"node": run.node, "index": None, "offering": note, "note": note, "card": None, "words": ""}
    loads = card_loads(uuids=run.card_uuids) if session.offering else []
    if loads:
        place["index"] = ", ".join(str(load.index) for load in loads)
        place["card"] = cards.picture(loads[0], own=_own(request, session))
    return place


def _setup(session: Session, run: Run | None, limits: Sequence[dict[str, str]] = ()) -> list[dict[str, str]]:
    memory = " ".join(wording.memory(session.memory_mib))
    facts = []
    if session.mode != "cpu":
        vram = " ".join(wording.memory(session.vram_mib))
        size = f"{words.size_name(session.tier, session.cards) or _('own shape')}, {vram}, {session.core_percent} %"
        facts.append({"name": _("Size"), "text": size})
    facts += [
        {
            "name": _("Host"),
            "text": _("%(cores)s, %(memory)s memory") % {"cores": wording.cores(session.cpu_milli), "memory": memory},
        },
        {"name": _("Scratch"), "text": f"{session.scratch_gib} GiB"},
        {"name": _("Image"), "text": session.image.name},
        {"name": _("Group"), "text": session.group.name},
        {"name": _("When pausing"), "text": _("gives the card back")},
        *limits,
    ]
    if run is not None and run.card_uuids and run.closed_at is None:
        facts.append({"name": _("Card"), "id": run.card_uuids[0], "text": ""})
    facts.append({"name": _("Session"), "id": str(session.pk), "text": ""})
    return facts


def _volumes(session: Session) -> list[dict[str, Any]]:
    known = volumes_by_id([UUID(mount["volume"]) for mount in session.mounts])
    return [
        {
            "path": mount["path"],
            "mode_text": _("read and write") if mount["mode"] == "rw" else _("read only"),
            "name": known[UUID(mount["volume"])].name,
            "used": 0,
            "size": None,
            "use_text": f"{known[UUID(mount['volume'])].size_gib} GiB",
        }
        for mount in session.mounts
        if UUID(mount["volume"]) in known
    ]


def timeline_rows(rows: list[TimelineEntry], now: datetime) -> list[dict[str, Any]]:
    """The timeline's rows, newest first; the first of each day names it."""
    shown: list[dict[str, Any]] = []
    last_day = ""
    for row in rows:
        day = wording.day(row.at, now)
        shown.append(
            {
                "at": row.at,
                "day": day if day != last_day else "",
                "rule": bool(shown) and day != last_day,
                "state": row.to_state or None,
                "text": _row_text(row),
                "by": row.actor if row.event in _BY_PEOPLE and row.actor != "system" else "",
                "charged_micro": row.charged or None,
                "held_micro": row.held or None,
            }
        )
        last_day = day
    return shown


_BY_PEOPLE = {
    Event.PLACED,
    Event.ENQUEUED,
    Event.PAUSE,
    Event.RESUME,
    Event.RESTART,
    Event.STOP,
    Event.PRIORITY,
    Event.STAY_PAUSED,
}


def _row_text(row: TimelineEntry) -> str:
    if row.event == Event.PRIORITY:
        words_of = _("priority %(change)s, as the limit is now") if row.reason == "policy" else _("priority %(change)s")
        return words_of % {"change": row.detail}
    if row.event == Event.PREEMPTS:
        many = int(row.detail)
        return ngettext(
            "%(n)d session of lower priority makes room for it",
            "%(n)d sessions of lower priority make room for it",
            many,
        ) % {"n": many}
    if row.event == Event.STAY_PAUSED:
        return ", ".join(filter(None, (_("does not resume by itself"), words.own_words(row.detail))))
    if not row.to_state:
        return _("%(event)s changed nothing") % {"event": row.event.replace("_", " ")}
    why = wording.reason_words(row.reason) if row.reason not in {"", "user"} else ""
    return ", ".join(filter(None, (why, words.own_words(row.detail))))


def _total(session: Session, details: Details) -> dict[str, Any] | None:
    if session.mode == "cpu":
        return None
    cost = details.open_cost_of(session)
    charged = session.charged + (cost.charged if cost else 0)
    accrued = cost.accrued if cost else 0
    text = _("Charged %(charged)s cr") % {"charged": display_credits(charged)}
    if accrued:
        text = _("Charged %(charged)s cr, and %(accrued)s cr since") % {
            "charged": display_credits(charged),
            "accrued": display_credits(accrued),
        }
    return {"text": text, "charged_micro": charged + accrued, "held_micro": cost.held if cost else 0}


def _summary(session: Session, run: Run | None, now: datetime) -> dict[str, Any] | None:
    if session.life not in TERMINAL:
        return None
    ran = wording.duration(running_seconds(session, run, now))
    facts = [
        (_("Ran"), ran),
        (_("Runs"), str(session.run_number)),
        (_("Cost"), _("%(amount)s cr") % {"amount": display_credits(session.charged)}),
        (_("Created"), wording.exact(session.created_at)),
    ]
    if session.ended_at:
        facts.append((_("Ended"), wording.exact(session.ended_at)))
    return {"facts": facts}
