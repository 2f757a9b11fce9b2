"""Admission: one function over the eight gates for creating, resuming and taking off the queue.

Guarantees: gates 1 to 6 judge facts that were read after their locks; the effects (hold, counters, claim, state, desired
document) happen together in one transaction, in the order of locks, so that two requests at the same instant never both
pass on the same money, quota, budget or card, from different processes either. A refusal leaves nothing behind but the
kept attempt. Newcomers and resumes enter the same line as everybody.
Refuses: with the gate's code, what it would need, and what would change it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from psycopg.errors import ForeignKeyViolation

from accounts import services as accounts
from billing import services as billing
from cluster import services as cluster
from cluster.domain.placement import NoPlace, Request
from gshare_core.errors import DomainError, not_found
from gshare_core.ids import uuid7
from gshare_core.kit import clock, locks
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.verdicts import Gate, Verdict
from sessions_app import gather, line, plans, requesters
from sessions_app.domain.facts import Ask, Facts
from sessions_app.domain.gates import first_refusal, judge, queue_policy
from sessions_app.domain.lifecycle import Event, State
from sessions_app.domain.queue import Bucket, Outcome, Waiting
from sessions_app.models import Attempt, QueueEntry, Run, Session
from sessions_app.transition import Cause, announce, begin, current_run, lock_session, next_number, transition

if TYPE_CHECKING:
    from accounts.models import User

# What ends an entry at dequeue; every other refusal only skips it.
ENDS_AT_DEQUEUE = frozenset({"not_found", "forbidden", "mount_forbidden", "image_incompatible", "never_fits"})


@dataclass(slots=True)
class _Placed:
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


# Create --------------------------------------------------------------------------------------------------------------


def create_session(ask: Ask, *, by: User, once: Once | None = None) -> Session | Reply:
    """Admit a new session: `starting` with a claim, or `queued` with a reason.

    With `once`, a repeat of the same request answers the kept reply. Raises DomainError with the gate that refused.
    """
    person = requesters.who(by, ask.group)
    requesters.prepare(person)
    plan = plans.read_plan(ask, person, at=clock.now())
    try:
        with locks.ordered():
            _lock_requester(by, ask.group)
            reply = once.claim() if once is not None else None
            if reply is not None:
                return reply
            session = _create(plan, requesters.who(by, ask.group))
            if once is not None:
                once.keep(session)
            return session
    except DomainError as refusal:
        keep_attempt(refusal, by=by, ask=ask)
        raise
    except IntegrityError as error:
        # What it refers to was deleted between the look and the commit; the foreign key had the last word.
        if isinstance(error.__cause__, ForeignKeyViolation):
            raise not_found("GPU, size or image") from error
        raise


def _create(plan: plans.Plan, person: requesters.Who) -> Session:
    _lock_lane(plan)
    at = clock.now()
    facts = gather.facts(plan, person, at=at, lock=True)
    _refuse(judge(facts))
    session = _new_session(plan, person, at)
    run = _new_run(session, plan, at)
    held = _open_meter(session, run, plan, person, at)
    placed = _place_newcomer(session, run, plan, facts)
    if placed.reserved is None:
        _refuse([_may_wait(plan, facts, placed)])
    _write_claim(run, placed, at)
    session.state = State.STARTING if placed.reserved else State.QUEUED
    session.wanted = "Running" if placed.reserved else "Stopped"
    session.deadline_at = at + settings.GSHARE.start_timeout if placed.reserved else None
    event = Event.PLACED if placed.reserved else Event.ENQUEUED
    begin(session, run, Cause(event, by=person.user.email, detail="created"), at=at, held=held)
    if placed.reserved is None:
        _enqueue(session, plan, facts, placed)
    return session


def _new_session(plan: plans.Plan, person: requesters.Who, at: datetime) -> Session:
    ask, shape, requester = plan.ask, plan.shape, person.requester
    assert shape is not None
    assert requester is not None
    return Session(
        id=uuid7(),
        name=ask.name,
        owner=person.user,
        group_id=requester.group,
        organisation_id=requester.organisation,
        offering_id=ask.offering,
        preset_id=ask.preset,
        image_id=ask.image,
        tier=plan.tier,
        **plans.shape_columns(shape),
        mounts=[mount.as_json() for mount in ask.mounts],
        cluster_id=ask.cluster,
        priority=ask.priority,
        preemptible=ask.preemptible,
        privileged=ask.privileged,
        pause_mode=ask.pause_mode,
        auto_resume=ask.auto_resume,
        state_since=at,
        created_at=at,
        line_at=at,
        run_number=1,
    )


# Resume --------------------------------------------------------------------------------------------------------------


def resume(
    session_id: UUID, *, by: User, once: Once | None = None, then: Callable[[Session], None] | None = None
) -> Session | Reply:
    """Admit a paused session again, at the present price; while it is still pausing, keep the wish.

    `then` is called in the same transaction once it is admitted, not when an answer is repeated.
    Raises DomainError: the gate's refusal (the session stays paused), or `invalid_transition`.
    """
    seen = Session.objects.select_related("owner", "image").get(pk=session_id)
    owner, ask = seen.owner, plans.ask_of(seen)
    person = requesters.who(owner, seen.group_id)
    requesters.prepare(person)
    plan = plans.read_plan(ask, person, at=clock.now(), session=seen)
    try:
        with locks.ordered():
            _lock_requester(owner, seen.group_id)
            reply = once.claim() if once is not None else None
            if reply is not None:
                return reply
            session = _resume(session_id, plan, requesters.who(owner, seen.group_id), by)
            if then is not None:
                then(session)
            if once is not None:
                once.keep(session)
            return session
    except DomainError as refusal:
        keep_attempt(refusal, by=by, ask=ask, session=session_id)
        raise


def _resume(session_id: UUID, plan: plans.Plan, person: requesters.Who, by: User) -> Session:
    _lock_lane(plan)
    session = lock_session(session_id)
    assert session is not None
    at = clock.now()
    if session.life is State.PAUSING:
        transition(session, Cause(Event.RESUME, by=by.email), at=at)
        return session
    if session.life is not State.PAUSED:
        raise invalid_transition(session, "resume")
    facts = gather.facts(plan, person, at=at, lock=True, own=gather.Own(session))
    _refuse(judge(facts))
    session.run_number = next_number(session)
    session.running_us_at_admission = session.running_us
    session.resumed, session.resume_wanted, session.failed_starts, session.line_at = True, False, 0, at
    # What an administrator gave was for that wait.
    session.priority = min(session.priority, facts.rights.max_priority.value or 0)
    session.priority_granted = False
    run = _new_run(session, plan, at)
    held = _open_meter(session, run, plan, person, at)
    placed = _place_newcomer(session, run, plan, facts)
    if placed.reserved is None:
        _refuse([_may_wait(plan, facts, placed)])
    _write_claim(run, placed, at)
    run.save(force_insert=True)
    event = Event.PLACED if placed.reserved else Event.ENQUEUED
    cause = Cause(event, by=by.email, detail="resumed")
    transition(session, cause, at=at, run=run, held=held)
    if placed.reserved is None:
        _enqueue(session, plan, facts, placed)
    return session


# Off the queue -------------------------------------------------------------------------------------------------------


def dequeue(entry: Waiting, sight: plans.Sight | None = None) -> Outcome:
    """Try to place an entry of the line; answers what became of it.

    Refusals that can pass later keep the place and show why; those that cannot end the entry and release its hold.
    `sight` is what the walk has read already of what nobody holds still.
    """
    owner_id, group_id = entry.whose
    with locks.ordered():
        held = accounts.lock_requester(owner_id, group_id)
        locks.lock_name(locks.Rank.LANE, entry.bucket.lane)
        session = lock_session(entry.session)
        if session is None or held.user is None or session.life is not State.QUEUED:
            return Outcome.LEFT
        session.owner = held.user
        person = requesters.who(held.user, group_id)
        ask, at = plans.ask_of(session), clock.now()
        plan = plans.read_plan(ask, person, at=at, session=session, sight=sight)
        return _dequeue(session, replace(plan, after_the_wait=True), person)


def _dequeue(session: Session, plan: plans.Plan, person: requesters.Who) -> Outcome:
    run = current_run(session)
    assert run is not None
    meter = billing.lock_meter(run.pk)
    at = clock.now()
    own = gather.Own(session, held=meter.held if meter else 0)
    facts = gather.facts(plan, person, at=at, lock=True, own=own)
    refusal = first_refusal(judge(facts))
    if refusal is not None and refusal.code in ENDS_AT_DEQUEUE:
        event = Event.REFUSED_RESUMED if session.resumed else Event.REFUSED
        transition(session, Cause(event, reason=refusal.code or "", detail=refusal.detail), at=at, run=run)
        return Outcome.LEFT
    if refusal is not None:
        _note_waiting(session, _Placed(None, refusal.code or "", refusal.detail, facts=dict(refusal.facts)), at)
        return Outcome.ALONE if refusal.gate is Gate.MOUNTS else Outcome.SKIPPED
    placed = _place(session, run, plan, facts)
    if placed.reserved is None:
        _note_waiting(session, placed, at)
        return Outcome.NO_ROOM
    billing.hand_off(run.pk, at=at)
    _write_claim(run, placed, at)
    transition(session, Cause(Event.PLACED, detail="left the line"), at=at, run=run, held=own.held)
    return Outcome.LEFT


def _note_waiting(session: Session, placed: _Placed, at: datetime) -> None:
    """Why it goes on waiting: on its own row, and where the metal is the reason for all that are like it."""
    entry = line.entry_of(session.pk)
    if entry is None:
        return
    said = {**placed.why, "facts": placed.facts}
    if any(getattr(entry, name) != value for name, value in said.items()):
        QueueEntry.objects.filter(session=session).update(looked_at=at, **said)
        announce(session)
    if placed.reason in line.OF_METAL:
        line.note_look(Bucket(entry.lane, entry.shape), placed.why)


# Parts ---------------------------------------------------------------------------------------------------------------


def _lock_requester(user: User, group: UUID) -> None:
    """Hold user and membership still; somebody who is no member is gate 1's to refuse."""
    accounts.lock_requester(user.pk, group)


