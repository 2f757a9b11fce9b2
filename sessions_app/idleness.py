"""The tick that judges what runs: is it idle, has it run its longest; warns, then pauses. It never ends anything for good.

Guarantees: every session that runs is looked at in each pass, with the policy in force then, so that a changed limit acts at
the next tick; a warning or a pause is decided again under the session's lock (somebody may just have kept it alive); nobody
is paused unwarned, and who is paused is told why, with the evidence. One session that fails stops nobody. Reading is a constant
number of statements a page, and only rows whose verdict changed are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from prometheus_client import Gauge
from pydantic import TypeAdapter

from accounts import notices
from accounts import queries as accounts
from accounts.queries import Effective
from accounts.services.common import in_language_of
from billing import queries as billing_queries
from cluster import heartbeat
from gshare_core.kit import clock, locks
from gshare_core.quantities import microseconds_between
from sessions_app import hints, idle_words
from sessions_app.activity import memory_of
from sessions_app.domain import countdown, idle
from sessions_app.domain.countdown import Step, Told
from sessions_app.domain.idle import Circumstances, Gap, Verdict
from sessions_app.domain.lifecycle import Event, State
from sessions_app.held import current_run, lock_session
from sessions_app.models import Run, RunActivity, Session
from sessions_app.stepping import stepped
from sessions_app.timeline import Cause, announce
from sessions_app.transition import transition

logger = structlog.get_logger(__name__)

BATCH = 200
LONGEST_MIN = 10 * 366 * 24 * 60  # who allows more than ten years has set no limit
USE_UNKNOWN = Gauge(
    "gshare_sessions_use_unknown",
    "Running sessions of which a part of their use is not known, so that they are never paused as idle.",
    ["part", "why"],
    multiprocess_mode="mostrecent",
)
_TOLD = TypeAdapter(Told)
_VERDICT_FIELDS = ("state", "timeout_min", "idle_since", "pause_at", "evidence", "runtime_max_min", "runtime_ends_at")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the policies say of one session, in minutes; None where they say nothing."""

    idle_timeout: int | None
    keep_alive_max: int | None
    max_runtime: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at one session came to: the verdict, and where its two countdowns stand."""

    limits: Limits
    verdict: Verdict
    idle: Step | None
    runtime: Step | None

    @property
    def acts(self) -> bool:
        """Whether something is to be announced or done now."""
        return any(step is not None and (step.warn or step.due) for step in (self.idle, self.runtime))


def judge() -> int:
    """One pass over everything that runs; answers how many sessions were looked at."""
    looked, after, unknown = 0, None, Counter[tuple[str, str]]()
    while page := _page(after):
        unknown += _pass(page)
        looked, after = looked + len(page), page[-1].session_id
    for part, why in idle.UNKNOWN:
        USE_UNKNOWN.labels(part, why).set(unknown[part, why])
    return looked


def _page(after: UUID | None) -> list[Run]:
    running = Run.objects.filter(closed_at=None, session__state=State.RUNNING).exclude(ready_at=None)
    if after is not None:
        running = running.filter(session_id__gt=after)
    return list(running.select_related("session", "activity").order_by("session_id")[:BATCH])


def _pass(runs: Sequence[Run]) -> Counter[tuple[str, str]]:
    """Judge these; answers how many of them have which part of their use unknown, and why."""
    now, unknown = clock.now(), Counter[tuple[str, str]]()
    limits = limits_of([run.session for run in runs])
    gaps = _gaps(runs, now)
    ran = _ran_us(runs, now)
    changed: dict[UUID, Look] = {}
    acting: list[UUID] = []
    for run, limit in zip(runs, limits, strict=True):
        row = _row_of(run)
        try:
            look = look_at(run, row, limit, ran_us=ran[run.pk], gaps=gaps, now=now)
        except Exception as error:
            # Whatever one row does not allow stops no other.
            logger.exception("idle_look_failed", session=str(run.session_id), error=str(error))
            continue
        unknown.update(
            (part, found["why"])
            for part, found in look.verdict.evidence.items()
            if found["state"] == idle.State.UNKNOWN
        )
        if _columns(row) != _columns_of(look):
            changed[run.pk] = look
        if look.acts:
            acting.append(run.session_id)
    _write(changed, now)
    for session_id in acting:
        if stepped(_act, session_id):
            hints.capacity_came_back()
    return unknown


def limits_of(sessions: Sequence[Session]) -> list[Limits]:
    """The limits in force of each session's owner in its group, in the sessions' order. Two statements."""
    found = accounts.effective_of([(session.owner_id, session.group_id) for session in sessions])
    return [_limits(found[session.owner_id, session.group_id]) for session in sessions]


def _limits(values: Mapping[str, Effective]) -> Limits:
    return Limits(
        idle_timeout=_minutes(values["idle_timeout_min"]),
        keep_alive_max=values["keep_alive_max_min"].value,
        max_runtime=_minutes(values["max_runtime_min"]),
    )


def _minutes(value: Effective) -> int | None:
    return value.value if value.value and value.value <= LONGEST_MIN else None


def look_at(run: Run, row: RunActivity, limits: Limits, *, ran_us: int, gaps: Sequence[Gap], now: datetime) -> Look:
    """Judge one running session as everything stands."""
    session = run.session
    timeout = timedelta(minutes=limits.idle_timeout) if limits.idle_timeout else None
    assert run.ready_at is not None
    what = Circumstances(
        # What came back after a silence begins anew too: nobody could have used or kept it alive meanwhile.
        running_since=max(run.ready_at, session.state_since),
        has_gpu=session.mode != "cpu",
        cpu_milli=session.cpu_milli,
        timeout=timeout,
        kept_until=_kept_until(session, limits),
        deaf=tuple(gaps),
    )
    verdict = idle.judge(what, memory_of(row), now)
    step = None
    if verdict.pause_at is not None and timeout is not None:
        step = countdown.step(verdict.pause_at, told_of(row.idle_told), timeout, now)
    return Look(limits, verdict, step, _runtime(session, row, limits, ran_us, now))


def _kept_until(session: Session, limits: Limits) -> datetime | None:
    """Until when it is kept alive, by what the policy allows now."""
    if session.kept_alive_until is None or limits.keep_alive_max is None or session.kept_alive_at is None:
        return session.kept_alive_until
    allowed = timedelta(minutes=min(limits.keep_alive_max, LONGEST_MIN))
    return min(session.kept_alive_until, session.kept_alive_at + allowed)


def _runtime(session: Session, row: RunActivity, limits: Limits, ran_us: int, now: datetime) -> Step | None:
    """The countdown to the longest running time since the session was last admitted; restarts do not begin it anew."""
    if not limits.max_runtime:
        return None
    limit = timedelta(minutes=limits.max_runtime)
    ran = timedelta(microseconds=session.running_us - session.running_us_at_admission + ran_us)
    return countdown.step(now + limit - ran, told_of(row.runtime_told), limit, now)


def _gaps(runs: Sequence[Run], now: datetime) -> tuple[Gap, ...]:
    since = min(max(run.ready_at, run.session.state_since) for run in runs if run.ready_at is not None)
    return tuple(Gap(start, end) for start, end in heartbeat.deaf_gaps(since, now))


def _ran_us(runs: Sequence[Run], now: datetime) -> dict[UUID, int]:
    """How long each open run has run: by its meter, without one since it was ready."""
    metered = billing_queries.running_us([run.pk for run in runs], at=now)
    return {
        run.pk: metered.get(run.pk, microseconds_between(run.ready_at, max(now, run.ready_at)) if run.ready_at else 0)
        for run in runs
    }


def told_of(stored: dict[str, Any]) -> Told:
    """What was announced, as it is stored."""
    return _TOLD.validate_python(stored) if stored else Told()


# Rows ----------------------------------------------------------------------------------------------------------------


def _row_of(run: Run) -> RunActivity:
    try:
        return run.activity
    except RunActivity.DoesNotExist:
        return RunActivity(run=run)


def _columns(row: RunActivity) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _VERDICT_FIELDS}


def _columns_of(look: Look) -> dict[str, Any]:
    return {
        "state": look.verdict.state.value,
        "timeout_min": look.limits.idle_timeout,
        "idle_since": look.verdict.idle_since,
        "pause_at": look.idle.at if look.idle else None,
        "evidence": dict(look.verdict.evidence),
        "runtime_max_min": look.limits.max_runtime,
        "runtime_ends_at": look.runtime.at if look.runtime else None,
    }


def _write(looks: dict[UUID, Look], now: datetime) -> None:
    if not looks:
        return
    with transaction.atomic():
        RunActivity.objects.bulk_create([RunActivity(run_id=pk) for pk in sorted(looks)], ignore_conflicts=True)
        rows = list(RunActivity.objects.filter(pk__in=looks).order_by("pk").select_for_update(no_key=True))
        for row in rows:
            _put(row, looks[row.pk], now)
        RunActivity.objects.bulk_update(rows, [*_VERDICT_FIELDS, "judged_at"])


def _put(row: RunActivity, look: Look, now: datetime) -> None:
    for name, value in _columns_of(look).items():
        setattr(row, name, value)
    row.judged_at = now


# Warnings and pauses -------------------------------------------------------------------------------------------------


def _act(session_id: UUID) -> bool:
    """Look again under the session's lock; announce or pause. Answers whether it was paused."""
    with locks.ordered():
        session = lock_session(session_id)
        run = current_run(session) if session is not None else None
        if session is None or run is None or session.life is not State.RUNNING or run.ready_at is None:
            return False
        RunActivity.objects.bulk_create([RunActivity(run=run)], ignore_conflicts=True)
        row = RunActivity.objects.select_for_update(no_key=True).get(run=run)
        run.session, now = session, clock.now()
        limits = limits_of([session])[0]
        look = look_at(run, row, limits, ran_us=_ran_us([run], now)[run.pk], gaps=_gaps([run], now), now=now)
        _put(row, look, now)
        told = look.runtime is not None and _announce(session, row, look.runtime, "runtime")
        told |= look.idle is not None and not _is_due(look.runtime) and _announce(session, row, look.idle, "idle")
        row.save()
        if not told:
            return False
        if _is_due(look.runtime):
            return _pause(session, run, row, "max_runtime", now)
        if _is_due(look.idle):
            return _pause(session, run, row, "idle", now)
        session.version += 1
        session.save(update_fields=["version"])
        announce(session)
        return False


