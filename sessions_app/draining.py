"""Ends the sessions of whoever lost his right to them, and those that mount what their owner may not mount any more.

Guarantees: an intent row below says what was taken away; each pass ends what it finds, and the intent closes only on a
pass that finds nothing some time after the change, since no request's transaction lives as long: a create that was under
way when the right was lost is found by a later pass. Interrupted at any point, the next pass goes on; what was given back
meanwhile is left alone.
What a group gave somebody who left it goes back as it comes free; the intent stays open until his last run there is settled.
A session whose owner may not have it is stopped. One that only lost a volume is paused (its owner may get the volume back
and resume; without it gate 2 refuses), or, while it waits in line, refused as it would be at its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.db.models import Q

from accounts import queries as accounts
from accounts.queries import OpenDrain
from accounts.services import close_drain
from billing import services as billing
from cluster import queries as cluster
from cluster.services import close_volume_drain
from gshare_core.kit import clock
from sessions_app.domain.lifecycle import Event, State, rule_for
from sessions_app.held import lock_session
from sessions_app.models import Session, SessionQuerySet
from sessions_app.node_drains import drain_nodes
from sessions_app.stepping import stepped_in_order
from sessions_app.timeline import Cause
from sessions_app.transition import transition

REASON = "access_revoked"
REFUSED = "mount_forbidden"
BATCH = 200

_WHOSE: dict[str, Callable[[OpenDrain], Q]] = {
    "user": lambda drain: Q(owner=drain.user_id),
    "membership": lambda drain: Q(owner=drain.user_id, group=drain.group_id),
    "group": lambda drain: Q(group=drain.group_id),
    "organisation": lambda drain: Q(organisation=drain.organisation_id),
}
# Without a volume's right: what holds nothing, or is giving it back, meets gate 2 when it wants it again.
_LETS_GO = (State.PAUSED, State.PAUSING, State.STOPPING)


def drain() -> int:
    """One pass over the open intents; answers how many sessions were asked to end, or to leave their node."""
    people = sum(_drain(intent) for intent in accounts.open_drains()) + drain_nodes()
    return people + sum(_drain_volume(intent) for intent in cluster.open_volume_drains())


def _drain(intent: OpenDrain) -> int:
    began = clock.now()
    mine = Session.objects.live().exclude(state=State.STOPPING).filter(_WHOSE[intent.kind](intent))
    found = list(mine.order_by("id").values_list("pk", flat=True)[:BATCH])
    # A seat also carried the group's volumes, into sessions of other groups.
    others = Session.objects.filter(owner=intent.user_id).exclude(group=intent.group_id)
    lost = _without_right(others) if intent.kind == "membership" else []
    returned = _credits_are_back(intent)
    if not found and not lost and returned:
        close_drain(intent.id, pass_began_at=began)
    stopped = sum(stepped_in_order(_stop, session_id, intent) for session_id in found)
    return stopped + sum(stepped_in_order(_take_volume_away, session_id) for session_id in lost)


def _credits_are_back(intent: OpenDrain) -> bool:
    """Give a person's credits back to the group that he left (deactivated: to all), as far as they are free; True when
    nothing that he ran there is still to be settled."""
    if intent.user_id is None:
        return True
    return billing.return_to_parents(user_id=intent.user_id, group_id=intent.group_id)


def _drain_volume(intent: cluster.OpenVolumeDrain) -> int:
    began = clock.now()
    mounting = Session.objects.filter(mounts__contains=[{"volume": str(intent.volume_id)}])
    found = _without_right(mounting)
    if not found:
        close_volume_drain(intent.id, pass_began_at=began)
    return sum(stepped_in_order(_take_volume_away, session_id) for session_id in found)


def _without_right(sessions: SessionQuerySet) -> list[UUID]:
    """Those of the sessions that have, or wait for, a mount that their owner may not have now."""
    mounting = sessions.live().exclude(state__in=_LETS_GO).exclude(mounts=[])
    return [session.pk for session in mounting.order_by("id") if _lost_volumes(session)]


def _lost_volumes(session: Session) -> list[str]:
    mounts = [(UUID(mount["volume"]), mount["mode"]) for mount in session.mounts]
    return cluster.unmountable(user_id=session.owner_id, mounts=mounts)


def _stop(session_id: UUID, intent: OpenDrain) -> bool:
    session = lock_session(session_id)
    if session is None or session.life is State.STOPPING or not accounts.drain_is_open(intent.id):
        return False
    return transition(session, Cause(Event.STOP, reason=REASON, detail=intent.reason), at=clock.now())


def _take_volume_away(session_id: UUID) -> bool:
    """Pause the session, or refuse it while it waits; not when it got the right back meanwhile."""
    session = lock_session(session_id)
    lost = _lost_volumes(session) if session is not None and session.life not in _LETS_GO else []
    if session is None or not lost:
        return False
    detail = f"No longer shared with you: {', '.join(lost)}."
    if session.life is State.QUEUED:
        event = Event.REFUSED_RESUMED if session.resumed else Event.REFUSED
        return transition(session, Cause(event, reason=REFUSED, detail=detail), at=clock.now())
    if rule_for(session.life, Event.PAUSE) is None:
        return False  # it is on its way to a state that can be paused; the next pass finds it
    return transition(session, Cause(Event.PAUSE, reason=REASON, detail=detail), at=clock.now())
