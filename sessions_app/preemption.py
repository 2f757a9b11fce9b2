"""Asks running sessions of lower priority to make room for a waiting one: the edge of the rules (`domain.preemption`).

Guarantees: whom to ask is chosen in one transaction that holds the waiting session and keeps the place for it, so that two walks
choose once and nobody else takes what comes free; each one chosen is asked in a transaction of its own, where he and the
waiting session are judged again; who ends already makes room first, so that a walk that was killed, or repeated while those who
were asked are still ending, asks nobody twice and nobody for nothing. A preempted session is paused, never destroyed.
Refuses to ask for a session that another gate would refuse, or that would not fit all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F, Max, Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts import notices
from accounts.services.common import in_language_of
from billing import services as billing
from cluster import fleets
from cluster import services as cluster
from cluster.domain.earmarks import Reservation
from cluster.domain.preemption import Choice
from gshare_core.kit import clock, locks
from sessions_app import gather, plans, requesters
from sessions_app.domain.gates import first_refusal, judge
from sessions_app.domain.lifecycle import Event, State
from sessions_app.domain.preemption import Rules, Runner, may_be_asked
from sessions_app.domain.queue import Waiting
from sessions_app.held import current_run, lock_session
from sessions_app.models import Preemption, QueueEntry, Run, Session, SessionQuerySet
from sessions_app.stepping import stepped, stepped_in_order
from sessions_app.timeline import Cause, Money, announce, record
from sessions_app.transition import transition

REASON = "preempted"
_ONE_CHOOSES = "preemption"  # a name among the lanes: those who choose see what the one before kept


def make_room(entry: Waiting) -> bool:
    """Have room made for the head of a lane; answers whether a place is kept for it that those who were asked give back."""
    if entry.priority <= 0:
        return False
    if not _is_chosen_for(entry):
        if clock.now() - entry.enqueued_at < settings.GSHARE.reserve_after:
            cluster.drop_earmark(entry.session)  # it was for room that nobody makes any more
        return False
    chosen = Preemption.objects.filter(session=entry.session, asked_at=None).order_by("pk")
    for victim in list(chosen.values_list("victim_id", flat=True)):
        stepped(_ask_apart, victim, entry.session)
    return True


def _is_chosen_for(entry: Waiting) -> bool:
    if not _lower(entry.priority).exists() and not fleets.kept_cards(entry.session):
        return False
    _forget_who_is_behind(entry)
    return stepped_in_order(_choose, entry.session)


def waiting_for_room(session_ids: Collection[UUID]) -> set[UUID]:
    """Those of these waiting sessions for whom somebody who was asked still gives his card back. One statement."""
    ending = Preemption.objects.filter(
        session__in=session_ids,
        asked_at__isnull=False,
        victim__runs__number=F("victim_run"),
        victim__runs__closed_at=None,
    )
    return set(ending.values_list("session_id", flat=True))


def _lower(priority: int) -> SessionQuerySet:
    """Who might be asked, or was and is not gone yet."""
    was_asked = Q(state=State.PAUSING, reason=REASON)
    return Session.objects.filter(Q(state=State.RUNNING, preemptible=True) | was_asked, priority__lt=priority)


def _forget_who_is_behind(head: Waiting) -> None:
    """Give up what is kept for others of the head's lane: whoever was its head before stands behind it now."""
    marked = set(cluster.kept_until()) - {head.session}
    behind = (
        QueueEntry.objects.filter(session__in=marked, lane=head.bucket.lane) if marked else QueueEntry.objects.none()
    )
    for session_id in list(behind.values_list("session_id", flat=True)):
        cluster.drop_earmark(session_id)


# Choosing ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scene:
    """Who could make room: who may be asked (how long he has run, whether he was chosen before), and who ends anyway."""

    victims: Mapping[UUID, tuple[timedelta, bool]]
    runs: Mapping[UUID, int]
    going: Mapping[UUID, datetime]
    asked: frozenset[UUID]
    """Those of `going` who make room for a higher priority."""


