"""Empties nodes: what runs on one that is drained leaves it, to start elsewhere or to be stopped.

Guarantees: an intent row below names the node; each pass judges every session again under its lock, so that a pass that was
killed, or repeated, asks nobody twice, and a node that is used again meanwhile lets go of nobody more. Who starts elsewhere
is paused and resumed through admission as soon as his pod is gone; a start that has not come up goes back in line at its
old place, with its hold. What pauses or ends already is left alone. Owners are told, with the administrator's reason.
On a silent node nothing is forced: what was lost there is settled, its card stays blocked, and it starts elsewhere.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext as _

from accounts import notices
from accounts.services.common import in_language_of
from cluster import queries as cluster
from cluster.queries import OpenNodeDrain
from cluster.services import close_node_drain
from gshare_core.kit import clock
from sessions_app.domain.lifecycle import Event, State, rule_for
from sessions_app.held import current_run, lock_session
from sessions_app.models import Run, Session
from sessions_app.stepping import stepped_in_order
from sessions_app.timeline import Cause
from sessions_app.transition import transition

REASON = "drained"
BATCH = 200
_LEAVING = (State.PAUSING, State.STOPPING)


def drain_nodes() -> int:
    """One pass over the nodes that are to be emptied; answers how many sessions were asked to leave."""
    return sum(_drain(intent) for intent in cluster.open_node_drains())


def _drain(intent: OpenNodeDrain) -> int:
    began = clock.now()
    there = Run.objects.filter(closed_at=None, cluster=intent.cluster_id, node=intent.node)
    there = there.exclude(session__state__in=_LEAVING).exclude(session__misplaced=True)
    found = list(there.order_by("session_id").values_list("session_id", flat=True)[:BATCH])
    if not found:
        close_node_drain(intent.id, pass_began_at=began)
    return sum(stepped_in_order(_leave, session_id, intent) for session_id in found)


def _leave(session_id: UUID, intent: OpenNodeDrain) -> bool:
    session = lock_session(session_id)
    if session is None or not _is_there(session, intent) or not cluster.node_drain_is_open(intent.id):
        return False
    at = clock.now()
    if not _move(session, intent, at):
        return False
    with in_language_of(session.owner):
        title, body = _told(session, intent)
    link = f"/sessions/{session.pk}/"
    notices.notify(user_id=session.owner_id, kind="session_drained", title=title, body=body, at=at, link=link)
    return True


def _is_there(session: Session, intent: OpenNodeDrain) -> bool:
    run = current_run(session)
    if run is None or run.closed_at is not None or session.life in _LEAVING or session.misplaced:
        return False
    return (run.cluster_id, run.node) == (intent.cluster_id, intent.node)


def _move(session: Session, intent: OpenNodeDrain, at: datetime) -> bool:
    """Ask it to leave; False while it is on its way to a state that can be asked: the next pass finds it."""

    def cause(event: Event) -> Cause:
        return Cause(event, by=intent.asked_by, reason=REASON, detail=intent.reason)

    if intent.stops:
        return transition(session, cause(Event.STOP), at=at)
    if session.life is State.STARTING and session.mode != "cpu" and not session.restarting:
        return transition(session, cause(Event.MISPLACED), at=at)
    if rule_for(session.life, Event.PAUSE) is None:
        return False
    return transition(session, cause(Event.PAUSE), at=at) and transition(session, cause(Event.RESUME), at=at)


def _told(session: Session, intent: OpenNodeDrain) -> tuple[str, str]:
    facts = {"name": session.name, "reason": intent.reason}
    said = _("The administrator says: %(reason)s") % facts
    if intent.stops:
        kept = _("What is on its volumes is kept.")
        return _("%(name)s was stopped, its machine is taken out of use") % facts, f"{kept} {said}"
    then = _("It starts again on another machine as soon as there is room; what is on its volumes is kept.")
    return _("%(name)s moves, its machine is taken out of use") % facts, f"{then} {said}"
