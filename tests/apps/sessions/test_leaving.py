"""What a group gave somebody goes back when he leaves it: at once what is free, the rest when his last run is settled."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts import services as accounts
from accounts.domain.roles import Role
from accounts.models import DrainIntent, Membership, Notification
from billing import services as billing
from billing.models import Account, Allocation
from billing.trial import totals
from sessions_app import draining
from tests.apps.billing.stage import books_agree, net
from tests.apps.sessions.world import World
from tests.builders import a_customer, a_group, cr, fund_group
from tests.dying import every_way_to_die

pytestmark = pytest.mark.django_db


def balance(wallet_id) -> int:
    return Account.objects.values_list("balance", flat=True).get(pk=wallet_id)


def group_wallet(world: World):
    return billing.ensure_wallet("group", world.alice.group.pk)


def leave(world: World) -> None:
    seat = Membership.objects.get(user=world.alice.user, group=world.alice.group)
    accounts.remove_membership(membership_id=seat.pk, by=None)


def drained(world: World) -> bool:
    world.time.advance(timedelta(minutes=6))
    draining.drain()
    return not DrainIntent.objects.filter(closed_at=None).exists()


def test_who_leaves_gives_back_what_is_free_at_once_and_the_rest_when_his_run_is_settled(world: World) -> None:
    session = world.run("L")
    before = Account.objects.get(pk=world.alice.wallet)
    given = net(world.alice.wallet, group_wallet(world))
    leave(world)
    assert not drained(world)
    assert balance(group_wallet(world)) == before.available  # what the run holds stays until it is settled
    assert not drained(world)
    world.gone(session)
    assert drained(world)
    session.refresh_from_db()
    assert session.charged > 0
    assert balance(group_wallet(world)) == before.balance - session.charged
    assert (balance(world.alice.wallet), net(world.alice.wallet, group_wallet(world))) == (
        0,
        given - (before.balance - session.charged),
    )
    told = Notification.objects.filter(user=world.alice.user, kind="credits_returned")
    assert told.count() == 2
    assert books_agree()


def test_what_came_from_elsewhere_stays_with_who_leaves(world: World) -> None:
    wallet, other = world.alice.wallet, a_group(world.alice.group.organisation)
    a_customer(7, group=other, user=world.alice.user)
    billing.adjust(wallet=wallet, amount=cr(5), reason="compensation", by=None)
    leave(world)
    assert drained(world)
    assert balance(wallet) == cr(12)
    assert net(wallet, billing.ensure_wallet("group", other.pk)) == cr(7)


def test_who_becomes_a_guest_gives_back_too_and_who_got_his_seat_back_gives_nothing(world: World) -> None:
    wallet, had = world.alice.wallet, balance(world.alice.wallet)
    seat = Membership.objects.get(user=world.alice.user, group=world.alice.group)
    accounts.change_role(membership_id=seat.pk, role=Role.GUEST, by=None)
    accounts.change_role(membership_id=seat.pk, role=Role.MEMBER, by=None)
    assert billing.return_to_parents(user_id=world.alice.user.pk, group_id=world.alice.group.pk)
    assert drained(world)
    assert balance(wallet) == had
    accounts.change_role(membership_id=seat.pk, role=Role.GUEST, by=None)
    assert drained(world)
    assert balance(wallet) == 0


def test_who_is_deactivated_gives_back_to_each_group_by_what_it_gave(world: World) -> None:
    wallet = world.alice.wallet
    other = a_group(world.alice.group.organisation)
    a_customer(500, group=other, user=world.alice.user)
    assert balance(wallet) == cr(1_500)
    billing.adjust(wallet=wallet, amount=-cr(900), reason="as if spent", by=None)
    accounts.deactivate_user(user_id=world.alice.user.pk, by=None)
    assert drained(world)
    assert balance(wallet) == 0
    assert balance(group_wallet(world)) == cr(400)
    assert balance(billing.ensure_wallet("group", other.pk)) == cr(200)
    assert not Notification.objects.filter(user=world.alice.user, kind="credits_returned").exists()
    assert books_agree()


def test_a_return_that_is_killed_anywhere_goes_on_and_moves_everything_once(world: World) -> None:
    had, issued = balance(world.alice.wallet), totals().in_wallets
    fund_group(world.alice.group, 3)

    def check() -> None:
        assert totals().in_wallets == issued + cr(3)
        assert balance(world.alice.wallet) in (0, had)
        assert books_agree()

    leave(world)
    world.time.advance(timedelta(minutes=6))
    assert every_way_to_die(draining.drain, check) > 5
    assert balance(group_wallet(world)) == had + cr(3)
    assert not Allocation.objects.filter(wallet=world.alice.wallet, net__gt=0).exists()
    assert not DrainIntent.objects.filter(closed_at=None).exists()
