"""One function writes a session's state: it looks the event up in the table and carries the rule's effects out.

Guarantees: state, counters, money, claim, desired document and timeline change in the caller's one transaction, in the
order of locks; each change appends a timeline row; an event that the table does not know changes nothing and is recorded.
Refuses: sessions that the caller has not locked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from accounts import queries as accounts
from billing import services as billing
from catalog import queries as catalog
from cluster import services as cluster
from gshare_core.kit.rows import delete, insert, update
from gshare_core.quantities import microseconds_between
from sessions_app import counters, hints, line, spec
from sessions_app.domain.deadlines import Limits, span_of
from sessions_app.domain.decide import DRAINED
from sessions_app.domain.lifecycle import (
    TRAITS,
    Effect,
    Ending,
    Event,
    Rule,
    State,
    rule_for,
)
from sessions_app.domain.queue import Bucket
from sessions_app.domain.waking import wakes_at
from sessions_app.held import current_run, next_number
from sessions_app.models import QueueEntry, Run, Session
from sessions_app.timeline import Cause, Money, announce, record

START_FAILED = "The start failed on its card; it is tried again at its old place in line."
_WANTED = {
    Effect.WANT_RUNNING: "Running",
    Effect.WANT_PAUSED: "Paused",
    Effect.WANT_STOPPED: "Stopped",
    Effect.WANT_YIELDED: "Yielded",
}
_MONEY = frozenset(
    {
        Effect.END_BILLING,
        Effect.OPEN_BILLING,
        Effect.SETTLE,
        Effect.SUSPEND,
        Effect.REOPEN,
        Effect.NEXT_RUN,
        Effect.REQUEUE,
    }
)


@dataclass(slots=True)
class _Change:
    """One transition under way."""

    session: Session
    run: Run | None
    rule: Rule
    cause: Cause
    at: datetime
    money: Money = field(default_factory=Money)
    image: catalog.ImageRow | None = None


def transition(
    session: Session,
    cause: Cause,
    *,
    at: datetime,
    run: Run | None = None,
    held: int = 0,
    image: catalog.ImageRow | None = None,
) -> bool:
    """Apply an event to a locked session; answers whether the table knows the pair.

    `run` is the current run, locked with the session, and `image` its image; they are read when left out. `held` is what
    admission held for it. An unknown pair is put on the timeline.
    """
    ending = Ending(session.ending) if session.ending else None
    rule = rule_for(session.life, cause.event, ending=ending)
    if run is None:
        run = current_run(session)
    if rule is None:
        record(session, cause, at=at, money=Money())
        return False
    change = _Change(session, run, rule, cause, at, Money(held=held), image)
    before = session.life
    if run is not None and session.mode != "cpu" and set(rule.effects) & _MONEY and not billing.holds_meter(run.pk):
        billing.lock_meter(run.pk)
    _note_wishes(change)
    session.state = rule.to
    _move_counters(session, before)
    _carry_out(change)
    _settle_row(change, before)
    record(session, cause, at=at, money=change.money, before=before)
    announce(session)
    if before is State.QUEUED and cause.event in {Event.STOP, Event.PAUSE}:
        hints.line_moved()
    return True


@dataclass(frozen=True, slots=True)
class Beginning:
    """A new session in its first state (`starting` or `queued`) with its first run; its image is read when left out."""

    session: Session
    run: Run
    cause: Cause
    held: int
    image: catalog.ImageRow | None = None


def begin(*new: Beginning, at: datetime) -> None:
    """Insert new sessions with their first runs; admission's other half."""
    for one in new:
        one.session.generation = int(one.session.life is State.STARTING)
    insert(*(one.session for one in new))
    insert(*(one.run for one in new))
    counters.add((_scopes(one.session), counters.amounts(one.session, one.session.life, by_owner=False)) for one in new)
    for one in new:
        if one.session.life is State.STARTING:
            _hand_over(one.session, one.run, at, one.image)
        record(one.session, one.cause, at=at, money=Money(held=one.held), before=None)
        announce(one.session)


def write_desired(session: Session, run: Run, *, at: datetime) -> None:
    """A new generation of what is wanted, handed to the session's cluster; the session's row says it too."""
    session.generation += 1
    session.save(update_fields=["generation"])
    _hand_over(session, run, at)


def _hand_over(session: Session, run: Run, at: datetime, image: catalog.ImageRow | None = None) -> None:
    """What is wanted in the session's present generation, to its cluster."""
    assert run.cluster_id is not None, "a run without a cluster has nobody to tell"
    wanted = spec.desired_spec(session, run, image)
    cluster.put_desired(session_id=session.pk, cluster_id=run.cluster_id, spec=wanted, at=at)