def _choose(session_id: UUID) -> bool:
    """Choose whom to ask for a waiting session and keep the place; whether there is one that somebody makes."""
    locks.lock_name(locks.Rank.LANE, _ONE_CHOOSES)
    session = lock_session(session_id)
    if session is None or session.life is not State.QUEUED:
        return False
    at = clock.now()
    person = requesters.who(session.owner, session.group_id)
    plan = plans.read_plan(plans.ask_of(session), person, at=at, session=session)
    scene = _scene(session, at)
    choice = None
    if plan.request is not None:
        choice = cluster.making_room(session_id, plan.request, going=scene.going, victims=scene.victims)
    if choice is None or plan.request is None or not (choice.victims or _is_made(session, choice, scene)):
        return _give_up(session)
    if choice.victims and _is_refused(session, plan, person, at):
        return _give_up(session)
    cluster.keep_this(session_id, plan.request, _place(choice, at), at=at)
    _note(session, choice, scene, at)
    return True


def _scene(session: Session, at: datetime) -> _Scene:
    asked_at = dict(_lately(session, at).values_list("victim_id").annotate(Max("asked_at")))
    chosen = set(Preemption.objects.filter(session=session, asked_at=None).values_list("victim_id", "victim_run"))
    running = Run.objects.filter(
        number=F("session__run_number"),
        closed_at=None,
        session__state=State.RUNNING,
        session__preemptible=True,
        session__priority__lt=session.priority,
    )
    victims, runs = {}, {}
    for run in running.exclude(ready_at=None).select_related("session"):
        victim, ran = run.session_id, _ran(run, at)
        if ran is not None and _may_be_asked(run.session, ran, session.priority, asked_at.get(victim), at):
            victims[victim] = (ran, (victim, run.number) in chosen)
            runs[victim] = run.number
    ending = list(Session.objects.filter(state__in=(State.PAUSING, State.STOPPING)).only(*_ENDING))
    return _Scene(
        victims=victims,
        runs=runs | {end.pk: end.run_number for end in ending},
        going={end.pk: end.deadline_at or at for end in ending},
        asked=frozenset(end.pk for end in ending if end.reason == REASON and end.priority < session.priority),
    )


def _lately(session: Session, at: datetime) -> QuerySet[Preemption]:
    """Whom the same person's sessions had asked a while ago at most, this one and others."""
    return Preemption.objects.filter(requester=session.owner_id, asked_at__gt=at - settings.GSHARE.preempt_again_after)


_ENDING = ("state", "reason", "priority", "deadline_at", "run_number")


def _ran(run: Run, at: datetime) -> timedelta | None:
    """How long a session has run since it was last admitted; None when it does not run."""
    session = run.session
    if session.life is not State.RUNNING or run.ready_at is None:
        return None
    return at - run.ready_at + timedelta(microseconds=session.running_us - session.running_us_at_admission)


def _may_be_asked(
    session: Session, ran: timedelta | None, priority: int, asked_at: datetime | None, at: datetime
) -> bool:
    limits = settings.GSHARE
    runner = Runner(preemptible=session.preemptible, priority=session.priority, ran=ran, asked_at=asked_at)
    rules = Rules(limits.min_runtime, limits.preempt_again_after)
    return may_be_asked(runner, priority=priority, rules=rules, now=at)


def _is_refused(session: Session, plan: plans.Plan, person: requesters.Who, at: datetime) -> bool:
    """Whether another gate than the metal would refuse it now: then nobody is asked for it."""
    run = current_run(session)
    meter = billing.lock_meter(run.pk) if run is not None else None
    own = gather.Own(session, held=meter.held if meter else 0)
    facts = gather.facts(replace(plan, after_the_wait=True), person, at=at, lock=False, own=own)
    return first_refusal(judge(facts)) is not None


def _is_made(session: Session, choice: Choice, scene: _Scene) -> bool:
    """Whether who ends anyway does so to make room, or gives back what is kept for the session already."""
    return bool(_asked_of(choice, scene)) or set(choice.cards) == set(fleets.kept_cards(session.pk))


def _asked_of(choice: Choice, scene: _Scene) -> set[UUID]:
    """Who of those that give back the cards of the place does so to make room."""
    return {held.session for held in choice.going if held.session in scene.asked and held.session is not None}


