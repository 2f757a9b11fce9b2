"""Ends the sessions of whoever lost his right to them: removed members, deactivated people, groups, organisations.

Guarantees: an intent row below says what was taken away; each pass stops what it finds, and the intent closes only on a
pass that finds nothing some time after the change, since no request's transaction lives as long: a create that was under
way when the right was lost is found by a later pass. Interrupted at any point, the next pass goes on; what was given back
meanwhile is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog
from django.db.models import Q

from accounts import queries as accounts
from accounts.queries import OpenDrain
from accounts.services import close_drain
from gshare_core.kit import clock, locks
from sessions_app.domain.lifecycle import Event, State
from sessions_app.models import Session
from sessions_app.transition import Cause, lock_session, transition

logger = structlog.get_logger(__name__)

REASON = "access_revoked"
BATCH = 200

_WHOSE: dict[str, Callable[[OpenDrain], Q]] = {
    "user": lambda drain: Q(owner=drain.user_id),
    "membership": lambda drain: Q(owner=drain.user_id, group=drain.group_id),
    "group": lambda drain: Q(group=drain.group_id),
    "organisation": lambda drain: Q(organisation=drain.organisation_id),
}


def drain() -> int:
    """One pass over the open intents; answers how many sessions were asked to stop."""
    return sum(_drain(intent) for intent in accounts.open_drains())


def _drain(intent: OpenDrain) -> int:
    began = clock.now()
    mine = Session.objects.live().exclude(state=State.STOPPING).filter(_WHOSE[intent.kind](intent))
    found = list(mine.order_by("id").values_list("pk", flat=True)[:BATCH])
    if not found:
        close_drain(intent.id, pass_began_at=began)
    return sum(_stop(session_id, intent) for session_id in found)


def _stop(session_id: UUID, intent: OpenDrain) -> int:
    try:
        with locks.ordered():
            session = lock_session(session_id)
            if session is None or session.life is State.STOPPING or not accounts.drain_is_open(intent.id):
                return 0
            cause = Cause(Event.STOP, reason=REASON, detail=intent.reason)
            return int(transition(session, cause, at=clock.now()))
    except Exception as error:
        # Whatever it is, it stops no other; the next pass finds it again.
        logger.exception("drain_failed", session=str(session_id), error=str(error))
        return 0