def force(session: Session, run: Run, *, at: datetime) -> None:
    """Ask for the end without grace: a new generation, and a new deadline."""
    session.forced = True
    session.version += 1
    session.deadline_at = at + settings.GSHARE.end_timeout
    session.save(update_fields=["forced", "version", "deadline_at"])
    write_desired(session, run, at=at)
    record(session, Cause(Event.DEADLINE, detail="forced"), at=at, money=Money())
    announce(session)


def _note_wishes(change: _Change) -> None:
    """The session's flags that the event itself sets or clears."""
    session, event = change.session, change.cause.event
    if event is Event.RESUME:
        session.resume_wanted = True
    elif event in {Event.PAUSE, Event.STOP}:
        session.resume_wanted = False
        session.restarting = session.misplaced = False
    elif event is Event.RESTART:
        session.restarting = True
    elif event is Event.MISPLACED:
        session.misplaced = True
    elif event is Event.READY:
        session.failed_starts = 0
        session.restarting = session.misplaced = False
    elif event is Event.GONE and session.life is State.STARTING and change.cause.reason != DRAINED:
        session.failed_starts += 1
    elif event is Event.VANISHED:
        session.vanished_at = change.at
    if event is Event.PAUSE:
        session.paused_by_owner = change.cause.reason == "user"
    if change.rule.ending is not None:
        session.ending = change.rule.ending


def _move_counters(session: Session, before: State) -> None:
    by_owner = session.paused_by_owner
    old = counters.amounts(session, before, by_owner=by_owner)
    new = counters.amounts(session, session.life, by_owner=by_owner)
    amounts = {field: new.get(field, 0) - old.get(field, 0) for field in old | new}
    if any(amounts.values()):
        scopes = _scopes(session)
        counters.ensure_locked(scopes)
        counters.move(scopes, amounts, sign=1)


def _carry_out(change: _Change) -> None:
    """The effects, in the order of locks: money, then claims, then the desired document."""
    session, run, rule, at = change.session, change.run, change.rule, change.at
    if run is None:
        return
    paid = session.mode != "cpu"
    if rule.does(Effect.END_BILLING):
        run.end_asked_at = run.end_asked_at or at
        if paid:
            billing.request_end(run.pk, at=at)
    if rule.does(Effect.REOPEN) and paid:
        change.money.held = billing.reopen(run.pk, at=at)
    if rule.does(Effect.OPEN_BILLING) and paid:
        billing.meter_ready(run.pk, ready_at=run.ready_at or at, at=at)
    if rule.does(Effect.SUSPEND) and paid:
        _tell(change.money, run, billing.suspend(run.pk, at=at))
    if rule.does(Effect.NEXT_RUN) or rule.does(Effect.REQUEUE):
        _succeed(change)
        return
    if rule.does(Effect.SETTLE):
        settle_run(session, run, change.money, at=at)
    if rule.does(Effect.FREE):
        free(run, at=at)
    if rule.does(Effect.ORPHAN):
        cluster.orphan_claims(run.pk, generation=session.generation)
    update(run)
    _want(change, run)


def settle_run(session: Session, run: Run, money: Money, *, at: datetime) -> None:
    """Charge the run, release what is left of its hold, close it; once. The caller saves the run."""
    if run.closed_at is not None:
        return
    run.closed_at = max(at, run.opened_at)
    if session.mode == "cpu":
        session.running_us += _ran_us(run, at)
        return
    settlement = billing.settle(run.pk, at=at, last_alive_at=run.last_alive_at, ready_at=run.ready_at)
    _tell(money, run, settlement)
    session.charged += settlement.charged
    session.running_us += settlement.running_us


def _succeed(change: _Change) -> None:
    """Close the run and open the next: with the same claim (restart), or back in line (a start that failed)."""
    session, old, at = change.session, change.run, change.at
    assert old is not None
    old.closed_at = max(at, old.opened_at)
    new = Run(
        session=session,
        number=next_number(session),
        opened_at=at,
        rate_micro_per_hour=old.rate_micro_per_hour,
        factor_milli=old.factor_milli,
        hold_micro=old.hold_micro,
    )
    session.run_number = new.number
    if session.mode == "cpu":
        session.running_us += _ran_us(old, at)
    else:
        settlement = billing.carry_meter(from_run=old.pk, to_run=new.pk, at=at, last_alive_at=old.last_alive_at)
        _tell(change.money, old, settlement)
        session.charged += settlement.charged
        session.running_us += settlement.running_us
    keeps = change.rule.does(Effect.NEXT_RUN)
    if keeps:
        cluster.carry_claims(from_run_id=old.pk, to_run_id=new.pk, to_run=new.number, at=at)
        new.placed_at, new.cluster_id, new.node, new.card_uuids = at, old.cluster_id, old.node, old.card_uuids
    else:
        free(old, at=at)
    session.restarting = session.misplaced = False
    update(old)
    insert(new)
    if keeps:
        session.wanted = _WANTED[Effect.WANT_RUNNING]
        session.forced = False  # that was the pod before
        session.generation += 1
        _hand_over(session, new, at)
    else:
        back_in_line(session, at, reason="start_failed", detail=START_FAILED)
        unwant(old)


