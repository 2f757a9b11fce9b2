"""When those in line will be placed, with what the estimate rests on.

Guarantees: estimates are an outlook over what runs and who waits, made anew every `outlook_period` and when somebody left
the line; where nothing says when others end, the estimate is unknown. At most `LONGEST` entries are looked at: whoever stands
further back has none yet. Whose estimate or place changed is told, so that open pages show it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from cluster import fleets
from cluster import services as cluster
from cluster.domain.outlook import Start, Waiter, outlook
from cluster.domain.placement import Request
from gshare_core.kit import clock
from sessions_app import ends, line, plans, preemption
from sessions_app.domain.queue import Pass, Waiting
from sessions_app.models import QueueEntry, Session
from sessions_app.queue import request_of

LONGEST = 200
_SAME = timedelta(minutes=1)  # estimates that differ by less are left alone


# The order as this process told it the last time. Only a hint: who is told once too often, or not, reads the rows anyway.
_told: dict[str, list[UUID]] = {}


def refresh() -> int:
    """Make the estimates of the first in line anew; answers how many changed. A tick."""
    at = clock.now()
    first = [entry for entry, _ in zip(line.in_order(Pass()), range(LONGEST), strict=False)]
    waiters = _waiters(first, at)
    found = outlook(fleets.unkept(), cluster.holdings(ends.ends(at)), waiters, at) if waiters else {}
    found |= {session: Start(kept, hard=True) for session, kept in cluster.kept_until().items() if kept is not None}
    looked_at = {waiter.session for waiter in waiters}
    preempting = preemption.waiting_for_room(looked_at)
    changed = set()
    for entry in QueueEntry.objects.filter(session__in=looked_at).order_by("session_id"):
        estimate, basis = _says(found.get(entry.session_id), preempts=entry.session_id in preempting)
        if basis == entry.basis and not _differ(estimate, entry.estimate_at):
            continue
        if QueueEntry.objects.filter(pk=entry.pk).update(estimate_at=estimate, basis=basis):
            changed.add(entry.session_id)
    line.tell(changed | _moved(first))
    return len(changed)


def _moved(first: list[Waiting]) -> set[UUID]:
    """Who of the first in line has another place in his lane than when this process looked the last time."""
    lanes: dict[str, list[UUID]] = {}
    for entry in first:
        lanes.setdefault(entry.bucket.lane, []).append(entry.session)
    moved = {
        session
        for lane, order in lanes.items()
        for place, session in enumerate(order)
        if session in _told.get(lane, ()) and _told[lane].index(session) != place
    }
    _told.clear()
    _told.update(lanes)
    return moved


def _waiters(first: list[Waiting], at: datetime) -> list[Waiter]:
    """What the first in line ask for, in order."""
    sessions = Session.objects.select_related("owner").in_bulk([entry.session for entry in first])
    bounds = ends.runtime_bounds((s.owner_id, s.group_id) for s in sessions.values())
    usual = ends.usual_runtimes(at)
    requests: dict[object, Request | None] = {}
    waiters, sight = [], plans.Sight(at)
    for entry in first:
        session = sessions.get(entry.session)
        if session is None:
            continue
        if entry.bucket not in requests:
            requests[entry.bucket] = request_of(session, sight)
        request = requests[entry.bucket]
        if request is None:
            continue
        bound = bounds[session.owner_id, session.group_id]
        lasts = bound or usual.get((session.offering_id, session.tier))
        waiters.append(Waiter(session.pk, request, lasts, hard=bound is not None))
    return waiters


def _says(start: Start | None, *, preempts: bool) -> tuple[datetime | None, str]:
    if start is None:
        return None, QueueEntry.Basis.UNKNOWN
    if preempts:
        return start.at, QueueEntry.Basis.PREEMPTED
    return start.at, QueueEntry.Basis.MAX_RUNTIME if start.hard else QueueEntry.Basis.TYPICAL


def _differ(one: datetime | None, other: datetime | None) -> bool:
    if one is None or other is None:
        return one is not other
    return abs(one - other) >= _SAME
