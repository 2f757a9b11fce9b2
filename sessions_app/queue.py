"""The line: who waits for which lane, and taking its head off when there is room.

Guarantees: the order (priority descending, `order_at`, id) is total and read by an index; a blocked head stops its own lane
only; an entry that another gate refuses keeps its place and shows why while those behind it are tried; one bad row
stops nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import structlog
from django.db import DatabaseError

from gshare_core.errors import DomainError
from sessions_app import admission
from sessions_app.models import QueueEntry, Session

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
        except (DomainError, DatabaseError, ValueError) as error:
            # One row that cannot be judged stops nobody behind it.
            logger.exception("dequeue_failed", session=str(session_id), lane=lane, error=str(error))
            continue
        entry = QueueEntry.objects.filter(session_id=session_id).first()
        if entry is not None and entry.reason in _BLOCKS_LANE:
            break
    return left


def drain() -> int:
    """One pass over every lane."""
    return sum(drain_lane(lane) for lane in lanes())
