"""Taking sessions off the line: the same gates as at their create, then a place, or why they go on waiting.

Guarantees: gates 1 to 6 judge what was read after its locks; hold, counters, claim, state and desired document change in one
transaction, in the order of locks. Several that follow one another in the line may leave in one transaction, each statement
once for all of them: each is judged beside what those before it take, and the first that does not leave ends the row, so
that nobody waits for, is undone by, or is passed over because of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from accounts import queries as limits_of
from accounts import services as accounts
from billing import services as billing
from gshare_core.kit import clock, locks
from gshare_core.verdicts import Gate
from sessions_app import counters, gather, line, placing, plans, requesters
from sessions_app.domain.facts import Facts
from sessions_app.domain.gates import first_refusal, judge
from sessions_app.domain.lifecycle import Event, State
from sessions_app.domain.queue import Bucket, Outcome, Waiting
from sessions_app.held import current_run, current_runs, lock_session, lock_sessions
from sessions_app.models import QueueEntry, Run, Session
from sessions_app.timeline import Cause, announce
from sessions_app.transition import transition

# What ends an entry; every other refusal only skips it.
ENDS = frozenset({"not_found", "forbidden", "mount_forbidden", "image_incompatible", "never_fits"})
_LEFT = "left the line"


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
    if refusal is not None and refusal.code in ENDS:
        event = Event.REFUSED_RESUMED if session.resumed else Event.REFUSED
        transition(session, Cause(event, reason=refusal.code or "", detail=refusal.detail), at=at, run=run)
        return Outcome.LEFT
    if refusal is not None:
        _note_waiting(session, placing.Placed(None, refusal.code or "", refusal.detail, facts=dict(refusal.facts)), at)
        return Outcome.ALONE if refusal.gate is Gate.MOUNTS else Outcome.SKIPPED
    placed = placing.place(session, run, plan, facts)
    if placed.reserved is None:
        _note_waiting(session, placed, at)
        return Outcome.NO_ROOM
    billing.hand_off(run.pk, at=at)
    placing.write_claim(run, placed.reserved, at)
    transition(session, Cause(Event.PLACED, detail=_LEFT), at=at, run=run, held=own.held)
    return Outcome.LEFT


def _note_waiting(session: Session, placed: placing.Placed, at: datetime) -> None:
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


# Several in one transaction ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judged:
    """Somebody who passes gates 1 to 6, held still."""

    session: Session
    run: Run
    plan: plans.Plan
    facts: Facts
    held: int


def dequeue_together(entries: Sequence[Waiting], sight: plans.Sight) -> int:
    """Place the first of these that can be, in their order, in one transaction; answers how many left.

    Who is refused by a gate, has volumes or finds no room ends the row; he, and who comes after him, are as they were.
    """
    with locks.ordered():
        people = accounts.lock_requesters([entry.whose for entry in entries])
        for lane in sorted({entry.bucket.lane for entry in entries}):
            locks.lock_name(locks.Rank.LANE, lane)
        sessions = lock_sessions([entry.session for entry in entries])
        waiting: list[Session] = []
        for entry in entries:
            session, user = sessions.get(entry.session), people[entry.whose].user
            if session is None or user is None or session.life is not State.QUEUED or session.mounts:
                break
            session.owner = user
            waiting.append(session)
        judged = _judge(waiting, sight) if waiting else []
        return _leave(judged, sight) if judged else 0


def _judge(sessions: Sequence[Session], sight: plans.Sight) -> list[_Judged]:
    """Those who pass, up to the first who does not; each beside the use of those before him."""
    runs = current_runs([session.pk for session in sessions])
    meters = billing.lock_meters([run.pk for run in runs.values()])
    at = clock.now()
    who = requesters.who_of([(session.owner, session.group_id) for session in sessions])
    asked = [(w.requester.user, w.requester.group, w.requester.organisation) for w in who.values() if w.requester]
    policies = limits_of.limits_and_effective_of(asked)
    used = dict(counters.lock(tuple(sorted({scope for person in who.values() for scope in person.scopes}))))
    money = billing.lock_money_of(meters.values(), at=at)
    found: list[_Judged] = []
    for session in sessions:
        person, run = who[session.owner_id, session.group_id], runs.get(session.pk)
        if person.requester is None or run is None:
            break
        policy = policies[session.owner_id, session.group_id]
        plan = plans.read_plan(plans.ask_of(session), person, at=at, session=session, sight=sight, policy=policy)
        own = gather.Own(session, held=meters[run.pk].held if run.pk in meters else 0)
        facts = gather.facts_of(plan, person, gather.Read(used, money.get(run.pk)), at=at, own=own)
        if plan.request is None or first_refusal(judge(facts)) is not None:
            break
        found.append(_Judged(session, run, plan, facts, own.held))
        for scope in person.scopes:
            for field, amount in counters.demand(session).items():
                used[scope, field] = used.get((scope, field), 0) + amount
    return found


def _leave(judged: Sequence[_Judged], sight: plans.Sight) -> int:
    """Give the first of these places, as far as there is room for them; answers how many left the line."""
    at = judged[0].facts.now
    places = placing.place_in_turn([(one.session, one.run, one.plan, one.facts) for one in judged], at=at)
    leaving = list(zip(judged, places, strict=False))
    images = {one.session.image_id: plans.image_row(one.session.image_id, sight) for one, _place in leaving}
    if leaving:
        billing.hand_off(*(one.run.pk for one, _place in leaving), at=at)
    for one, reserved in leaving:
        placing.write_claim(one.run, reserved, at)
        cause, image = Cause(Event.PLACED, detail=_LEFT), images[one.session.image_id]
        transition(one.session, cause, at=at, run=one.run, held=one.held, image=image)
    return len(leaving)
