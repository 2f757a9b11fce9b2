"""The idle window of a session's page: countdown with its evidence, what keeps it awake, and the longest run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from gshare_core.kit import wording
from sessions_app import idle_words, services
from sessions_app.domain import countdown, idle
from sessions_app.domain.lifecycle import State
from sessions_app.idle_words import Fact
from sessions_app.models import Run, RunActivity, Session

FIRST_LOOK = timedelta(minutes=1)  # two beats: by then the cluster has told what a new run uses


@dataclass(frozen=True, slots=True)
class Window:
    """From idle since to the pause, with its two warnings; `keep_alive_until`: what one more asking would give, if anything."""

    since: datetime
    pause_at: datetime
    warnings: tuple[datetime, datetime]
    evidence: list[Fact]
    keep_alive_until: datetime | None
    kept_until: datetime | None


def window(session: Session, row: RunActivity | None, now: datetime) -> Window | None:
    """The countdown of a session that has been idle for a while; None for any other."""
    if row is None or not is_counting(session, row, now) or row.idle_since is None or row.pause_at is None:
        return None
    first, second = countdown.leads(timedelta(minutes=row.timeout_min or 0))
    span = services.keep_alive_span(session)
    until = max(now + span, session.kept_alive_until or now) if span else None
    kept = session.kept_alive_until if session.kept_alive_until and session.kept_alive_until > now else None
    return Window(
        since=row.idle_since,
        pause_at=row.pause_at,
        warnings=(row.pause_at - first, row.pause_at - second),
        evidence=idle_words.facts(row.evidence, now),
        keep_alive_until=until,
        kept_until=kept,
    )


def is_counting(session: Session, row: RunActivity, now: datetime) -> bool:
    """Whether a pause is in sight: idle for as long as the last warning comes before it. A moment's rest is no news."""
    if session.life is not State.RUNNING or row.idle_since is None or not row.timeout_min:
        return False
    return now - row.idle_since >= countdown.leads(timedelta(minutes=row.timeout_min))[1]


def awake(session: Session, run: Run | None, row: RunActivity | None, now: datetime) -> dict[str, Any] | None:
    """What keeps a running session from being idle, or why nobody can tell: title, text, evidence.

    In a run's first minute nobody can tell because nothing was measured yet, which is no news and needs no evidence.
    """
    if row is None or session.life is not State.RUNNING or not row.timeout_min or is_counting(session, row, now):
        return None
    text = _("It is paused after %(time)s without use.") % {"time": wording.duration(row.timeout_min * 60)}
    evidence = idle_words.facts(row.evidence, now)
    if row.state == idle.State.UNKNOWN and run is not None and run.ready_at and now - run.ready_at < FIRST_LOOK:
        title, evidence = _("Just started"), []
    elif row.state == idle.State.UNKNOWN:
        title, text = _("Whether it is idle is unknown"), _("It is not paused while that is so.")
    else:
        title = _("In use")
    return {"title": title, "text": text, "evidence": evidence}


def was_idle(session: Session, row: RunActivity | None, now: datetime) -> list[Fact]:
    """The evidence on which a session was paused; nothing for any other."""
    if row is None or session.reason != "idle" or session.life not in {State.PAUSING, State.PAUSED}:
        return []
    return idle_words.facts(row.evidence, now)


def longest_run(session: Session, row: RunActivity | None, now: datetime) -> dict[str, Any] | None:
    """The news that a session's longest run is about to end; None while that is further away than its first warning."""
    if row is None or session.life is not State.RUNNING or row.runtime_ends_at is None or not row.runtime_max_min:
        return None
    if row.runtime_ends_at - now > countdown.leads(timedelta(minutes=row.runtime_max_min))[0]:
        return None
    words = {"time": wording.clock(row.runtime_ends_at, now), "limit": wording.duration(row.runtime_max_min * 60)}
    return {
        "tone": "starting",
        "icon": "idle",
        "title": _("Pauses at %(time)s: its longest run of %(limit)s is reached") % words,
        "text": _("Save your work. Its volumes are kept, and it can be resumed for another run of full length."),
        "words": "",
        "percent": None,
    }


def setup_facts(row: RunActivity | None, now: datetime) -> list[dict[str, str]]:
    """The limits of idling and running, for the page's side."""
    if row is None or row.judged_at is None:
        return []
    facts = []
    if row.timeout_min:
        facts.append(
            {"name": _("Idle pause"), "text": _("after %(time)s") % {"time": wording.duration(row.timeout_min * 60)}}
        )
    if row.runtime_max_min and row.runtime_ends_at:
        words = {"limit": wording.duration(row.runtime_max_min * 60), "time": wording.clock(row.runtime_ends_at, now)}
        facts.append({"name": _("Longest run"), "text": _("%(limit)s, until %(time)s") % words})
    return facts
