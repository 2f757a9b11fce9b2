"""Gate 7: a place on the metal for a session's run, with its volumes, or why there is none.

Guarantees: attachments and claim are taken in one savepoint: where there is no room, nothing of it stays. Several that are
placed together each fit beside those before them, and the first that finds no room ends the row of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from cluster import services as cluster
from cluster.domain.placement import NoPlace
from gshare_core.kit import locks
from sessions_app import plans
from sessions_app.domain.facts import Facts
from sessions_app.models import Run, Session


@dataclass(slots=True)
class Placed:
    """Gate 7's answer: where the claim is, or why it has to wait."""

    reserved: cluster.Reserved | None = None
    reason: str = "not_now"
    detail: str = ""
    missing: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def why(self) -> dict[str, Any]:
        """Why it waits, as the line's rows say it."""
        return {"reason": self.reason, "detail": self.detail, "missing": self.missing}


class _NoRoomError(Exception):
    """Rolls a try back when the fleet has no place."""

    def __init__(self, found: NoPlace) -> None:
        super().__init__(found.detail)
        self.found = found


def place(session: Session, run: Run, plan: plans.Plan, facts: Facts) -> Placed:
    """Attachments and a claim in one savepoint, or why not."""
    try:
        if not session.mounts:
            return Placed(_claim(session, run, plan, facts))
        with locks.attempt():
            cluster.attach(run_id=run.pk, session_id=session.pk, mounts=session.mounts, at=facts.now)
            return Placed(_claim(session, run, plan, facts))
    except _NoRoomError as nothing:
        return no_room(nothing.found)


def no_room(found: NoPlace) -> Placed:
    """The answer where the fleet has no place."""
    return Placed(None, found.kind, found.detail, dict(found.short or {}))


def behind_others() -> Placed:
    """The answer for who would pass somebody in line who fits."""
    return Placed(reason="in_line", detail="Others are in line before it.")


def place_in_turn(asking: Sequence[tuple[Session, Run, plans.Plan, Facts]], *, at: datetime) -> list[cluster.Reserved]:
    """Claims for sessions without volumes, in their order, up to the first that finds no room."""
    wishes = []
    for session, run, plan, facts in asking:
        assert plan.request is not None
        wishes.append(cluster.Wish(plan.request, session.pk, run.pk, run.number, passage_of(session.pk, facts)))
    found = cluster.reserve_in_turn(wishes, at=at)
    return [one for one in found if not isinstance(one, NoPlace)]


def passage_of(session_id: UUID | None, facts: Facts) -> cluster.Passage:
    """Past what is kept for others goes only who must have ended before it is ready: start, work and end counted."""
    bound, limits = facts.rights.max_runtime_min.value, settings.GSHARE
    if not bound:
        return cluster.Passage(session_id)
    longest = limits.pull_timeout + limits.start_timeout + timedelta(minutes=bound) + limits.end_timeout
    return cluster.Passage(session_id, facts.now + longest)


def write_claim(run: Run, reserved: cluster.Reserved | None, at: datetime) -> None:
    """Where a run goes, on its row; the caller saves it."""
    if reserved is None:
        return
    run.placed_at = at
    run.cluster_id = reserved.cluster_id
    run.node = reserved.node
    run.card_uuids = list(reserved.cards)


def _claim(session: Session, run: Run, plan: plans.Plan, facts: Facts) -> cluster.Reserved:
    assert plan.request is not None
    found = cluster.reserve(
        request=plan.request,
        session_id=session.pk,
        run_id=run.pk,
        run=run.number,
        at=facts.now,
        passage=passage_of(session.pk, facts),
    )
    if isinstance(found, NoPlace):
        raise _NoRoomError(found)
    return found