def _ran_us(run: Run, at: datetime) -> int:
    """How long a run without a meter ran: from ready to the asked end, never past its last proof of life."""
    end = min(run.end_asked_at or at, run.last_alive_at or at)
    return microseconds_between(run.ready_at, end) if run.ready_at else 0


def back_in_line(session: Session, at: datetime, *, reason: str, detail: str) -> None:
    """Put a locked session into its lane at its first admission's place."""
    bound = accounts.effective(session.owner_id, session.group_id)["max_runtime_min"].value or 0
    bucket = Bucket(spec.lane_of(session), line.shape_key(session, runtime_min=bound))
    why = {"reason": reason, "detail": detail, "missing": {}}
    line.join(line.Joining(session, bucket, why), place=session.line_at or at)


def free(run: Run, *, at: datetime) -> None:
    """Give the run's attachments and claims back."""
    cluster.release_attachments(run.pk, at=at)
    cluster.release_claims(run.pk, at=at)


def unwant(run: Run) -> None:
    """Forget the document of a run that is gone; what its cluster is told of a later one stays, and other clusters' too."""
    if run.cluster_id is not None:
        cluster.drop_desired(run.session_id, cluster_id=run.cluster_id, run=run.number)


def _want(change: _Change, run: Run) -> None:
    session, rule = change.session, change.rule
    wanted = next((word for effect, word in _WANTED.items() if rule.does(effect)), None)
    if wanted is not None:
        session.wanted = wanted
        session.forced = False
        session.generation += 1
        _hand_over(session, run, change.at, change.image)
    elif rule.does(Effect.FREE):
        session.wanted = "Stopped"
        unwant(run)


def _settle_row(change: _Change, before: State) -> None:
    """What follows from the new state: since when, until when, why, and whether it waits."""
    session, at, cause = change.session, change.at, change.cause
    after = session.life
    if before is State.QUEUED and after is not State.QUEUED:
        delete(QueueEntry, session.pk)
    if after is not before:
        # A pause that somebody wanted stays one, however its pod went away.
        why = session.reason if before is State.PAUSING else cause.reason
        session.resume_at = _wakes_at(session, why, at)
        session.state_since = at
        if before not in {State.PAUSING, State.STOPPING} or cause.reason:
            # Why it was asked to end stays the reason when the end is confirmed.
            session.reason, session.detail = cause.reason, cause.detail
    if TRAITS[after].terminal:
        session.ended_at = max(at, session.created_at)
        session.resume_wanted = False
    if after not in {State.PAUSING, State.PAUSED}:
        session.paused_by_owner = False
    if after not in {State.STARTING, State.LOST}:
        # They speak of the pod that is being replaced: the next start begins without them.
        session.restarting = session.misplaced = False
    if after is not before or change.rule.effects:
        # What only repeats a wish buys no time: else who keeps asking keeps the card.
        session.deadline_at = _deadline(change)
    session.version += 1
    update(session)


def _deadline(change: _Change) -> datetime | None:
    session, conf = change.session, settings.GSHARE
    limits = Limits(conf.start_timeout, conf.end_timeout, conf.yield_base, conf.yield_rate, conf.restore_rate)
    tearing_down = session.restarting or session.misplaced
    span = span_of(session.life, limits, tearing_down=tearing_down, vram_mib=session.vram_mib * session.cards)
    return change.at + span if span is not None else None


def _wakes_at(session: Session, reason: str, at: datetime) -> datetime | None:
    if session.life is not State.PAUSED or not session.auto_resume:
        return None
    return wakes_at(reason, at=at, woken_at=session.woken_at, pause=settings.GSHARE.auto_resume_pause)


def _tell(money: Money, run: Run, settlement: billing.Settlement) -> None:
    """What the timeline has not told of the run's charge yet: a run that was lost is settled twice, billed once."""
    money.charged += settlement.charged - run.charged
    run.charged = settlement.charged
    money.run = run.number
    money.billed_from, money.billed_to = settlement.billed_from, settlement.billed_to


def _scopes(session: Session) -> tuple[str, ...]:
    return counters.scopes_of(user=session.owner_id, group=session.group_id, organisation=session.organisation_id)
