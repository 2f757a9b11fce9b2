"""The facts that the gates judge: a plan, and what is read after its locks.

Guarantees: with `lock`, counters, then budgets and wallet, then volumes are locked in their order and read after the wait;
without, the same is read for a preview, and nothing is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from accounts import queries as accounts
from accounts.domain.policies import Effective, Limit
from billing import queries as billing_queries
from billing import services as billing
from billing.domain import pricing
from sessions_app import counters
from sessions_app.domain.facts import (
    BudgetFact,
    Facts,
    LimitFact,
    MoneyFact,
    MountFact,
    RightFact,
    Rights,
)
from sessions_app.models import Session
from sessions_app.plans import Plan, Sight, known_mounts, mounts_of
from sessions_app.requesters import Who


@dataclass(frozen=True, slots=True)
class Own:
    """What the session itself already holds, to be left out when it is judged again: at dequeue its own hold."""

    session: Session | None = None
    held: int = 0


def facts(
    plan: Plan, person: Who, *, at: datetime, lock: bool, own: Own | None = None, sight: Sight | None = None
) -> Facts:
    """The facts of gates 1 to 6; with `lock`, counters, then budgets and wallet, then volumes are locked first.

    Without, what is in `sight` is not read again.
    """
    own, sight = own or Own(), sight or Sight(at)
    used = counters.lock(person.scopes) if lock else sight.his(("used",), lambda: counters.read(person.scopes))
    money = _money(plan, person, at=at, sight=None if lock else sight) if plan.needs_card else None
    asks = plan.ask.mounts
    mounts = mounts_of(asks, person, lock=True) if lock else known_mounts(asks, person, sight)
    if person.requester and lock and not plan.after_the_wait:
        policy = accounts.limits_and_effective(
            person.user.pk, plan.ask.group, organisation_id=person.requester.organisation
        )
        plan = replace(plan, policy=policy)
    return facts_of(plan, person, Read(used, money, mounts), at=at, own=own)


@dataclass(frozen=True, slots=True)
class Read:
    """What was read for one request: use of its scopes, money, volumes."""

    used: counters.Used
    money: billing.MoneyFacts | None
    mounts: tuple[MountFact, ...] = ()


def facts_of(plan: Plan, person: Who, read: Read, *, at: datetime, own: Own) -> Facts:
    """The facts of what has been read; asks for nothing. The limits are the plan's."""
    limits, effective = plan.policy
    used, mounts = read.used, read.mounts
    asked = counters.demand(plan.shape) if plan.shape else {}
    return Facts(
        ask=plan.ask,
        requester=person.requester,
        offering=plan.offering,
        preset_found=plan.preset_found,
        image=plan.image,
        cluster_found=plan.cluster_found,
        shape=plan.shape,
        shape_refusal=plan.refusal,
        mounts=mounts,
        personal_wallet=billing_queries.personal_wallet_id(person.user.pk) if plan.ask.wallet is not None else None,
        limits=_limits(limits, used, asked),
        queue_limits=_limits(limits, used, {counters.WAITING_FIELD: 1}),
        rights=Rights(
            privileged=_right(effective, "allow_privileged"),
            preemptible=_right(effective, "allow_preemptible"),
            max_priority=_right(effective, "max_priority"),
            shared_pool=_right(effective, "shared_pool"),
            max_runtime_min=_right(effective, "max_runtime_min"),
        ),
        money=_money_fact(plan, read.money, own),
        now=at,
        session=own.session.pk if own.session else None,
        only_shared=plan.only_shared,
    )


def _limits(limits: Sequence[Limit], used: counters.Used, asked: dict[str, int]) -> tuple[LimitFact, ...]:
    return tuple(
        LimitFact(
            field=limit.field,
            limit=limit.limit,
            scope=limit.scope,
            used=used.get((limit.usage_scope, limit.field), 0),
            asked=asked[limit.field],
        )
        for limit in limits
        if limit.field in asked
    )


def _right(effective: Mapping[str, Effective], field: str) -> RightFact:
    value = effective.get(field)
    return RightFact(value.value, str(value.scope or "global")) if value else RightFact(None, "global")


def _money(plan: Plan, person: Who, *, at: datetime, sight: Sight | None) -> billing.MoneyFacts | None:
    """Locked where no sight is given."""
    scopes = person.money_scopes
    if plan.price is None or scopes is None:
        return None
    if sight is None:
        return billing.lock_money(scopes, at=at)
    wallet = sight.wallet
    return sight.his(("money",), lambda: billing_queries.money_facts(scopes, at=at, wallet=wallet))


def _money_fact(plan: Plan, found: billing.MoneyFacts | None, own: Own) -> MoneyFact | None:
    if found is None or plan.price is None:
        return None
    hold = own.held or plan.hold  # who waits holds what he will begin with, also where an earlier run used some of it
    return MoneyFact(
        hourly=pricing.hourly_micro(plan.price),
        hold=hold,
        available=found.available + own.held,
        wallet=found.wallet_id,
        budgets=tuple(
            BudgetFact(b.budget_id, b.scope, b.limit, b.spent, max(0, b.held - own.held), b.mode) for b in found.budgets
        ),
    )