def _lock_lane(plan: plans.Plan) -> None:
    if plan.lane is not None:
        locks.lock_name(locks.Rank.LANE, plan.lane)


def _refuse(verdicts: list[Verdict]) -> None:
    refusal = first_refusal(verdicts)
    if refusal is not None:
        raise refusal.as_error()


def _new_run(session: Session, plan: plans.Plan, at: datetime) -> Run:
    price = plan.price
    return Run(
        id=uuid7(),
        session=session,
        number=session.run_number,
        opened_at=at,
        rate_micro_per_hour=price.rate_micro_per_hour if price else 0,
        factor_milli=price.factor_milli if price else 1000,
        hold_micro=plan.hold,
    )


def _open_meter(session: Session, run: Run, plan: plans.Plan, person: requesters.Who, at: datetime) -> int:
    """Take the hold; sessions without a card cost nothing and have no meter."""
    if plan.price is None or person.money_scopes is None:
        return 0
    billing.open_meter(
        run_id=run.pk,
        purpose=billing.Purpose(session.pk, session.name),
        scopes=person.money_scopes,
        price=plan.price,
        hold=plan.hold,
        at=at,
    )
    return plan.hold


def _place_newcomer(session: Session, run: Run, plan: plans.Plan, facts: Facts) -> _Placed:
    """Gate 7 for who joins: he may pass those whom he does not delay, and nobody who would fit now."""
    if _stands_behind(plan):
        return _Placed(reason="in_line", detail="Others are in line before it.")
    return _place(session, run, plan, facts)


