"""What admission would say now: the same gates, on facts that are read without locks.

Guarantees: nothing is changed and nothing held; what is in a `Sight` is not read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cluster import services as cluster
from cluster.domain.placement import NoPlace
from gshare_core.kit import clock
from gshare_core.verdicts import Gate, Verdict
from sessions_app import gather, line, plans, requesters
from sessions_app.domain.facts import Ask, Facts
from sessions_app.domain.gates import first_refusal, judge, queue_policy
from sessions_app.models import Session
from sessions_app.placing import passage_of

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen: every gate's verdict, the price, and where it would land."""

    verdicts: list[Verdict]
    outcome: str  # placed, queued, refused
    hourly: int
    hold: int
    placement: dict[str, Any] | None
    no_place: NoPlace | None
    facts: Facts
    queue_length: int = 0
    after: datetime | None = None  # when the last in line before it will start, where that is known


def preview(ask: Ask, *, by: User, session: Session | None = None, sight: plans.Sight | None = None) -> Preview:
    """The verdicts that admission would give now; changes and locks nothing. What is in `sight` is not read again."""
    at = clock.now()
    sight = sight or plans.Sight(at)
    person = sight.his(("who", ask.group), lambda: requesters.who(by, ask.group))
    plan = plans.read_plan(ask, person, at=at, session=session, sight=sight)
    facts = gather.facts(plan, person, at=at, lock=False, own=gather.Own(session), sight=sight)
    verdicts = judge(facts)
    money = facts.money
    hourly, hold = (money.hourly, money.hold) if money else (0, 0)
    if first_refusal(verdicts) is not None or plan.request is None:
        return Preview(verdicts, "refused", hourly, hold, None, None, facts)
    found = cluster.look(plan.request, passage_of(session.pk if session else None, facts))
    front = sight.his(("fronts",), line.fronts).get(plan.lane, line.Front()) if plan.lane else line.Front()
    waiting = front.waiting
    if not isinstance(found, NoPlace) and not front.fits(plan.request):
        place = {"cluster": str(found.cluster_id), "node": found.node, "cards": list(found.cards)}
        verdicts.append(Verdict(Gate.RESERVATION, True, f"{found.node}", facts=place))
        verdicts.append(_handoff())
        return Preview(verdicts, "placed", hourly, hold, place, None, facts)
    no_place = found if isinstance(found, NoPlace) else None
    verdict = _waits_verdict(plan, facts, no_place, waiting)
    verdicts.append(verdict)
    outcome = "queued" if verdict.passed else "refused"
    return Preview(verdicts, outcome, hourly, hold, None, no_place, facts, waiting, front.last_estimate_at)


def _waits_verdict(plan: plans.Plan, facts: Facts, found: NoPlace | None, waiting: int) -> Verdict:
    if not plan.needs_card:
        return _no_capacity(found)
    room = queue_policy(facts)
    if not room.passed:
        return room
    detail = found.detail if found else f"{waiting} are in line before it."
    return Verdict(Gate.RESERVATION, True, f"Queues as number {waiting + 1}. {detail}", facts={"waiting": waiting})


def _no_capacity(found: NoPlace | None) -> Verdict:
    detail = found.detail if found else "No node has room for this session."
    remedy = "Try again in a moment, or take a smaller size: sessions without a GPU do not wait in line."
    facts = {"missing": found.short if found else {}}
    return Verdict(Gate.RESERVATION, False, detail, code="no_capacity", remedy=remedy, facts=facts)


def _handoff() -> Verdict:
    return Verdict(Gate.HANDOFF, True, "after you start")