def _is_due(step: Step | None) -> bool:
    return step is not None and step.due


def _announce(session: Session, row: RunActivity, step: Step, kind: str) -> bool:
    """Tell the owner what a countdown has to tell now; answers whether the page has something new (a pause too)."""
    setattr(row, f"{kind}_told", _TOLD.dump_python(step.told, mode="json"))
    if step.warn:
        with in_language_of(session.owner):
            said = idle_words.warning(session, row, kind, at=step.at)
        _notify(session, f"{kind}_warning", said, row.judged_at)
    return bool(step.warn) or step.due


def _pause(session: Session, run: Run, row: RunActivity, reason: str, now: datetime) -> bool:
    minutes = row.timeout_min if reason == "idle" else row.runtime_max_min
    detail = f"{'idle' if reason == 'idle' else 'ran'} for {minutes} min"
    if not transition(session, Cause(Event.PAUSE, reason=reason, detail=detail), at=now, run=run):
        return False
    with in_language_of(session.owner):
        said = idle_words.paused(session, row, reason)
    _notify(session, "session_paused", said, now)
    return True


def _notify(session: Session, kind: str, said: tuple[str, str], at: datetime | None) -> None:
    title, body = said
    notices.notify(
        user_id=session.owner_id,
        kind=kind,
        title=title,
        body=body,
        at=at or clock.now(),
        link=f"/sessions/{session.pk}/",
    )
