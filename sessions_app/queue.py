"""The line: who waits for which lane, and taking its head off when there is room.

Guarantees: the order (priority descending, `order_at`, id) is total and read by an index; a blocked head stops its own lane
only; an entry that another gate refuses keeps its place and shows why while those behind it are tried; one bad row
stops nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import structlog

from sessions_app import admission, priorities
from sessions_app.models import QueueEntry, Session
from sessions_app.spec import lanes_of

logger = structlog.get_logger(__name__)

# Refusals of capacity: nobody behind such a head may pass it.
_BLOCKS_LANE = frozenset({"not_now", "never", "in_line", "start_failed"})


def in_order(lane: str) -> Iterator[UUID]:
    """The sessions of a lane, first come first."""
    entries = QueueEntry.objects.filter(lane=lane).order_by("-priority", "order_at", "session_id")
    yield from entries.values_list("session_id", flat=True).iterator(chunk_size=200)


def lanes() -> list[str]:
    """The lanes that somebody waits in, in a stable order."""
    return list(QueueEntry.objects.order_by("lane").values_list("lane", flat=True).distinct())


def position(session: Session) -> int | None:
    """The place in its lane, 1 for the head; None when it does not wait."""
    entry = QueueEntry.objects.filter(session=session).first()
    if entry is None:
        return None
    ahead = QueueEntry.objects.filter(lane=entry.lane).extra(
        where=["(-priority, order_at, session_id) < (%s, %s, %s)"],
        params=[-entry.priority, entry.order_at, entry.session_id],
    )
    return ahead.count() + 1


def drain_lane(lane: str) -> int:
    """Place heads of a lane until one has to wait for capacity; answers how many left the line."""
    left = 0
    for session_id in list(in_order(lane)):
        try:
            if admission.dequeue(session_id):
                left += 1
                continue
        except Exception as error:
            # One row that cannot be judged, for whatever reason, stops nobody behind it.
            logger.exception("dequeue_failed", session=str(session_id), lane=lane, error=str(error))
            continue
        entry = QueueEntry.objects.filter(session_id=session_id).first()
        if entry is not None and entry.reason in _BLOCKS_LANE:
            break
    return left


def follow_pools() -> int:
    """Move entries whose pools have changed into the lane that newcomers enter now, each at its place; answers how many.

    Else whoever comes after the change would stand in another lane and pass them.
    """
    waiting = list(QueueEntry.objects.select_related("session").order_by("session_id"))
    lanes_now = lanes_of([entry.session for entry in waiting])
    moved = 0
    for entry in waiting:
        lane = lanes_now[entry.session_id]
        if lane != entry.lane:
            moved += QueueEntry.objects.filter(session=entry.session_id, lane=entry.lane).update(lane=lane)
    return moved


def drain() -> int:
    """One pass over every lane."""
    follow_pools()
    priorities.follow_policies()
    return sum(drain_lane(lane) for lane in lanes())
