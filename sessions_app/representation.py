"""A session as the API shows it (`interfaces.md`, section 1). Pure composition of rows that were read before."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gshare_core.money import format_credits
from gshare_core.quantities import format_share, microseconds_between
from sessions_app.domain.lifecycle import State
from sessions_app.models import Run, Session, TimelineEntry
from sessions_app.queries import Details, details


def represent_many(sessions: list[Session], *, now: datetime) -> list[dict[str, Any]]:
    """Sessions with their money and place, in a constant number of queries."""
    found = details(sessions)
    return [represent(session, found, now=now) for session in sessions]


def represent_one(session: Session, *, now: datetime) -> dict[str, Any]:
    """One session."""
    return represent(session, details([session]), now=now)


def represent(session: Session, found: Details, *, now: datetime) -> dict[str, Any]:
    """The session's document."""
    run = found.run_of(session)
    return {
        "id": str(session.pk),
        "name": session.name,
        "state": session.state,
        "reason": session.reason or None,
        "detail": session.detail,
        "owner": {"id": str(session.owner_id), "email": session.owner.email},
        "group": str(session.group_id),
        "organisation": str(session.organisation_id),
        "mode": session.mode,
        "offering": _text(session.offering_id),
        "preset": _text(session.preset_id),
        "image": str(session.image_id),
        "resources": {
            "cpu_milli": session.cpu_milli,
            "memory_mib": session.memory_mib,
            "scratch_gib": session.scratch_gib,
        },
        "gpu": _gpu(session, run),
        "run": session.run_number,
        "version": session.version,
        "created_at": _time(session.created_at),
        "state_since": _time(session.state_since),
        "ended_at": _time(session.ended_at),
        "running_seconds": running_seconds(session, run, now),
        "cost": cost(session, found),
        "queue": _queue(session, found),
        "idle": _idle(session, found),
        "runtime": _runtime(session, found),
        "apps": list(found.apps_of(session)),
        "volumes": session.mounts,
        "pause_mode": session.pause_mode,
        "preemptible": session.preemptible,
        "priority": session.priority,
        "auto_resume": session.auto_resume,
        "resume_at": _time(session.resume_at),
        "allowed": session.allowed,
    }


def cost(session: Session, found: Details) -> dict[str, Any]:
    """Hourly rate, cost of this run so far, what was charged in all, the hold and how long it lasts."""
    current = found.cost_of(session)
    still_open = found.open_cost_of(session)
    charged = session.charged + (still_open.charged if still_open else 0)
    return {
        "hourly_credits": format_credits(current.hourly if current else 0),
        "accrued": format_credits(current.accrued if current else 0),
        "charged": format_credits(charged),
        "held": format_credits(current.held if current else 0),
        "lasts_until": _time(current.hold_ends_at) if current else None,
    }


def running_seconds(session: Session, run: Run | None, now: datetime) -> int:
    """Whole seconds of running time over all runs."""
    open_us = 0
    if run is not None and run.closed_at is None and run.ready_at is not None:
        open_us = microseconds_between(run.ready_at, run.end_asked_at or now)
    return (session.running_us + open_us) // 1_000_000


def timeline_row(row: TimelineEntry) -> dict[str, Any]:
    """A row of `/sessions/{id}/timeline`."""
    return {
        "at": _time(row.at),
        "run": row.run,
        "event": row.event,
        "from": row.from_state or None,
        "to": row.to_state or None,
        "actor": row.actor,
        "reason": row.reason or None,
        "detail": row.detail,
        "charged": format_credits(row.charged),
        "held": format_credits(row.held),
        "billed_from": _time(row.billed_from),
        "billed_to": _time(row.billed_to),
    }


def _gpu(session: Session, run: Run | None) -> dict[str, Any] | None:
    if session.mode == "cpu":
        return None
    kind = "exclusive" if session.mode == "exclusive" else "shared"
    holds = run is not None and run.closed_at is None
    cards = [{"uuid": uuid, "node": run.node, "kind": kind} for uuid in run.card_uuids] if run and holds else []
    return {
        "vram_mib": session.vram_mib,
        "core_percent": session.core_percent,
        "cards": cards,
        "occupancy": format_share(session.occupancy),
    }


def _queue(session: Session, found: Details) -> dict[str, Any] | None:
    place = found.places.get(session.pk)
    if session.life is not State.QUEUED or place is None:
        return None
    entry = place.entry
    return {
        "lane": entry.lane,
        "position": place.position,
        "reason": place.reason,
        "detail": place.detail,
        "missing": place.missing,
        "estimate_at": _time(entry.estimate_at),
        "basis": entry.basis,
    }


def _idle(session: Session, found: Details) -> dict[str, Any]:
    """The stored verdict; of a session that was paused, the one that paused it, without an end to come."""
    row, running = found.activity_of(session), session.life is State.RUNNING
    return {
        "state": row.state if row and running else None,
        "idle_since": _time(row.idle_since) if row else None,
        "will_pause_at": _time(row.pause_at) if row and running else None,
        "timeout_min": row.timeout_min if row else None,
        "kept_alive_until": _time(session.kept_alive_until),
        "evidence": row.evidence if row else {},
    }


def _runtime(session: Session, found: Details) -> dict[str, Any]:
    """The longest run that the limits allow, and when it ends; counted since the last create or resume."""
    row = found.activity_of(session)
    if row is None or session.life is not State.RUNNING:
        return {"max_min": None, "ends_at": None}
    return {"max_min": row.runtime_max_min, "ends_at": _time(row.runtime_ends_at)}


def _time(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


def _text(value: object | None) -> str | None:
    return str(value) if value else None