def _place(session: Session, run: Run, plan: plans.Plan, facts: Facts) -> _Placed:
    """Gate 7: attachments and a claim in one savepoint, or why not."""
    assert plan.request is not None
    try:
        with locks.attempt():
            return _Placed(_claim(session, run, plan.request, facts))
    except _NoRoomError as nothing:
        return _Placed(None, nothing.found.kind, nothing.found.detail, nothing.found.short)


def _stands_behind(plan: plans.Plan) -> bool:
    """Whether somebody in the same lane would fit now: newcomers and resumes never overtake him."""
    return plan.lane is not None and plan.request is not None and line.someone_fits(plan.lane, plan.request)


def passage_of(session_id: UUID | None, facts: Facts) -> cluster.Passage:
    """Past what is kept for others goes only who must have ended before it is ready: start, work and end counted."""
    bound, limits = facts.rights.max_runtime_min.value, settings.GSHARE
    if not bound:
        return cluster.Passage(session_id)
    longest = limits.pull_timeout + limits.start_timeout + timedelta(minutes=bound) + limits.end_timeout
    return cluster.Passage(session_id, facts.now + longest)


def _claim(session: Session, run: Run, request: Request, facts: Facts) -> cluster.Reserved:
    cluster.attach(run_id=run.pk, session_id=session.pk, mounts=session.mounts, at=facts.now)
    found = cluster.reserve(
        request=request,
        session_id=session.pk,
        run_id=run.pk,
        run=run.number,
        at=facts.now,
        passage=passage_of(session.pk, facts),
    )
    if isinstance(found, NoPlace):
        raise _NoRoomError(found)
    return found


def _may_wait(plan: plans.Plan, facts: Facts, placed: _Placed) -> Verdict:
    """Whether a request without a place may wait in line."""
    if not plan.needs_card:
        detail, remedy = placed.detail, "Try again in a moment, or take a smaller size."
        return Verdict(Gate.RESERVATION, False, detail, "no_capacity", remedy, {"missing": placed.missing})
    return queue_policy(facts)


def _write_claim(run: Run, placed: _Placed, at: datetime) -> None:
    if placed.reserved is None:
        return
    run.placed_at = at
    run.cluster_id = placed.reserved.cluster_id
    run.node = placed.reserved.node
    run.card_uuids = list(placed.reserved.cards)


def _enqueue(session: Session, plan: plans.Plan, facts: Facts, placed: _Placed) -> None:
    assert plan.lane is not None
    shape = line.shape_key(session, runtime_min=facts.rights.max_runtime_min.value or 0)
    line.join(session, Bucket(plan.lane, shape), place=facts.now, why=placed.why)


def keep_attempt(refusal: DomainError, *, by: User, ask: Ask, session: UUID | None = None) -> None:
    """Remember what a gate refused, so that somebody can be helped; called after the transaction has rolled back."""
    if refusal.gate is None:
        return
    Attempt.objects.create(
        user=by,
        group=ask.group,
        session=session,
        at=clock.now(),
        gate=refusal.gate,
        code=refusal.code,
        detail=refusal.detail,
        asked={"name": ask.name, "offering": str(ask.offering), "preset": str(ask.preset), "image": str(ask.image)},
        facts=refusal.facts,
    )


def invalid_transition(session: Session, verb: str) -> DomainError:
    """The refusal of a verb that the session's state does not allow."""
    from_words = f"A session that is {session.state} cannot be asked to {verb}."
    return DomainError("invalid_transition", from_words, facts={"state": session.state, "allowed": session.allowed})
