"""Admission: one function over the eight gates for creating and resuming; `dequeuing` takes off the queue by the same.

`arrivals` admits creates that come together; who is decided on alone comes here.

Guarantees: gates 1 to 6 judge facts that were read after their locks; the effects (hold, counters, claim, state, desired
document) happen together in one transaction, in the order of locks, so that two requests at the same instant never both
pass on the same money, quota, budget or card, from different processes either. A refusal leaves nothing behind but the
kept attempt. Newcomers and resumes enter the same line as everybody.
Refuses: with the gate's code, what it would need, and what would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from psycopg.errors import ForeignKeyViolation

from accounts import services as accounts
from billing import services as billing
from catalog import queries as catalog
from gshare_core.errors import DomainError, not_found
from gshare_core.ids import uuid7
from gshare_core.kit import clock, locks
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.verdicts import Gate, Verdict
from sessions_app import gather, line, placing, plans, queries, requesters
from sessions_app.domain.facts import Ask, Facts
from sessions_app.domain.gates import first_refusal, judge, queue_policy
from sessions_app.domain.lifecycle import Event, State
from sessions_app.domain.queue import Bucket
from sessions_app.held import lock_session, next_number
from sessions_app.models import Attempt, Run, Session
from sessions_app.timeline import Cause
from sessions_app.transition import Beginning, begin, transition

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class Admitted:
    """What an answer shows of a session as its admission made it."""

    session: Session
    details: queries.Details
    at: datetime


# Create --------------------------------------------------------------------------------------------------------------


def create_session(ask: Ask, *, by: User, once: Once | None = None) -> Session | Reply:
    """Admit a new session: `starting` with a claim, or `queued` with a reason.

    With `once`, its answer, also where the same request is repeated. Raises DomainError with the gate that refused.
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
            return session if once is None else once.keep(Admitted(session, queries.details([session]), clock.now()))
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
    fresh = new(plan, person, facts)
    if plan.price is not None:
        billing.open_meter(opening(fresh.session, fresh.run, plan, person), at=at, first=True)
    fresh.placed = _place_newcomer(fresh.session, fresh.run, plan, facts)
    if fresh.placed.reserved is None:
        _refuse([_may_wait(plan, facts, fresh.placed)])
    write_new([fresh], at)
    return fresh.session


@dataclass(slots=True, eq=False)
class New:
    """A session that passed gates 1 to 6, and what gate 7 says of it."""

    session: Session
    run: Run
    plan: plans.Plan
    facts: Facts
    image: catalog.ImageRow | None = None
    placed: placing.Placed | None = None
    penalty: timedelta | None = None


def new(plan: plans.Plan, person: requesters.Who, facts: Facts, *, image: catalog.ImageRow | None = None) -> New:
    """The rows of a session that begins, unsaved; its image is read when left out."""
    session = _new_session(plan, person, facts.now)
    run = _new_run(session, plan, facts.now)
    Run._meta.get_field("activity").set_cached_value(run, None)  # nothing of it was judged yet
    return New(session, run, plan, facts, image)


def opening(session: Session, run: Run, plan: plans.Plan, person: requesters.Who) -> billing.Opening:
    """The meter that goes with a run, for a session with a price."""
    assert plan.price is not None
    assert person.money_scopes is not None
    purpose = billing.Purpose(session.pk, session.name)
    return billing.Opening(run.pk, purpose, person.money_scopes, plan.price, plan.hold)


def write_new(fresh: Sequence[New], at: datetime) -> None:
    """The effects: claim, state, counters, timeline and, for who goes into the line, his place in it; gate 8 for the others."""
    beginning, joining = [], []
    for one in fresh:
        session, placed = one.session, one.placed
        assert placed is not None
        placing.write_claim(one.run, placed.reserved, at)
        session.state = State.STARTING if placed.reserved else State.QUEUED
        session.wanted = "Running" if placed.reserved else "Stopped"
        session.deadline_at = at + settings.GSHARE.start_timeout if placed.reserved else None
        cause = Cause(Event.PLACED if placed.reserved else Event.ENQUEUED, by=session.owner.email, detail="created")
        held = one.plan.hold if one.plan.price is not None else 0
        beginning.append(Beginning(session, one.run, cause, held, one.image))
        if placed.reserved is None:
            joining.append(_joining(session, one, placed))
    begin(*beginning, at=at)
    if joining:
        line.join(*joining, place=at)


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
            return session if once is None else once.keep(Admitted(session, queries.details([session]), clock.now()))
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
    held = _open_meter(session, run, plan, person, facts.now)
    placed = _place_newcomer(session, run, plan, facts)
    if placed.reserved is None:
        _refuse([_may_wait(plan, facts, placed)])
    placing.write_claim(run, placed.reserved, at)
    run.save(force_insert=True)
    event = Event.PLACED if placed.reserved else Event.ENQUEUED
    cause = Cause(event, by=by.email, detail="resumed")
    transition(session, cause, at=at, run=run, held=held)
    if placed.reserved is None:
        line.join(_joining(session, New(session, run, plan, facts), placed), place=at)
    return session


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
    billing.open_meter(opening(session, run, plan, person), at=at)
    return plan.hold


def _place_newcomer(session: Session, run: Run, plan: plans.Plan, facts: Facts) -> placing.Placed:
    """Gate 7 for who joins: he may pass those whom he does not delay, and nobody who would fit now."""
    if _stands_behind(plan):
        return placing.behind_others()
    return placing.place(session, run, plan, facts)


def _stands_behind(plan: plans.Plan) -> bool:
    """Whether somebody in the same lane would fit now: newcomers and resumes never overtake him."""
    return plan.lane is not None and plan.request is not None and line.someone_fits(plan.lane, plan.request)


def _may_wait(plan: plans.Plan, facts: Facts, placed: placing.Placed) -> Verdict:
    """Whether a request without a place may wait in line."""
    if not plan.needs_card:
        detail, remedy = placed.detail, "Try again in a moment, or take a smaller size."
        return Verdict(Gate.RESERVATION, False, detail, "no_capacity", remedy, {"missing": placed.missing})
    return queue_policy(facts)


def _joining(session: Session, new: New, placed: placing.Placed) -> line.Joining:
    lane = new.plan.lane
    assert lane is not None
    shape = line.shape_key(session, runtime_min=new.facts.rights.max_runtime_min.value or 0)
    return line.Joining(session, Bucket(lane, shape), placed.why, new.penalty)


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
