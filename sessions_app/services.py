"""What people ask for: a session, and of one that exists pause, stop, restart, resume, keep alive, stay paused.

Guarantees: each verb is one transaction on the locked session; what the state does not allow is refused with the verbs
that it does allow; somebody else's session needs a reason and leaves an audit row. Create and resume (`admission`) wait
for each other in the database, so that of them only some at a time take a connection: the others wait in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from accounts import audit, permissions
from accounts import queries as accounts
from billing import services as billing
from gshare_core.errors import DomainError
from gshare_core.kit import clock, locks
from gshare_core.kit.bulkhead import Bulkhead
from gshare_core.kit.gathering import Gathering
from gshare_core.kit.idempotency import Once, Reply
from sessions_app import admission, arrivals, counters, priorities, requesters
from sessions_app.admission import invalid_transition
from sessions_app.arrivals import Arrival
from sessions_app.domain.facts import Ask, LimitFact, RightFact
from sessions_app.domain.gates import exceeded, privilege
from sessions_app.domain.lifecycle import Event, State
from sessions_app.held import current_run, lock_session
from sessions_app.models import Session
from sessions_app.previews import preview
from sessions_app.timeline import Cause, Money, announce, record
from sessions_app.transition import transition

if TYPE_CHECKING:
    from accounts.models import User

__all__ = [
    "Asked",
    "create_session",
    "keep_alive",
    "pause_session",
    "preview",
    "restart_session",
    "resume_session",
    "set_priority",
    "stay_paused",
    "stop_session",
]

KEEP_ALIVE = timedelta(hours=2)
# In front of admission, one for the process. The worker's own (dequeue, resumes by themselves) are one at a time anyhow.
ADMISSIONS = Bulkhead(
    "admission", limit=settings.GSHARE.admissions_abreast, patience=settings.GSHARE.admission_patience
)
# Creates that come while others are at work are admitted with one another; a group that is held up for so long stands alone.
TOGETHER: Gathering[Arrival, Session | Reply] = Gathering(
    arrivals.admit_together,
    bulkhead=ADMISSIONS,
    most=16,
    beside=timedelta(milliseconds=250),
    linger=timedelta(milliseconds=15),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks a verb of which session, and why when it is not his own."""

    session: UUID
    by: User
    reason: str = ""
    once: Once | None = None


def create_session(ask: Ask, *, by: User, once: Once | None = None) -> Session | Reply:
    """Admit a new session: `starting` with a claim, or `queued` with a reason.

    With `once`, its answer, also where the same request is repeated. Raises DomainError with the gate that refused, or
    `unavailable` when too many ask at a time for it to come to this one.
    """
    until = ADMISSIONS.deadline()
    made = None if ask.mounts else TOGETHER.ask(Arrival(ask, by, once), until=until)
    if made is not None:
        return made
    with ADMISSIONS.entered(until=until):
        return admission.create_session(ask, by=by, once=once)


def pause_session(asked: Asked) -> Session:
    """Tear the pod down and keep the session; free while paused. Bound by `max_paused` when its owner asks."""
    return _act(asked, "pause", Event.PAUSE)


def stop_session(asked: Asked) -> Session:
    """End the session; its volumes stay. Legal in every state that is not terminal; a repeat changes nothing."""
    return _act(asked, "stop", Event.STOP)


def restart_session(asked: Asked) -> Session:
    """The same claim and price, a new run: what runs is ended and begins anew."""
    return _act(asked, "restart", Event.RESTART)


def resume_session(asked: Asked) -> Session | Reply:
    """Admission again, at the present price; while still pausing the wish is kept. `unavailable` as `create_session`."""
    _check_reason(Session.objects.get(pk=asked.session), asked)

    def leave_trace(session: Session) -> None:
        _audit(session, asked, "session.resume")

    with ADMISSIONS.entered():
        return admission.resume(asked.session, by=asked.by, once=asked.once, then=leave_trace)


def keep_alive(asked: Asked) -> Session:
    """Put the idle pause off; bounded by the policy's `keep_alive_max_min` at each asking, and never brought nearer by one.

    Raises DomainError `quota_exceeded` where the policy allows none.
    """
    with locks.ordered():
        session = _locked(asked)
        if session.life is not State.RUNNING:
            raise invalid_transition(session, "keep-alive")
        span = keep_alive_span(session)
        if not span:
            raise DomainError(
                "quota_exceeded",
                "Your limits do not allow a session to be kept alive.",
                facts={"field": "keep_alive_max_min", "limit": 0},
                remedy="Use the session, or ask who sets your limits.",
            )
        session.kept_alive_at = clock.now()
        until = max(session.kept_alive_at + span, session.kept_alive_until or session.kept_alive_at)
        session.kept_alive_until = until
        session.version += 1
        session.save(update_fields=["kept_alive_at", "kept_alive_until", "version"])
        _audit(session, asked, "session.keep_alive", after={"until": until.isoformat()})
        announce(session)
    return session


