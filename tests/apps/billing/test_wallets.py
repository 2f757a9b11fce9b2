"""Credits down the hierarchy and up again."""

from __future__ import annotations

from uuid import UUID

import pytest

from accounts.models import AuditEntry, Group, Membership, Notification, Organisation, User
from billing import services as billing
from billing.models import SYSTEM_ID, Account
from gshare_core.errors import DomainError
from gshare_core.kit.idempotency import Once, Reply
from tests.apps.billing.stage import HOLD, books_agree, net, opened, transfers, wallet
from tests.builders import a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund_group

pytestmark = pytest.mark.django_db


def balance(wallet_id: UUID) -> int:
    found = Account.objects.values_list("balance", flat=True).get(pk=wallet_id)
    assert found is not None
    return found


def test_every_wallet_starts_empty_and_is_made_once() -> None:
    person = a_user(a_group())
    first = billing.ensure_wallet("user", person.pk)
    assert billing.ensure_wallet("user", person.pk) == first
    assert balance(first) == 0


def test_credits_go_down_one_level_at_a_time_and_nobody_gives_more_than_he_has() -> None:
    alice = a_customer()
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    group = billing.ensure_wallet("group", alice.group.pk)
    billing.issue(amount=cr(100), by=None)
    billing.allocate(source=SYSTEM_ID, to=organisation, amount=cr(60), by=None)
    billing.allocate(source=organisation, to=group, amount=cr(30), by=None)
    billing.allocate(source=group, to=alice.wallet, amount=cr(10), by=None)
    assert [balance(key) for key in (SYSTEM_ID, organisation, group, alice.wallet)] == [cr(40), cr(30), cr(20), cr(10)]
    assert [net(organisation, SYSTEM_ID), net(group, organisation), net(alice.wallet, group)] == [
        cr(60),
        cr(30),
        cr(10),
    ]
    with pytest.raises(DomainError) as refused:
        billing.allocate(source=group, to=alice.wallet, amount=cr("20.000001"), by=None)
    assert refused.value.code == "insufficient_pool"
    assert refused.value.facts == {"available": "20.000000", "needed": "20.000001"}
    assert books_agree()


def test_a_parent_takes_back_at_most_what_it_gave_net_and_is_free() -> None:
    alice = a_customer(20)
    group = billing.ensure_wallet("group", alice.group.pk)
    billing.adjust(wallet=alice.wallet, amount=cr(5), reason="compensation", by=None)
    opened(alice)
    with pytest.raises(DomainError) as refused:
        billing.reclaim(source=alice.wallet, to=group, amount=cr(13), by=None)  # 12.5 are free
    assert refused.value.code == "insufficient_pool"
    billing.reclaim(source=alice.wallet, to=group, amount=cr("12.5"), by=None)
    assert net(alice.wallet, group) == cr("7.5")
    billing.adjust(wallet=alice.wallet, amount=cr(100), reason="compensation", by=None)
    with pytest.raises(DomainError) as refused:
        billing.reclaim(source=alice.wallet, to=group, amount=cr(8), by=None)  # 7.5 came from there
    assert "given from there" in refused.value.detail
    assert wallet(alice) == (cr("112.5"), HOLD)
    assert books_agree()


def test_leaving_a_group_returns_what_it_gave_net_and_is_free() -> None:
    alice = a_customer(20)
    group = billing.ensure_wallet("group", alice.group.pk)
    opened(alice)
    assert billing.return_net(user_id=alice.user.pk, group_id=alice.group.pk) == cr("7.5")
    assert billing.return_net(user_id=alice.user.pk, group_id=alice.group.pk) == 0
    assert (balance(group), net(alice.wallet, group)) == (cr("7.5"), HOLD)
    assert books_agree()


def test_credits_move_between_neighbours_only() -> None:
    alice, stranger = a_customer(5), a_customer(5)
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    group = fund_group(alice.group, 10)
    foreign = billing.ensure_wallet("group", stranger.group.pk)
    for source, to in (
        (SYSTEM_ID, group),
        (SYSTEM_ID, alice.wallet),
        (organisation, alice.wallet),
        (organisation, foreign),
        (group, foreign),
        (alice.wallet, stranger.wallet),
        (group, organisation),
    ):
        with pytest.raises(DomainError) as refused:
            billing.allocate(source=source, to=to, amount=1, by=None)
        assert refused.value.code == "invalid"
    assert books_agree()


