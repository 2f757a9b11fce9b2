"""Creates that arrive at the same instant are admitted in one transaction, through the same eight gates, in their order.

Guarantees: what `admission` guarantees, for each of them: locks in their order, each locking statement once for all; gates 1
to 6 judge each beside what those before him take; effects, keys and answers happen together or not at all. Who is refused by
a gate, or is not as simple as the rest (volumes, no card, a key that was used before, a place on which a rival was faster),
leaves nothing here and is decided on alone by `admission.create_session`: nobody is refused, undone or told anything because of
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from accounts import queries as limits_of
from accounts import services as accounts
from accounts.domain.policies import Effective, Limit
from billing import services as billing
from catalog import queries as catalog
from cluster import fleets
from cluster import services as cluster
from cluster.domain.placement import NoPlace
from gshare_core.errors import DomainError
from gshare_core.kit import clock, locks
from gshare_core.kit.idempotency import Once, Reply, claim_all, disclaim, keep_all
from sessions_app import admission, counters, gather, line, placing, plans, queries, recent_use, requesters
from sessions_app.domain.facts import Ask, Facts
from sessions_app.domain.gates import first_refusal, judge, queue_policy
from sessions_app.models import Session
from sessions_app.requesters import Who

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class Arrival:
    """A create as it was asked for."""

    ask: Ask
    by: User
    once: Once | None = None

    @property
    def whose(self) -> tuple[UUID, UUID]:
        """Person and group."""
        return self.by.pk, self.ask.group


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """One whose ask is as simple as the rest: for a share of a card or whole ones, without volumes."""

    arrival: Arrival
    person: Who
    plan: plans.Plan
    lane: str
    image: catalog.ImageRow | None


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """One who passes gates 1 to 6, with the session that would begin."""

    planned: _Planned
    facts: Facts
    new: admission.New


def admit_together(arrivals: Sequence[Arrival]) -> list[Session | Reply | None]:
    """Admit those who can be; None for each who has to be tried alone, of whom nothing stays."""
    requesters.prepare_all([(arrival.by, arrival.ask.group) for arrival in arrivals])
    with locks.ordered():
        claimed = _hold_still(arrivals)
        planned = _plan(claimed)
        for lane in sorted({one.lane for one in planned}):
            locks.lock_name(locks.Rank.LANE, lane)
        answers = _admit(planned, clock.now()) if planned else {}
        disclaim([arrival.once for arrival in claimed if arrival.once and id(arrival) not in answers])
    return [answers.get(id(arrival)) for arrival in arrivals]


def _admit(planned: Sequence[_Planned], at: datetime) -> dict[int, Session | Reply]:
    """The eight gates for all of them; what those are told who pass, by arrival."""
    openings, judged = _judge(planned, at)  # 1 to 6
    admitted = _place(judged, at)  # 7
    for one in judged:
        if one not in admitted:
            openings.drop(one.new.run.pk)
    openings.close()
    if not admitted:
        return {}
    admission.write_new([one.new for one in admitted], at)  # 8, and the effects
    return _answer(admitted, openings, at)


def _hold_still(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Requesters and keys; those whose keys are theirs to use. The same request twice is once the group's and once its own."""
    accounts.lock_requesters([arrival.whose for arrival in arrivals])
    first = {arrival.once.row: arrival for arrival in reversed(arrivals) if arrival.once}
    claimed = claim_all([arrival.once for arrival in first.values() if arrival.once], now=clock.now())
    return [
        arrival
        for arrival in arrivals
        if arrival.once is None or (arrival.once.row in claimed and first[arrival.once.row] is arrival)
    ]


def _plan(arrivals: Sequence[Arrival]) -> list[_Planned]:
    """What needs no lock but the requesters': seats, catalogue, shapes, prices, lanes."""
    at = clock.now()
    sight = plans.Sight(at)
    people = requesters.who_of([(arrival.by, arrival.ask.group) for arrival in arrivals])
    policies = _policies(people)
    sight.know_catalogue(
        catalog.wanted(
            presets={arrival.ask.preset for arrival in arrivals if arrival.ask.preset},
            offerings={arrival.ask.offering for arrival in arrivals if arrival.ask.offering},
            images={arrival.ask.image for arrival in arrivals},
            at=at,
        )
    )
    found = []
    with fleets.one_picture():
        for arrival in arrivals:
            person = people[arrival.whose]
            if person.requester is None:
                continue
            try:
                plan = plans.read_plan(arrival.ask, person, at=at, sight=sight, policy=policies[arrival.whose])
            except DomainError:  # what his numbers mean is his own to hear
                continue
            if plan.lane is None or plan.request is None or plan.price is None or plan.refusal or arrival.ask.mounts:
                continue
            found.append(_Planned(arrival, person, plan, plan.lane, plans.image_row(arrival.ask.image, sight)))
    return found


