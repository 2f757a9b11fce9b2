"""The administrators' pages of credits: an inbox that decides, wallets of the scope, credits moved once, one level at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from accounts.models import Membership, Notification, User
from billing import services as billing
from billing.models import Account, CreditRequest, Transfer
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund_group

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Us:
    alice: Customer
    stranger: Customer
    group_wallet: UUID
    group_admin: User
    org_admin: User
    root: User
    request: CreditRequest


@pytest.fixture
def us(db: None) -> Us:
    alice, stranger = a_customer(10), a_customer(10, group=a_group(name="Genomics"))
    group_wallet = fund_group(alice.group, 100)
    asked = billing.ask_for_credits(
        wallet=alice.wallet, parent=group_wallet, amount=cr(40), reason="a second run", by=alice.user
    )
    return Us(
        alice=alice,
        stranger=stranger,
        group_wallet=group_wallet,
        group_admin=a_user(alice.group, role="group_admin"),
        org_admin=an_org_admin(alice.group.organisation),
        root=a_super_admin(),
        request=asked,
    )


def browser(user: User) -> Client:
    client = Client(headers={"origin": "http://localhost:8000"})
    client.force_login(user)
    return client


def text(answer: Any) -> str:
    return str(answer.content.decode())


def free(wallet: UUID) -> int:
    row = Account.objects.get(pk=wallet)
    return (row.balance or 0) - row.held


def test_the_inbox_and_the_wallets_are_those_of_the_scope(us: Us) -> None:
    page = browser(us.group_admin).get("/admin/credits/")
    assert [row["who"] for row in page.context["requests"]] == [us.alice.user.email]
    names = {row["name"] for row in page.context["wallets"]}
    assert {us.alice.user.email, us.alice.group.name} <= names
    assert us.stranger.user.email not in names
    assert browser(us.alice.user).get("/admin/credits/").status_code == 404
    assert browser(us.group_admin).get(f"/admin/credits/wallets/{us.stranger.wallet}/").status_code == 404


def test_somebody_who_never_had_credits_is_found_chosen_and_given_some(us: Us) -> None:
    newcomer = a_user(us.alice.group, email="una@example.org")
    client = browser(us.group_admin)
    (row,) = client.get("/admin/credits/", {"q": "una@"}).context["wallets"]
    chosen = client.get(f"/admin/credits/{row['url'].partition('#')[0]}")
    assert chosen.status_code == 302
    page = client.get(chosen["Location"])
    assert page.context["who"] == newcomer.email
    assert "100.00 cr free" in text(page)
    key = page.context["form"]["key"].value()
    sent = {"act": "allocate", "parent": str(us.group_wallet), "amount": "25", "note": "", "key": key}
    done = client.post(page.context["here"], sent, follow=True)
    assert "una@example.org got 25.00 cr." in text(done)
    assert free(Account.objects.get(user=newcomer).pk) == cr(25)
    for kind, key in (("user", us.stranger.user.pk), ("group", us.stranger.group.pk), ("user", us.group_admin.pk)):
        assert client.get("/admin/credits/", {"of": f"{kind}:{key}"}).status_code == 404
    for bad in ("of=user:1", "of=mint", "wallet=1", f"wallet={us.stranger.wallet}"):
        assert client.get(f"/admin/credits/?{bad}").status_code == 404, bad


def test_what_a_move_comes_to_is_told_before_it_is_made(us: Us) -> None:
    client, here = browser(us.group_admin), f"/admin/credits/wallets/{us.alice.wallet}/"
    asked = {"parent": str(us.group_wallet), "amount": "40", "act": "allocate"}

    def told(**other: str) -> dict[str, Any]:
        effect: dict[str, Any] = client.get(here, asked | other).context["effect"]
        part = text(client.get(here, asked | other, headers={"hx-request": "true", "hx-target": "effect"}))
        assert "<html" not in part
        assert effect["submit"] in part
        return effect

    effect = told()
    assert [(row["now"], row["then"]) for row in effect["rows"]] == [("100.00", "60.00"), ("10.00", "50.00")]
    assert (effect["problem"], effect["submit"]) == (
        "",
        f"Allocate 40.00 cr to {us.alice.user.email.partition('@')[0]}",
    )
    assert "has 100.00 cr free" in told(amount="100.01")["problem"]
    assert told(amount="much")["rows"][0]["then"] == ""
    back = told(act="reclaim", amount="10.01")
    assert "At most 10.00 cr come back" in back["problem"]
    promised = told(act="grant", amount="7")
    assert [(row["now"], row["then"]) for row in promised["rows"]] == [("0.00", "7.00"), ("0.00", "7.00")]
    assert free(us.alice.wallet) == cr(10)


def test_the_tree_opens_and_closes_by_the_address_and_counts_only_the_scope(us: Us) -> None:
    root = browser(us.root)
    closed = root.get("/admin/credits/").context["wallets"]
    assert [row["depth"] for row in closed] == [0] + [1] * (len(closed) - 1)
    organisation = us.alice.group.organisation_id
    opened = root.get("/admin/credits/", {"open": f"{organisation},{us.alice.group.pk},nonsense"}).context["wallets"]
    mine = {row["name"]: row for row in opened}
    assert mine[us.alice.user.email]["depth"] == 3
    assert mine[us.alice.group.name]["had_micro"] == cr(110)
    assert mine[us.alice.group.name]["opened"]
    assert str(us.alice.group.pk) not in mine[us.alice.group.name]["toggle_url"]
    assert us.stranger.user.email not in mine
    shown = browser(us.org_admin).get("/admin/credits/").context["wallets"]
    assert {row["name"] for row in shown} == {us.alice.group.organisation.name, us.alice.group.name}


def test_a_request_is_approved_once_and_moves_the_credits(us: Us) -> None:
    client, address = browser(us.group_admin), f"/admin/credits/{us.request.pk}/approve/"
    asked = text(client.get(address))
    assert "40.00 cr" in asked
    assert "60.00 cr free afterwards" in asked
    client.post(address)
    assert free(us.alice.wallet) == cr(50)
    second = browser(us.org_admin).post(address, follow=True)
    assert "This request is decided already." in text(second)
    assert free(us.alice.wallet) == cr(50)


def test_a_request_is_decided_neither_by_a_stranger_nor_by_who_asks(us: Us) -> None:
    address = f"/admin/credits/{us.request.pk}/approve/"
    Membership.objects.filter(user=us.alice.user).update(role="group_admin")
    for person in (us.alice.user, a_user(us.stranger.group, role="group_admin")):
        assert browser(person).post(address).status_code == 404
    assert free(us.alice.wallet) == cr(10)


def test_who_is_asked_is_led_to_the_inbox(us: Us) -> None:
    links = Notification.objects.filter(user=us.group_admin, kind="credit_request").values_list("link", flat=True)
    assert list(links) == []  # he came after it was asked
    client = browser(us.group_admin)
    client.post(f"/admin/credits/{us.request.pk}/forward/")
    told = Notification.objects.filter(user=us.org_admin, kind="credit_request")
    assert [row.link for row in told] == ["/admin/credits/"]


def test_a_request_is_rejected_with_a_reason_and_forwarded_to_the_next_level(us: Us) -> None:
    client = browser(us.group_admin)
    client.post(f"/admin/credits/{us.request.pk}/forward/")
    above = CreditRequest.objects.get(forwards=us.request)
    assert str(above.pk) in text(browser(us.org_admin).get("/admin/credits/"))
    client.post(f"/admin/credits/{us.request.pk}/reject/", {"reason": " "})
    assert CreditRequest.objects.get(pk=us.request.pk).state == "open"
    client.post(f"/admin/credits/{us.request.pk}/reject/", {"reason": "not this month"})
    found = CreditRequest.objects.get(pk=us.request.pk)
    assert (found.state, found.decision) == ("rejected", "not this month")
    assert free(us.alice.wallet) == cr(10)


def test_credits_are_allocated_once_however_often_the_form_is_sent_and_reclaimed(us: Us) -> None:
    client, here = browser(us.group_admin), f"/admin/credits/wallets/{us.alice.wallet}/"
    key = client.get(here).context["form"]["key"].value()
    sent = {"act": "allocate", "parent": str(us.group_wallet), "amount": "25.5", "note": "second run", "key": key}
    before = Transfer.objects.count()
    assert client.post(here, sent).status_code == 302
    client.post(here, sent)
    assert Transfer.objects.count() == before + 1
    assert free(us.alice.wallet) == cr("35.5")
    client.post(here, {"act": "reclaim", "parent": str(us.group_wallet), "amount": "5", "note": "", "key": "another"})
    assert free(us.alice.wallet) == cr("30.5")


def test_a_refusal_stays_on_the_form_with_what_was_typed(us: Us) -> None:
    client, here = browser(us.group_admin), f"/admin/credits/wallets/{us.alice.wallet}/"
    sent = {"act": "allocate", "parent": str(us.group_wallet), "amount": "1000", "note": "much", "key": "k"}
    refused = client.post(here, sent)
    assert refused.status_code == 422
    assert "100.00 cr are available" in text(refused)
    assert refused.context["form"]["note"].value() == "much"
    assert client.post(here, sent | {"amount": "a lot"}).status_code == 422
    assert free(us.alice.wallet) == cr(10)


def test_nobody_is_offered_or_granted_credits_for_the_wallet_of_his_own_level(us: Us) -> None:
    here = f"/admin/credits/wallets/{us.group_wallet}/"
    assert browser(us.group_admin).get(here).context["form"] is None
    assert browser(us.org_admin).get(here).context["form"] is not None
    organisation = Account.objects.get(organisation=us.alice.group.organisation_id)
    sent = {"act": "allocate", "parent": str(organisation.pk), "amount": "1", "note": "", "key": "k"}
    assert browser(us.group_admin).post(here, sent).status_code == 422
    assert free(us.group_wallet) == cr(100)