def test_only_active_members_of_the_group_receive() -> None:
    alice, guest_of_none = a_customer(5), a_customer(1)
    group = fund_group(alice.group, 10)
    with pytest.raises(DomainError) as refused:
        billing.allocate(source=group, to=guest_of_none.wallet, amount=1, by=None)
    assert "no member" in refused.value.detail
    User.objects.filter(pk=alice.user.pk).update(is_active=False)
    with pytest.raises(DomainError) as refused:
        billing.allocate(source=group, to=alice.wallet, amount=1, by=None)
    assert "deactivated" in refused.value.detail
    billing.reclaim(source=alice.wallet, to=group, amount=1, by=None)
    Group.objects.filter(pk=alice.group.pk).update(is_active=False)
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    billing.issue(amount=10, by=None)
    billing.allocate(source=SYSTEM_ID, to=organisation, amount=10, by=None)
    with pytest.raises(DomainError):
        billing.allocate(source=organisation, to=group, amount=1, by=None)
    Organisation.objects.filter(pk=alice.group.organisation_id).update(is_active=False)
    with pytest.raises(DomainError):
        billing.allocate(source=SYSTEM_ID, to=organisation, amount=1, by=None)


def test_who_may_move_credits_follows_the_rights_matrix() -> None:
    alice = a_customer(50)
    group = fund_group(alice.group, 100)
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    chief = a_user(alice.group, "group_admin")
    owner, root = an_org_admin(alice.group.organisation), a_super_admin()
    other_chief = a_user(a_group(alice.group.organisation), "group_admin")
    steps = [
        (group, alice.wallet, {chief, owner, root}),
        (organisation, group, {owner, root}),
        (SYSTEM_ID, organisation, {root}),
    ]
    billing.issue(amount=cr(1000), by=None)
    billing.allocate(source=SYSTEM_ID, to=organisation, amount=cr(500), by=None)
    for parent, child, allowed in steps:
        for person in (alice.user, other_chief, chief, owner, root):
            for verb, source, to in ((billing.allocate, parent, child), (billing.reclaim, child, parent)):
                if person in allowed:
                    verb(source=source, to=to, amount=cr(1), by=person)
                    continue
                with pytest.raises(DomainError) as refused:
                    verb(source=source, to=to, amount=cr(1), by=person)
                assert refused.value.code == "forbidden"
    assert books_agree()


def test_only_super_administrators_issue_and_adjust_and_a_correction_needs_a_reason() -> None:
    alice, root = a_customer(5), a_super_admin()
    owner = an_org_admin(alice.group.organisation)
    for person in (alice.user, owner):
        with pytest.raises(DomainError) as refused:
            billing.issue(amount=1, by=person)
        assert refused.value.code == "forbidden"
        with pytest.raises(DomainError) as refused:
            billing.adjust(wallet=alice.wallet, amount=1, reason="gift", by=person)
        assert refused.value.code == "forbidden"
    with pytest.raises(DomainError) as refused:
        billing.adjust(wallet=alice.wallet, amount=1, reason="  ", by=root)
    assert refused.value.code == "reason_required"
    billing.adjust(wallet=alice.wallet, amount=-cr(5), reason="charged twice elsewhere", by=root)
    with pytest.raises(DomainError) as refused:
        billing.adjust(wallet=alice.wallet, amount=-1, reason="more", by=root)
    assert refused.value.code == "insufficient_pool"
    assert wallet(alice) == (0, 0)
    assert books_agree()


@pytest.mark.parametrize("amount", [0, -1, 10**19])
def test_impossible_amounts_are_refused(amount: int) -> None:
    alice = a_customer(5)
    group = billing.ensure_wallet("group", alice.group.pk)
    with pytest.raises(DomainError) as refused:
        billing.allocate(source=group, to=alice.wallet, amount=amount, by=None)
    assert refused.value.code == "invalid"


def test_what_moved_is_audited_and_the_receiver_is_told() -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    billing.allocate(source=group, to=alice.wallet, amount=cr(10), note="ablation week", by=chief)
    entry = AuditEntry.objects.get(act="credits.allocate", actor_id=chief.pk)
    assert (entry.target_label, entry.group_id, entry.reason) == (alice.user.email, alice.group.pk, "ablation week")
    assert entry.after == {"amount": "10.000000", "from": alice.group.name, "to": alice.user.email}
    notice = Notification.objects.get(user=alice.user)
    assert (notice.title, notice.body) == ("You received 10.00 credits", "ablation week")


def test_replaying_the_same_request_moves_credits_once() -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    once = Once(chief.pk, "POST", "/api/v1/wallets/x/allocate", "k1", b"{}", lambda done: {"id": str(done.pk)})
    before = transfers()
    first = billing.allocate(source=group, to=alice.wallet, amount=cr(4), by=chief, once=once)
    again = billing.allocate(source=group, to=alice.wallet, amount=cr(4), by=chief, once=once)
    assert isinstance(again, Reply)
    assert again.body == {"id": str(first.pk)}  # type: ignore[union-attr]
    assert transfers() == before + 1
    assert wallet(alice) == (cr(4), 0)


def test_a_membership_that_ended_meanwhile_receives_nothing() -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    Membership.objects.filter(user=alice.user).delete()
    with pytest.raises(DomainError):
        billing.allocate(source=group, to=alice.wallet, amount=1, by=None)
    assert wallet(alice) == (0, 0)