def stay_paused(asked: Asked) -> Session:
    """Call off the resume by itself that a paused session waits for; a later pause has its own. A repeat changes nothing."""
    with locks.ordered():
        session = _locked(asked)
        if session.life is not State.PAUSED:
            raise invalid_transition(session, "stay paused")
        if session.resume_at is not None:
            session.resume_at = None
            session.version += 1
            session.save(update_fields=["resume_at", "version"])
            reason = "user" if session.owner_id == asked.by.pk else "admin"
            cause = Cause(Event.STAY_PAUSED, by=asked.by.email, reason=reason, detail=asked.reason)
            record(session, cause, at=clock.now(), money=Money())
            _audit(session, asked, "session.stay_paused")
            announce(session)
    return session


def keep_alive_span(session: Session) -> timedelta:
    """How long one asking keeps a session alive, by the policy in force."""
    bound = accounts.effective(session.owner_id, session.group_id).get("keep_alive_max_min")
    if bound is None or bound.value is None:
        return KEEP_ALIVE
    return min(KEEP_ALIVE, timedelta(minutes=min(bound.value, KEEP_ALIVE // timedelta(minutes=1))))


def set_priority(asked: Asked, priority: int) -> Session:
    """Move a waiting session within its lane, for this wait; for administrators of its group or organisation.

    Raises DomainError: `forbidden` for its owner and above his `max_priority` (`priorities`), `invalid_transition` when it
    does not wait.
    """
    seen = Session.objects.get(pk=asked.session)
    permissions.require(asked.by, permissions.Act.SET_PRIORITY, group_id=seen.group_id)
    with locks.ordered():
        session = _locked(asked)
        if session.life is not State.QUEUED:
            raise invalid_transition(session, "change its priority")
        granted = priorities.check_grant(session, priority, by=asked.by)
        before, reason = session.priority, "user" if session.owner_id == asked.by.pk else "admin"
        priorities.write_priority(session, priority, granted=granted, by=asked.by.email, reason=reason, at=clock.now())
        _audit(session, asked, "session.priority", before={"priority": before}, after={"priority": priority})
    return session


def _act(asked: Asked, verb: str, event: Event) -> Session:
    with locks.ordered():
        session = _locked(asked)
        if verb not in session.allowed and not (event is Event.STOP and session.life is State.STOPPING):
            raise invalid_transition(session, verb)
        own = session.owner_id == asked.by.pk
        if event is Event.PAUSE and own:
            _check_room_to_pause(session)
        if event is Event.RESTART:
            _check_right_to_restart(session)
        reason = "user" if own else "admin"
        cause = Cause(event, by=asked.by.email, reason=reason, detail=asked.reason)
        transition(session, cause, at=clock.now())
        _audit(session, asked, f"session.{verb}")
    return session


def _locked(asked: Asked) -> Session:
    session = lock_session(asked.session)
    assert session is not None, "callers fetch the session from what they may see"
    _check_reason(session, asked)
    return session


def _check_reason(session: Session, asked: Asked) -> None:
    if session.owner_id != asked.by.pk and not asked.reason.strip():
        raise DomainError(
            "reason_required",
            "This is somebody else's session: say why.",
            errors={"reason": ["Say why; the owner reads it."]},
            remedy="Send a reason.",
        )


def _check_room_to_pause(session: Session) -> None:
    """Gate 4's `max_paused`, bound at the owner's own pause."""
    person = requesters.who(session.owner, session.group_id)
    limits = [x for x in accounts.limits(session.owner_id, session.group_id) if x.field == counters.PAUSED_FIELD]
    if not limits or person.requester is None:
        return
    run = current_run(session)
    if run is not None and session.mode != "cpu":
        billing.lock_meter(run.pk)  # its turn comes before the counters'
    used = counters.lock(person.scopes)
    for limit in limits:
        count = used.get((limit.usage_scope, limit.field), 0)
        fact = LimitFact(limit.field, limit.limit, limit.scope, used=count, asked=1)
        if not fact.holds:
            raise exceeded(fact).as_error()


def _check_right_to_restart(session: Session) -> None:
    """A restart asks for a new pod: one that is no longer allowed to be privileged does not begin again."""
    right = accounts.effective(session.owner_id, session.group_id)["allow_privileged"]
    refusal = privilege(session.privileged, RightFact(right.value, right.scope or "global"), exists=True)
    if refusal is not None:
        raise refusal.as_error()


def _audit(
    session: Session,
    asked: Asked,
    act: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Administrators' acts on other people's sessions leave a trace."""
    if session.owner_id == asked.by.pk:
        return
    audit.record(
        by=asked.by,
        act=act,
        target_kind="session",
        target_id=session.pk,
        target_label=session.name,
        organisation_id=session.organisation_id,
        group_id=session.group_id,
        before=before or {},
        after=after or {"state": session.state},
        reason=asked.reason,
        at=clock.now(),
    )