def _policies(
    people: Mapping[tuple[UUID, UUID], Who],
) -> dict[tuple[UUID, UUID], tuple[list[Limit], dict[str, Effective]]]:
    """What binds them, as the rows are now; one statement."""
    asked = [
        (who.requester.user, who.requester.group, who.requester.organisation)
        for who in people.values()
        if who.requester
    ]
    return limits_of.limits_and_effective_of(asked) if asked else {}


def _judge(planned: Sequence[_Planned], at: datetime) -> tuple[billing.Openings, list[_Judged]]:
    """Gates 1 to 6, each beside what those before him would use at most: as if each both ran and waited."""
    people = {one.arrival.whose: one.person for one in planned}
    policies = _policies(people)
    used = dict(counters.lock(tuple(sorted({scope for person in people.values() for scope in person.scopes}))))
    openings = billing.Openings([who.money_scopes for who in people.values() if who.money_scopes], at=at)
    found = []
    for one in planned:
        person = one.person
        assert person.money_scopes is not None
        plan = replace(one.plan, policy=policies[one.arrival.whose])
        read = gather.Read(used, openings.facts(person.money_scopes))
        facts = gather.facts_of(plan, person, read, at=at, own=gather.Own())
        if first_refusal(judge(facts)) is not None:
            continue
        new = admission.new(plan, person, facts, image=one.image)
        openings.open(admission.opening(new.session, new.run, plan, person))
        for scope in person.scopes:
            for field, amount in counters.most(new.session).items():
                used[scope, field] = used.get((scope, field), 0) + amount
        found.append(_Judged(replace(one, plan=plan), facts, new))
    return openings, found


def _place(judged: Sequence[_Judged], at: datetime) -> list[_Judged]:
    """Gate 7: claims for those who fit, a place in line for those who may wait; who is neither is left out."""
    fitting, waiting = _look(judged)
    asking = [(one.new.session, one.new.run, one.planned.plan, one.facts) for one in fitting]
    places = placing.place_in_turn(asking, at=at) if asking else []
    for one, reserved in zip(fitting, places, strict=False):
        one.new.placed = placing.Placed(reserved)
    joining = [one for one in waiting if queue_policy(one.facts).passed]
    if joining:  # read here, where nothing waits to be written yet
        penalties = recent_use.penalties(sorted({line.whose(one.new.session) for one in joining}), at=at)
        for one in joining:
            one.new.penalty = penalties[line.whose(one.new.session)]
    return [*fitting[: len(places)], *joining]


def _look(judged: Sequence[_Judged]) -> tuple[list[_Judged], list[_Judged]]:
    """Who may take what is free, and who stands behind others or finds no room; nothing is taken yet."""
    fitting: list[_Judged] = []
    waiting: list[_Judged] = []
    heads: dict[str, bool] = {}
    looks: dict[tuple[object, datetime | None], object] = {}  # nobody new has anything kept for himself
    with fleets.one_picture():
        for one in judged:
            lane, request = one.planned.lane, one.planned.plan.request
            assert request is not None
            if lane not in heads:
                heads[lane] = line.someone_fits(lane, request)
            if heads[lane]:
                one.new.placed = placing.behind_others()
                waiting.append(one)
                continue
            passage = placing.passage_of(one.new.session.pk, one.facts)
            asked = request.ask, passage.ends_by
            if asked not in looks:
                looks[asked] = cluster.look(request, passage)
            found = looks[asked]
            if isinstance(found, NoPlace):
                one.new.placed = placing.no_room(found)
            (fitting if one.new.placed is None else waiting).append(one)
    return fitting, waiting


def _answer(admitted: Sequence[_Judged], openings: billing.Openings, at: datetime) -> dict[int, Session | Reply]:
    """What each is told, kept with his key; by arrival."""
    costs = {one.new.run.pk: openings.cost(one.new.run.pk) for one in admitted}
    images = {one.new.session.pk: one.planned.image.apps for one in admitted if one.planned.image}
    details = queries.details_of([(one.new.session, one.new.run) for one in admitted], costs, images)
    answers: dict[int, Session | Reply] = {id(one.planned.arrival): one.new.session for one in admitted}
    asked = [(one.planned.arrival, one.planned.arrival.once, one.new.session) for one in admitted]
    keyed = [(arrival, once, admission.Admitted(session, details, at)) for arrival, once, session in asked if once]
    replies = keep_all([(once, told) for _arrival, once, told in keyed])
    return answers | {id(arrival): reply for (arrival, _once, _told), reply in zip(keyed, replies, strict=True)}
