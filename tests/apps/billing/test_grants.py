"""Monthly grants: promised, kept once a month from the top down, whatever ticks come late, twice or are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from accounts.models import AuditEntry, Membership, Notification, User
from billing import services as billing
from billing.grants import month_of
from billing.models import SYSTEM_ID, Account, GrantRefill, MonthlyGrant, Transfer
from gshare_core.clock import ManualClock
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from tests.apps.billing.stage import books_agree, net, opened, transfers
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund, fund_group
from tests.dying import every_death_then_again

pytestmark = pytest.mark.django_db

MARCH = datetime(2026, 3, 10, 9, tzinfo=UTC)
APRIL = datetime(2026, 4, 1, 0, 0, tzinfo=UTC)
MAY = datetime(2026, 5, 20, 9, tzinfo=UTC)


@contextmanager
def on(when: datetime) -> Iterator[None]:
    with clock.using(ManualClock(when)):
        yield


def refill(when: datetime) -> int:
    with on(when):
        return billing.refill_due()


def balance(wallet: UUID) -> int:
    return Account.objects.values_list("balance", flat=True).get(pk=wallet) or 0


def organisation_of(alice: Customer) -> UUID:
    return billing.ensure_wallet("organisation", alice.group.organisation_id)


def group_of(alice: Customer) -> UUID:
    return billing.ensure_wallet("group", alice.group.pk)


def grant(parent: UUID, wallet: UUID, amount: str | int, when: datetime = MARCH, by: User | None = None) -> None:
    with on(when):
        billing.set_monthly_grant(wallet=wallet, parent=parent, amount=cr(amount), by=by)


def promised(alice: Customer, *, organisation: int = 100, group: int = 60, user: int = 40) -> None:
    grant(SYSTEM_ID, organisation_of(alice), organisation)
    grant(organisation_of(alice), group_of(alice), group)
    grant(group_of(alice), alice.wallet, user)


def rows() -> list[tuple[date, UUID, int, int]]:
    found = GrantRefill.objects.order_by("month", "id")
    return [(row.month, row.wallet_id, row.moved, row.shortfall) for row in found]


def test_the_start_of_a_month_raises_everybody_from_the_top_down_and_one_above_is_left_alone() -> None:
    alice, bob = a_customer(), None
    bob = a_customer(50, group=alice.group)
    promised(alice)
    grant(group_of(alice), bob.wallet, 20)
    billing.issue(amount=cr(500), by=None)
    assert refill(MARCH) == 0  # a grant begins with the month after
    assert refill(APRIL) == 4
    assert [balance(key) for key in (organisation_of(alice), group_of(alice), alice.wallet, bob.wallet)] == [
        cr(100 - 60),
        cr(60 - 40),
        cr(40),
        cr(50),
    ]
    assert net(alice.wallet, group_of(alice)) == cr(40)
    assert {row.kind for row in Transfer.objects.filter(credit=alice.wallet)} == {"grant"}
    assert Notification.objects.filter(user=alice.user, kind="credits_received").count() == 1
    assert books_agree()


def test_a_month_is_refilled_once_however_often_and_late_the_tick_comes_and_the_next_month_again() -> None:
    alice = a_customer()
    fund_group(alice.group, 1000)
    grant(SYSTEM_ID, organisation_of(alice), 40)
    grant(organisation_of(alice), group_of(alice), 40)
    grant(group_of(alice), alice.wallet, 40)
    billing.issue(amount=cr(100), by=None)
    refill(APRIL)
    billing.reclaim(source=alice.wallet, to=group_of(alice), amount=cr(15), by=None)
    before = transfers()
    for when in (APRIL, APRIL.replace(day=30, hour=23), MARCH):  # again, late, and a clock that steps back
        assert refill(when) == 0
    assert transfers() == before
    refill(MAY)
    assert balance(alice.wallet) == cr(40)
    assert [moved for month, wallet, moved, _short in rows() if wallet == alice.wallet] == [cr(40), cr(15)]
    assert books_agree()


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("UTC", "2026-03-31T23:59:59+00:00", "2026-04-01T00:00:00+00:00"),
        ("Asia/Seoul", "2026-03-31T14:59:59+00:00", "2026-03-31T15:00:00+00:00"),
        ("Pacific/Kiritimati", "2026-03-31T09:59:59+00:00", "2026-03-31T10:00:00+00:00"),  # +14
        ("Etc/GMT+12", "2026-04-01T11:59:59+00:00", "2026-04-01T12:00:00+00:00"),  # -12
        ("America/New_York", "2026-04-01T03:59:59+00:00", "2026-04-01T04:00:00+00:00"),  # summer time
    ],
)
def test_a_month_begins_in_the_zone_of_the_installation(gshare: Any, zone: str, before: str, after: str) -> None:
    gshare(time_zone=zone)
    alice = a_customer()
    grant(SYSTEM_ID, organisation_of(alice), 5)
    billing.issue(amount=cr(5), by=None)
    assert refill(datetime.fromisoformat(before)) == 0
    assert refill(datetime.fromisoformat(after)) == 1
    assert rows() == [(date(2026, 4, 1), organisation_of(alice), cr(5), 0)]


def test_a_month_that_the_tick_slept_through_is_not_made_up_for() -> None:
    alice = a_customer()
    grant(SYSTEM_ID, organisation_of(alice), 5)
    billing.issue(amount=cr(50), by=None)
    refill(MAY)
    assert rows() == [(date(2026, 5, 1), organisation_of(alice), cr(5), 0)]


def test_several_parents_share_what_is_lacking_by_what_each_promised() -> None:
    alice = a_customer(10)
    other = a_customer(group=a_group(), user=alice.user)
    for one, amount in ((alice, 60), (other, 40)):
        fund_group(one.group, 100)
        grant(SYSTEM_ID, organisation_of(one), amount)
        grant(organisation_of(one), group_of(one), amount)
        grant(group_of(one), one.wallet, amount)
    refill(APRIL)
    assert balance(alice.wallet) == cr(100)
    assert (balance(group_of(alice)), balance(group_of(other))) == (cr(100 - 54), cr(100 - 36))
    assert books_agree()


def test_what_a_parent_lacks_is_recorded_and_told_once_a_month_to_who_administers_it() -> None:
    alice = a_customer()
    bob = a_customer(group=alice.group)
    chief = a_user(alice.group, "group_admin")
    fund_group(alice.group, 50)
    grant(SYSTEM_ID, organisation_of(alice), 80)
    grant(organisation_of(alice), group_of(alice), 80)
    for one in (alice, bob):
        grant(group_of(alice), one.wallet, 40)
    refill(APRIL)
    short = [(moved, lacking) for _month, wallet, moved, lacking in rows() if wallet in (alice.wallet, bob.wallet)]
    assert short == [(cr(40), 0), (cr(10), cr(30))]  # the group had 50, its organisation nothing to raise it by
    assert Notification.objects.filter(user=chief, kind="grant_shortfall").count() == 1
    refill(APRIL)
    billing.issue(amount=cr(200), by=None)
    assert refill(APRIL) == 0  # neither repeated nor made up for within the month
    assert books_agree()


def test_who_holds_credits_for_a_run_is_raised_by_his_balance_not_by_what_is_free() -> None:
    alice = a_customer(30)
    fund_group(alice.group, 100)
    promised(alice)
    with on(APRIL):
        opened(alice)
    refill(APRIL)
    assert balance(alice.wallet) == cr(40)


def test_who_left_or_is_deactivated_is_not_raised_and_his_grant_ends() -> None:
    alice, bob = a_customer(), a_customer()
    for one in (alice, bob):
        fund_group(one.group, 100)
        promised(one)
    Membership.objects.filter(user=alice.user).delete()
    User.objects.filter(pk=bob.user.pk).update(is_active=False)
    refill(APRIL)
    assert (balance(alice.wallet), balance(bob.wallet)) == (0, 0)
    for one in (alice, bob):
        assert billing.return_to_parents(user_id=one.user.pk)
        assert not MonthlyGrant.objects.filter(wallet=one.wallet).exists()


def test_changing_a_grant_moves_nothing_and_is_audited() -> None:
    alice = a_customer(10)
    promised(alice)
    before = transfers()
    for amount in (30, 0, 20):
        grant(group_of(alice), alice.wallet, amount)
    assert transfers() == before
    said = AuditEntry.objects.filter(act="credits.monthly_grant", target_id=alice.wallet).order_by("id")
    assert [row.after["amount"] for row in said] == ["40.000000", "30.000000", "0.000000", "20.000000"]


def test_children_never_get_more_than_their_parent_at_either_end() -> None:
    alice = a_customer()
    with pytest.raises(DomainError) as refused:
        grant(organisation_of(alice), group_of(alice), 1)
    assert refused.value.code == "grant_exceeds_parent"
    promised(alice)
    bob = a_customer(group=alice.group)
    grant(group_of(alice), bob.wallet, 20)
    for parent, wallet, amount in (
        (group_of(alice), bob.wallet, "20.000001"),
        (organisation_of(alice), group_of(alice), "59.999999"),
        (SYSTEM_ID, organisation_of(alice), 59),
        (organisation_of(alice), group_of(alice), 0),
    ):
        with pytest.raises(DomainError) as refused:
            grant(parent, wallet, amount)
        assert refused.value.code == "grant_exceeds_parent"
    grant(group_of(alice), bob.wallet, 0)
    grant(organisation_of(alice), group_of(alice), 40)


def test_who_may_promise_follows_the_rights_matrix() -> None:
    alice = a_customer()
    promised(alice)
    chief, owner, root = a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation), a_super_admin()
    steps = [
        (group_of(alice), alice.wallet, 39, {chief, owner, root}),
        (organisation_of(alice), group_of(alice), 61, {owner, root}),
        (SYSTEM_ID, organisation_of(alice), 101, {root}),
    ]
    for parent, wallet, amount, allowed in steps:
        for person in (alice.user, chief, owner, root):
            if person in allowed:
                grant(parent, wallet, amount, by=person)
            else:
                with pytest.raises(DomainError) as refused:
                    grant(parent, wallet, amount, by=person)
                assert refused.value.code == "forbidden"


def test_a_refill_that_is_killed_anywhere_is_finished_by_the_next_and_nobody_is_skipped_or_repeated() -> None:
    alice = a_customer(3)
    bob = a_customer(group=alice.group)
    promised(alice)
    grant(group_of(alice), bob.wallet, 20)
    billing.issue(amount=cr(1000), by=None)

    def check() -> None:
        made = {(row.wallet_id, row.parent_id): row.moved for row in GrantRefill.objects.all()}
        moved = {(row.credit_id, row.debit_id): row.amount for row in Transfer.objects.filter(kind="grant")}
        assert {pair: amount for pair, amount in made.items() if amount} == moved
        assert books_agree()

    def done() -> None:
        check()
        assert [balance(key) for key in (alice.wallet, bob.wallet)] == [cr(40), cr(20)]
        assert [moved for _month, _wallet, moved, _short in rows()] == [cr(100), cr(60), cr(37), cr(20)]

    with on(APRIL):
        assert every_death_then_again(billing.refill_due, check, done) > 40


def test_what_became_of_a_month_cannot_be_rewritten() -> None:
    from django.db import connection
    from django.db.utils import DatabaseError

    alice = a_customer()
    grant(SYSTEM_ID, organisation_of(alice), 5)
    refill(APRIL)
    for statement in ("UPDATE billing_grantrefill SET shortfall = 0", "DELETE FROM billing_grantrefill"):
        with pytest.raises(DatabaseError), connection.cursor() as cursor:
            cursor.execute(f"SAVEPOINT a; {statement}")
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK TO SAVEPOINT a")


def test_over_http_a_grant_is_put_shown_and_its_refills_are_listed() -> None:
    alice = a_customer()
    chief = a_user(alice.group, "group_admin")
    fund(alice, 10)
    fund_group(alice.group, 5)
    grant(SYSTEM_ID, organisation_of(alice), 50)
    grant(organisation_of(alice), group_of(alice), 50)
    client = Client()
    client.force_login(chief)
    path = f"/api/v1/wallets/{alice.wallet}"
    body = {"parent": f"group:{alice.group.pk}", "amount": "40"}
    done = client.put(f"{path}/monthly-grant", body, content_type="application/json")
    assert done.status_code == 200, done.content
    (shown,) = done.json()["monthly_grants"]
    assert (shown["parent"], shown["amount"]) == (str(group_of(alice)), "40.000000")
    assert client.get(path).json()["monthly_grants"] == [shown]
    MonthlyGrant.objects.update(since=month_of(clock.now()))
    billing.refill_due()
    of_alice = client.get(f"{path}/refills").json()["results"]
    assert [(row["moved"], row["shortfall"]) for row in of_alice] == [("5.000000", "25.000000")]
    of_group = client.get(f"/api/v1/wallets/{group_of(alice)}/refills?short=true").json()["results"]
    assert {row["wallet"] for row in of_group} == {str(alice.wallet), str(group_of(alice))}
    too_much = client.put(f"{path}/monthly-grant", body | {"amount": "51"}, content_type="application/json")
    assert (too_much.status_code, too_much.json()["code"]) == (409, "grant_exceeds_parent")