def _place(choice: Choice, at: datetime) -> Reservation:
    """The place as an earmark: when it must be free, and who gives it back."""
    until = at + settings.GSHARE.end_timeout
    leaving = (*choice.going, *(replace(victim.holding, ends_at=until, hard=True) for victim in choice.victims))
    ready_at = max((held.ends_at for held in leaving if held.ends_at is not None), default=until)
    return Reservation(choice.node, choice.cards, ready_at, leaving)


def _give_up(session: Session) -> bool:
    Preemption.objects.filter(session=session, asked_at=None).delete()
    return False


def _note(session: Session, choice: Choice, scene: _Scene, at: datetime) -> None:
    """Write down who is chosen now, and that who ends already does so for this session too; tell of who is new."""
    wanted = [victim.session for victim in choice.victims]
    Preemption.objects.filter(session=session, asked_at=None).exclude(victim__in=wanted).delete()
    known = set(Preemption.objects.filter(session=session).values_list("victim_id", "victim_run"))
    asked = _asked_of(choice, scene)
    rows = [
        Preemption(
            session=session,
            requester_id=session.owner_id,
            victim_id=victim,
            victim_run=scene.runs[victim],
            chosen_at=at,
            asked_at=at if victim in asked else None,
        )
        for victim in (*wanted, *sorted(asked))
        if (victim, scene.runs[victim]) not in known
    ]
    Preemption.objects.bulk_create(rows)
    if not rows:
        return
    record(session, Cause(Event.PREEMPTS, detail=str(len(rows))), at=at, money=Money())
    session.version += 1
    session.save(update_fields=["version"])
    announce(session)
    with in_language_of(session.owner):
        title, body = _told_the_requester(session, len(rows))
    _notify(session, "room_made", title, body, at)


# Asking --------------------------------------------------------------------------------------------------------------


def _ask_apart(victim_id: UUID, session_id: UUID) -> bool:
    """Ask one who was chosen, in his own transaction; both are judged as they are then."""
    with locks.ordered():
        found = {key: lock_session(key) for key in sorted((victim_id, session_id), key=str)}
        victim, session = found[victim_id], found[session_id]
        row = Preemption.objects.filter(session=session_id, victim=victim_id, asked_at=None).first()
        if victim is None or session is None or row is None:
            return False
        at = clock.now()
        if session.life is not State.QUEUED or not _still_may(victim, session, row, at):
            row.delete()
            return False
        if not transition(victim, Cause(Event.PAUSE, reason=REASON), at=at):
            row.delete()
            return False
        row.asked_at = at
        row.save(update_fields=["asked_at"])
        with in_language_of(victim.owner):
            title, body = _told_the_victim(victim)
        _notify(victim, "session_paused", title, body, at)
    return True


def _still_may(victim: Session, session: Session, row: Preemption, at: datetime) -> bool:
    run = current_run(victim)
    if run is None or run.number != row.victim_run or run.closed_at is not None:
        return False
    run.session = victim
    asked_at = _lately(session, at).filter(victim=victim).aggregate(at=Max("asked_at"))["at"]
    return _may_be_asked(victim, _ran(run, at), session.priority, asked_at, at)


# Words ---------------------------------------------------------------------------------------------------------------


def _told_the_victim(session: Session) -> tuple[str, str]:
    body = _("It is preemptible, and room was needed. Its volumes are kept; paused, it costs nothing.")
    then = _("It goes back in line by itself.") if session.auto_resume else _("Resume it to go back in line.")
    return _("%(name)s was paused, it made room for a higher priority") % {"name": session.name}, f"{body} {then}"


def _told_the_requester(session: Session, many: int) -> tuple[str, str]:
    body = ngettext(
        "%(n)d session of lower priority is paused for it. It starts when that has ended; the place is kept for it.",
        "%(n)d sessions of lower priority are paused for it. It starts when they have ended; the place is kept for it.",
        many,
    )
    return _("Room is made for %(name)s") % {"name": session.name}, body % {"n": many}


def _notify(session: Session, kind: str, title: str, body: str, at: datetime) -> None:
    notices.notify(user_id=session.owner_id, kind=kind, title=title, body=body, at=at, link=f"/sessions/{session.pk}/")
