"""Priority of what waits: given for one wait, and never above what the owner's policy allows without a super administrator.

Guarantees: `max_priority` of the owner in his group bounds what is asked and what administrators give; a super
administrator alone gives more, to others, and such a grant is remembered; when the policy is lowered, what waits with more
and without a grant is lowered with it and its timeline says so. Running sessions keep theirs: limits bind requests.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext as _

from accounts import permissions
from accounts import queries as accounts
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from sessions_app.domain.lifecycle import Event, State
from sessions_app.held import lock_session
from sessions_app.models import QueueEntry, Session
from sessions_app.stepping import stepped_in_order
from sessions_app.timeline import SYSTEM, Cause, Money, announce, record

if TYPE_CHECKING:
    from accounts.models import User


FIELD = "max_priority"


def check_grant(session: Session, priority: int, *, by: User) -> bool:
    """Whether this priority is above the owner's policy, and so a grant. Raises `forbidden` for who may not give that."""
    bound = accounts.effective(session.owner_id, session.group_id)[FIELD]
    ceiling = bound.value or 0
    if priority <= ceiling:
        return False
    if session.owner_id == by.pk or not permissions.may(by, permissions.Act.RAISE_RESERVED).allowed:
        raise DomainError(
            "forbidden",
            _("This person's sessions have at most priority %(limit)d.") % {"limit": ceiling},
            errors={"priority": [_("Give at most %(limit)d.") % {"limit": ceiling}]},
            remedy=_("Give less, or ask a super administrator, who alone may give more, to others only."),
            facts={"field": FIELD, "limit": ceiling, "scope": bound.scope or "global"},
        )
    return True


def write_priority(session: Session, priority: int, *, granted: bool, by: str, reason: str, at: datetime) -> None:
    """Move a locked waiting session within its line; its timeline tells."""
    before, session.priority, session.priority_granted = session.priority, priority, granted
    session.version += 1
    session.save(update_fields=["priority", "priority_granted", "version"])
    QueueEntry.objects.filter(session=session).update(priority=priority)
    cause = Cause(Event.PRIORITY, by=by, reason=reason, detail=f"{before} → {priority}")
    record(session, cause, at=at, money=Money())
    announce(session)


def follow_policies() -> int:
    """Lower what waits with more than its owner's policy allows now; answers how many. Each under its own lock."""
    waiting = QueueEntry.objects.filter(priority__gt=0, session__priority_granted=False)
    rows = list(waiting.values_list("session_id", "session__owner_id", "session__group_id", "priority"))
    if not rows:
        return 0
    bounds = accounts.effective_of((owner, group) for _session, owner, group, _priority in rows)
    over = [row[0] for row in rows if row[3] > (bounds[row[1], row[2]][FIELD].value or 0)]
    return sum(stepped_in_order(_lower, session_id) for session_id in sorted(over))


def _lower(session_id: UUID) -> bool:
    session = lock_session(session_id)
    if session is None or session.life is not State.QUEUED or session.priority_granted:
        return False
    ceiling = accounts.effective(session.owner_id, session.group_id)[FIELD].value or 0
    if session.priority <= ceiling:
        return False
    write_priority(session, ceiling, granted=False, by=SYSTEM, reason="policy", at=clock.now())
    return True
