"""The tree of wallets: what each had, spent, holds and has free below and in it, of each administrator's scope alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from accounts.administrators import Administrator
from accounts.models import Membership, User
from accounts.permissions import reach
from accounts.standings import standing_of
from billing import services as billing
from billing import wallet_tree
from billing.models import SYSTEM_ID
from billing.next_refill import next_refill
from billing.wallet_tree import SYSTEM_OWNER, Flow, Flows, Owner
from tests.apps.billing.stage import T0, ended, running
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund_group

pytestmark = pytest.mark.django_db
SINCE = T0 - timedelta(days=1)


@dataclass(frozen=True)
class Us:
    alice: Customer  # spent in her group, runs something there, and sits in a second group of the same organisation
    second: Customer
    stranger: Customer


@pytest.fixture
def us() -> Us:
    alice, stranger = a_customer(100), a_customer(50, group=a_group(name="Genomics"))
    fund_group(alice.group, 30)
    second = a_customer(20, group=a_group(alice.group.organisation), user=alice.user)
    ended(running(alice, at=0), at=60)
    running(alice, at=100)
    ended(running(stranger, at=0), at=30)
    return Us(alice, second, stranger)


def administrator(user: User) -> Administrator:
    standing = standing_of(user.pk)
    groups = tuple((key, "") for key in standing.administered_groups)
    return Administrator(user, standing, reach(user, standing), groups=groups)


def of_person(customer: Customer) -> Owner:
    return Owner("user", customer.user.pk, "", over=customer.group.pk)


def seen(user: User, *people: Customer) -> Flows:
    return wallet_tree.flows(administrator(user), since=SINCE, people=[one.user.pk for one in people])


def test_a_group_shows_what_was_spent_held_and_is_free_below_it(us: Us) -> None:
    group = Owner("group", us.alice.group.pk, "")
    found = seen(a_user(us.alice.group, role="group_admin"), us.alice)
    free = cr(120) - cr("12.5") - cr("12.5")  # spent for an hour, and held for what runs
    assert found.of(group) == Flow(spent=cr("12.5"), held=cr("12.5"), below=min(free, cr(100)))
    assert found.of(of_person(us.alice)) == Flow(spent=cr("12.5"), held=cr("12.5"))
    assert found.of(Owner("group", us.stranger.group.pk, "")) == Flow()


def test_credits_of_one_person_in_two_groups_are_counted_once_above_them(us: Us) -> None:
    organisation = Owner("organisation", us.alice.group.organisation_id, "")
    found = seen(an_org_admin(us.alice.group.organisation), us.alice)
    hers = cr(120) - cr(25)
    assert found.of(organisation) == Flow(spent=cr("12.5"), held=cr("12.5"), below=hers + cr(30))
    assert found.of(of_person(us.second)) == Flow()
    assert found.of(Owner("user", us.alice.user.pk, "")).spent == cr("12.5")


def test_the_system_had_what_was_issued(us: Us) -> None:
    billing.issue(amount=cr(1_000), by=None)
    found = seen(a_super_admin())
    flow = found.of(SYSTEM_OWNER)
    assert found.system_free == cr(1_000)
    assert flow.spent + flow.held + flow.below + found.system_free == cr(1_000 + 100 + 50 + 30 + 20)


def test_what_was_spent_before_is_of_another_month(us: Us) -> None:
    later = wallet_tree.flows(administrator(a_super_admin()), since=T0 + timedelta(days=1))
    assert later.of(SYSTEM_OWNER).spent == 0


def test_owners_are_those_of_the_scope_and_stand_there_without_a_wallet_too(us: Us) -> None:
    admin = a_user(us.alice.group, role="group_admin", email="grace@example.org")
    newcomer = a_user(us.alice.group, email="new@example.org")
    scope = administrator(admin)
    people = wallet_tree.people(scope, of=[us.alice.group.pk, us.stranger.group.pk])
    assert {row.name for row in people} == {us.alice.user.email, newcomer.email, admin.email}
    assert next(row for row in people if row.id == newcomer.pk).wallet is None
    assert wallet_tree.organisations(scope) == []
    assert [row.id for row in wallet_tree.groups(scope, of=[])] == [us.alice.group.pk]
    assert wallet_tree.people_named(scope, us.stranger.user.email) == []


def test_the_next_refill_tells_each_administrator_of_his_own_wallets(us: Us) -> None:
    organisation = billing.ensure_wallet("organisation", us.alice.group.organisation_id)
    group = billing.ensure_wallet("group", us.alice.group.pk)
    billing.set_monthly_grant(wallet=organisation, parent=SYSTEM_ID, amount=cr(300), by=None)
    billing.set_monthly_grant(wallet=group, parent=organisation, amount=cr(90), by=None)
    billing.set_monthly_grant(wallet=us.alice.wallet, parent=group, amount=cr(80), by=None)
    month = (T0 + timedelta(days=3_660)).date().replace(day=1)
    whole = next_refill(administrator(a_super_admin()), month)
    assert [(row.parent.pk, row.needs, row.short) for row in whole] == [
        (SYSTEM_ID, cr(300), cr(300)),
        (organisation, cr(60), cr(60)),
    ]
    own = next_refill(administrator(a_user(us.alice.group, role="group_admin")), month)
    assert [(row.parent.pk, row.children, row.has) for row in own] == [(group, 1, cr(30))]
    Membership.objects.filter(user=us.alice.user).delete()
    assert next_refill(administrator(a_user(us.stranger.group, role="group_admin")), month) == []
