"""Budgets: what counts, what blocks, where a period ends, and when somebody is told."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from billing import queries
from billing import services as billing
from billing.domain.budgets import Mode, Rule
from billing.domain.facts import ScopeKind
from billing.domain.pricing import charge_micro
from billing.models import Budget, BudgetAlert, BudgetPeriod
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from tests.apps.billing.stage import (
    HOLD,
    QUARTER,
    T0,
    alive,
    at_time,
    books_agree,
    charges,
    ended,
    meter,
    opened,
    running,
    t,
    tick,
    wallet,
)
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr

pytestmark = pytest.mark.django_db


def minutes(at: datetime) -> float:
    return (at - T0) / timedelta(minutes=1)


APRIL = minutes(datetime(2026, 4, 1, tzinfo=UTC))
APRIL_IN_SEOUL = minutes(datetime(2026, 3, 31, 15, tzinfo=UTC))


def a_budget(
    customer: Customer,
    limit: int | str,
    mode: Mode = "block",
    *,
    kind: ScopeKind = "user",
    rule: Rule = Rule("UTC"),  # noqa: B008 -- frozen
    at: float = 0,
) -> Budget:
    scope = billing.BudgetScope(kind, dict(customer.scopes.as_pairs())[kind])
    with at_time(at):
        return billing.create_budget(scope=scope, limit=cr(limit), mode=mode, rule=rule, by=None)


def held(budget: Budget) -> int:
    return Budget.objects.values_list("held", flat=True).get(pk=budget.pk)


def spent(budget: Budget) -> list[int]:
    return list(BudgetPeriod.objects.filter(budget=budget).order_by("starts_at").values_list("spent", flat=True))


# The gate ------------------------------------------------------------------------------------------------------------


def test_a_blocking_budget_refuses_what_would_exceed_it_and_lets_pass_what_just_fits() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 25)
    opened(alice)
    opened(alice)
    with pytest.raises(DomainError) as refused:
        opened(alice, hold=1)
    assert refused.value.code == "budget_exceeded"
    assert refused.value.facts["scope"] == f"user:{alice.user.pk}"
    assert held(budget) == cr(25)
    assert wallet(alice) == (cr(100), cr(25))
    assert books_agree()


def test_a_warning_budget_refuses_nothing() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 1, "warn")
    opened(alice)
    assert held(budget) == HOLD


@pytest.mark.parametrize("kind", ["user", "group", "organisation"])
def test_every_scope_blocks(kind: ScopeKind) -> None:
    alice = a_customer(100)
    a_budget(alice, 12, kind=kind)
    facts = queries.money_facts(alice.scopes, at=t(0))
    assert [budget.scope.partition(":")[0] for budget in facts.budgets] == [kind]
    assert facts == billing.lock_money(alice.scopes, at=t(0))
    with pytest.raises(DomainError):
        opened(alice)


def test_a_budget_of_a_group_counts_what_all_its_members_spend_there_and_nothing_else() -> None:
    group = a_group()
    alice, bob = a_customer(100, group=group), a_customer(100, group=group)
    elsewhere = Customer(alice.user, a_group(group.organisation), alice.wallet)
    budget = a_budget(alice, 1000, kind="group")
    whole = a_budget(alice, 1000, kind="organisation")
    for customer in (alice, bob, elsewhere):
        ended(running(customer), at=30)
    assert spent(budget) == [cr("12.5")]
    assert spent(whole) == [cr("18.75")]
    assert books_agree()


def test_facts_come_the_narrowest_scope_first() -> None:
    alice = a_customer(100)
    for kind in ("organisation", "user", "group"):
        a_budget(alice, 100, kind=kind)
    scopes = [budget.scope.partition(":")[0] for budget in billing.lock_money(alice.scopes, at=t(0)).budgets]
    assert scopes == ["user", "group", "organisation"]


# What counts ---------------------------------------------------------------------------------------------------------


def test_a_settled_session_counts_what_was_consumed_not_the_released_hold() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 100)
    run = running(alice)
    assert (held(budget), spent(budget)) == (HOLD, [0])
    ended(run, at=12)
    assert (held(budget), spent(budget)) == (0, [cr("2.5")])
    waited = opened(alice, at=20)
    billing.settle(waited, at=t(30))
    assert (held(budget), spent(budget)) == (0, [cr("2.5")])
    assert books_agree()


def test_a_top_up_moves_hold_and_spend_together() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 100)
    run = running(alice)
    tick(48, run)
    assert (held(budget), spent(budget)) == (HOLD, [cr(10)])
    assert books_agree()


def test_a_restart_carries_the_hold_on_the_budget_too() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 100)
    old, new = running(alice), uuid7()
    billing.request_end(old, at=t(12))
    billing.carry_meter(from_run=old, to_run=new, at=t(13), last_alive_at=t(13))
    assert (held(budget), spent(budget)) == (cr(10), [cr("2.5")])
    billing.settle(new, at=t(14))
    assert held(budget) == 0
    assert books_agree()


def test_a_lost_run_releases_its_hold_on_the_budget_and_takes_a_new_one_when_it_returns() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, "14.9")
    run = running(alice)
    alive(run, at=12)
    billing.suspend(run, at=t(17))
    assert (held(budget), spent(budget)) == (0, [cr("2.5")])
    with pytest.raises(DomainError) as refused:
        billing.reopen(run, at=t(20))
    assert refused.value.code == "budget_exceeded"
    billing.change_budget(budget_id=budget.pk, limit=cr(15), mode="block", by=None)
    billing.reopen(run, at=t(21))
    assert held(budget) == HOLD
    assert books_agree()


def test_a_new_budget_knows_what_its_period_has_spent_and_joins_a_hold_at_the_next_top_up() -> None:
    alice = a_customer(100)
    ended(running(alice), at=30)
    run, other = running(alice, at=40), opened(alice, at=40)
    budget = a_budget(alice, 1000, at=50)
    assert (held(budget), spent(budget)) == (0, [cr("6.25")])
    tick(40 + 48, run)
    assert (held(budget), spent(budget)) == (HOLD, [cr("16.25")])
    billing.settle(other, at=t(90))  # never counted, so its release changes nothing
    assert held(budget) == HOLD
    assert books_agree()


def test_a_closed_budget_blocks_no_more_and_its_holds_still_go_back() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 20)
    run = running(alice)
    billing.close_budget(budget_id=budget.pk, by=None)
    other = opened(alice)
    ended(run, at=10)
    assert held(budget) == 0
    billing.settle(other, at=t(11))
    assert books_agree()


# Blocked top-ups -----------------------------------------------------------------------------------------------------


def test_a_refused_top_up_ends_like_an_empty_wallet_with_the_budget_as_the_reason() -> None:
    alice = a_customer(100)
    a_budget(alice, 15)
    run = running(alice)
    tick(48, run)
    assert meter(run).short == "budget_exhausted"
    assert meter(run).hold_ends_at == t(72)
    tick(73, run)
    assert queries.exhausted(t(73), 10) == [run]
    assert queries.exhaustion_reason(run) == "budget_exhausted"
    done = ended(run, at=73)
    assert (done.charged, done.billed_to) == (cr(15), t(72))
    assert wallet(alice) == (cr(85), 0)
    assert books_agree()


def test_the_next_period_gives_a_blocked_run_room_again() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 13)
    run = running(alice, at=APRIL - 50)
    tick(APRIL - 1, run)
    assert meter(run).short == "budget_exhausted"
    tick(APRIL + 1, run)
    assert meter(run).short == ""
    fifty, whole = (charge_micro(QUARTER, minutes * 60_000_000) for minutes in (50, 51))
    assert spent(budget) == [fifty, whole - fifty]
    assert books_agree()


# Boundaries ----------------------------------------------------------------------------------------------------------


def test_a_charge_never_spans_the_boundary_of_a_period() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 1000)
    run = running(alice, at=APRIL - 12)
    ended(run, at=APRIL + 24)
    assert charges(run) == [(APRIL - 12, APRIL, cr("2.5")), (APRIL, APRIL + 24, cr(5))]
    assert spent(budget) == [cr("2.5"), cr(5)]
    assert books_agree()


def test_each_budget_has_the_boundary_of_its_own_zone() -> None:
    alice = a_customer(1000)
    world = a_budget(alice, 1000)
    seoul = a_budget(alice, 1000, kind="group", rule=Rule("Asia/Seoul"))
    run = running(alice, at=APRIL_IN_SEOUL - 60)
    ended(run, at=APRIL + 60)
    edges = [(start, end) for start, end, _amount in charges(run)]
    assert edges == [(APRIL_IN_SEOUL - 60, APRIL_IN_SEOUL), (APRIL_IN_SEOUL, APRIL), (APRIL, APRIL + 60)]
    assert spent(world) == [cr("125"), cr("12.5")]
    assert spent(seoul) == [cr("12.5"), cr("125")]
    assert books_agree()


def test_the_charge_is_posted_at_the_boundary_once_it_is_proven() -> None:
    alice = a_customer(100)
    budget = a_budget(alice, 1000)
    run = running(alice, at=APRIL - 12)
    alive(run, at=APRIL - 1)
    assert tick(APRIL + 1).posted == 0  # nobody has seen it alive at the boundary
    assert tick(APRIL + 2, run).posted == 1
    assert charges(run) == [(APRIL - 12, APRIL, cr("2.5"))]
    assert (held(budget), spent(budget)) == (cr(10), [cr("2.5"), 0])
    assert wallet(alice) == (cr("97.5"), cr(10))  # a boundary moves nothing else
    assert tick(APRIL + 3, run).looked_at == 0
    assert books_agree()


def test_a_budget_of_fixed_dates_counts_only_between_them() -> None:
    alice = a_customer(100)
    rule = Rule("UTC", date(2026, 3, 31), date(2026, 3, 31))
    budget = a_budget(alice, 100, rule=rule)
    before = running(alice)
    assert held(budget) == 0
    ended(before, at=60)
    run = running(alice, at=APRIL - 12)
    assert held(budget) == HOLD
    ended(run, at=APRIL + 12)
    assert (held(budget), spent(budget)) == (0, [cr("2.5")])
    after = opened(alice, at=APRIL + 20)
    assert held(budget) == 0
    billing.settle(after, at=t(APRIL + 21))
    assert books_agree()


# Alerts --------------------------------------------------------------------------------------------------------------


def thresholds(budget: Budget) -> list[tuple[int, int]]:
    rows = BudgetAlert.objects.filter(budget=budget).order_by("period__starts_at", "threshold")
    return [(row.period.starts_at.month, row.threshold) for row in rows.select_related("period")]


def test_alerts_fire_once_per_threshold_and_period_and_again_next_month() -> None:
    alice = a_customer(1000)
    budget = a_budget(alice, 10, "warn")
    ended(running(alice), at=24)
    assert thresholds(budget) == [(3, 50)]
    ended(running(alice, at=30), at=31)
    assert thresholds(budget) == [(3, 50)]
    ended(running(alice, at=40), at=70)
    assert thresholds(budget) == [(3, 50), (3, 80), (3, 100)]
    ended(running(alice, at=APRIL + 1), at=APRIL + 41)
    assert thresholds(budget) == [(3, 50), (3, 80), (3, 100), (4, 50), (4, 80)]
    assert books_agree()


# Counters ------------------------------------------------------------------------------------------------------------


def test_counters_that_were_lost_are_derived_again_exactly() -> None:
    alice = a_customer(1000)
    budget = a_budget(alice, 1000)
    ended(running(alice, at=APRIL - 12), at=APRIL + 12)
    run = running(alice, at=APRIL + 20)
    tick(APRIL + 60, run)
    before = (held(budget), spent(budget))
    Budget.objects.filter(pk=budget.pk).update(held=1)
    BudgetPeriod.objects.filter(budget=budget).update(spent=7)
    assert billing.rederive_budgets() == 3
    assert (held(budget), spent(budget)) == before
    assert billing.rederive_budgets() == 0
    assert books_agree()


# Rights --------------------------------------------------------------------------------------------------------------


def test_a_budget_is_set_one_level_above_its_scope() -> None:
    alice = a_customer(1)
    group, organisation = alice.group, alice.group.organisation
    chief, owner, root = a_user(group, "group_admin"), an_org_admin(organisation), a_super_admin()
    allowed = {
        "user": [chief, owner, root],
        "group": [owner, root],
        "organisation": [root],
    }
    for kind, scope_id in alice.scopes.as_pairs():
        for person in (alice.user, chief, owner, root):
            scope = billing.BudgetScope(kind, scope_id)
            if person in allowed[kind]:
                billing.create_budget(scope=scope, limit=cr(5), mode="warn", rule=Rule("UTC"), by=person)
                continue
            with pytest.raises(DomainError) as refused:
                billing.create_budget(scope=scope, limit=cr(5), mode="warn", rule=Rule("UTC"), by=person)
            assert refused.value.code == "forbidden"


@pytest.mark.parametrize(
    ("limit", "zone", "field"), [(-1, "UTC", "limit"), (1, "Mars/Olympus", "time_zone"), (10**20, "UTC", "limit")]
)
def test_impossible_budgets_are_refused(limit: int, zone: str, field: str) -> None:
    alice = a_customer()
    scope = billing.BudgetScope("user", alice.user.pk)
    with pytest.raises(DomainError) as refused:
        billing.create_budget(scope=scope, limit=limit, mode="warn", rule=Rule(zone), by=None)
    assert field in refused.value.errors


def test_a_late_charge_of_the_month_before_meets_a_budget_that_knows_what_that_month_had_spent() -> None:
    alice = a_customer(1000)
    run = running(alice, at=APRIL - 300)
    tick(APRIL - 200, run)  # in March, before there is a budget
    before = sum(amount for _start, _end, amount in charges(run))
    alive(run, at=APRIL + 30)
    with at_time(APRIL + 30):
        scope = billing.BudgetScope("user", alice.user.pk)
        budget = billing.create_budget(scope=scope, limit=cr(1000), mode="warn", rule=Rule("UTC"), by=None)
    tick(APRIL + 31, run)
    march, april = spent(budget)
    assert before > 0
    assert march == charge_micro(QUARTER, 300 * 60_000_000)
    assert march + april == meter(run).charged
    assert books_agree()


def test_a_budget_that_is_made_after_the_clock_stepped_back_over_a_months_end_misses_no_charge_beyond_it() -> None:
    alice = a_customer(1000)
    run = running(alice, at=APRIL + 1)
    tick(APRIL + 35, run)
    with at_time(APRIL - 5):  # the clock stepped back into March
        scope = billing.BudgetScope("user", alice.user.pk)
        budget = billing.create_budget(scope=scope, limit=cr(1000), mode="warn", rule=Rule("UTC"), by=None)
    tick(APRIL + 70, run)
    march, april = spent(budget)
    assert (march, april) == (0, meter(run).charged)
    assert books_agree()
