"""Requests for credits: asked one level up, decided once, never by who asked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from accounts.models import AuditEntry, Membership, Notification, User
from billing import services as billing
from billing.models import SYSTEM_ID, CreditRequest, Transfer
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from tests.apps.billing.stage import books_agree, net, transfers, wallet
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund_group
from tests.dying import every_death_then_again

pytestmark = pytest.mark.django_db


def group_of(alice: Customer) -> UUID:
    return billing.ensure_wallet("group", alice.group.pk)


def organisation_of(alice: Customer) -> UUID:
    return billing.ensure_wallet("organisation", alice.group.organisation_id)


def asked(alice: Customer, amount: str | int = 10, parent: UUID | None = None) -> CreditRequest:
    return billing.ask_for_credits(
        wallet=alice.wallet, parent=parent or group_of(alice), amount=cr(amount), reason="a paper", by=alice.user
    )


def refusal(act: Any, **words: Any) -> str:
    with pytest.raises(DomainError) as refused:
        act(**words)
    return refused.value.code


def state(request: CreditRequest) -> str:
    return CreditRequest.objects.values_list("state", flat=True).get(pk=request.pk)


def titles(person: User) -> list[str]:
    return list(Notification.objects.filter(user=person).order_by("id").values_list("title", flat=True))


def test_approving_gives_exactly_what_was_asked_for_and_everybody_hears_of_it() -> None:
    alice = a_customer()
    chief, other = a_user(alice.group, "group_admin"), a_user(alice.group, "group_admin")
    fund_group(alice.group, 50)
    request = asked(alice, "12.5")
    assert [len(titles(person)) for person in (chief, other, alice.user)] == [1, 1, 0]
    assert "12.50" in titles(chief)[0]
    done = billing.approve_request(request_id=request.pk, by=chief, note="good luck")
    assert isinstance(done, CreditRequest)
    assert wallet(alice) == (cr("12.5"), 0)
    assert net(alice.wallet, group_of(alice)) == cr("12.5")
    moved = Transfer.objects.get(pk=done.transfer_id)
    assert (moved.kind, moved.reference, moved.actor_id, moved.note) == ("allocate", request.pk, chief.pk, "good luck")
    assert titles(alice.user) == ["You received 12.50 credits"]
    acts = AuditEntry.objects.filter(target_id=alice.wallet, act__startswith="credits.request").order_by("id")
    assert [row.act for row in acts] == ["credits.request", "credits.request.approved"]
    assert books_agree()


def test_a_request_is_decided_once() -> None:
    alice = a_customer()
    chief = a_user(alice.group, "group_admin")
    fund_group(alice.group, 50)
    for decide in (
        lambda key: billing.approve_request(request_id=key, by=chief),
        lambda key: billing.reject_request(request_id=key, by=chief, reason="no"),
        lambda key: billing.withdraw_request(request_id=key, by=alice.user),
    ):
        request = asked(alice)
        decide(request.pk)
        assert refusal(billing.approve_request, request_id=request.pk, by=chief) == "already_decided"
        assert refusal(billing.reject_request, request_id=request.pk, by=chief, reason="no") == "already_decided"
        assert refusal(billing.withdraw_request, request_id=request.pk, by=alice.user) == "already_decided"
        assert refusal(billing.forward_request, request_id=request.pk, by=chief) == "already_decided"
    assert wallet(alice) == (cr(10), 0)


def test_a_rejection_needs_a_reason_and_tells_it() -> None:
    alice = a_customer()
    chief = a_user(alice.group, "group_admin")
    request = asked(alice)
    assert refusal(billing.reject_request, request_id=request.pk, by=chief, reason="  ") == "reason_required"
    billing.reject_request(request_id=request.pk, by=chief, reason="the term is over")
    told = Notification.objects.get(user=alice.user)
    assert (told.title, told.body) == ("The request for 10.00 credits was rejected", "the term is over")
    assert state(request) == "rejected"


def test_trap_55_nobody_decides_his_own_request_whatever_his_rank() -> None:
    group = a_group()
    chief = a_customer(group=group, user=a_user(group, "group_admin"))
    root = a_customer(group=group, user=a_user(group, is_super_admin=True))
    fund_group(group, 100)
    for person in (chief, root):
        request = asked(person)
        assert refusal(billing.approve_request, request_id=request.pk, by=person.user) == "forbidden"
        assert refusal(billing.reject_request, request_id=request.pk, by=person.user, reason="x") == "forbidden"
        assert refusal(billing.forward_request, request_id=request.pk, by=person.user) == "forbidden"
        assert state(request) == "open"
    billing.approve_request(request_id=CreditRequest.objects.get(asked_by=chief.user).pk, by=root.user)
    billing.approve_request(request_id=CreditRequest.objects.get(asked_by=root.user).pk, by=chief.user)


def test_trap_55_nobody_decides_what_somebody_else_forwarded_for_him() -> None:
    group = a_group()
    owner = a_customer(group=group, user=a_user(group, "group_admin"))
    Membership.objects.create(
        user=owner.user, organisation=group.organisation, role="org_admin", created_at=owner.user.created_at
    )
    chief, above = a_user(group, "group_admin"), an_org_admin(group.organisation)
    forwarded = billing.forward_request(request_id=asked(owner).pk, by=chief)
    assert refusal(billing.approve_request, request_id=forwarded.pk, by=owner.user) == "forbidden"
    assert refusal(billing.approve_request, request_id=forwarded.pk, by=chief) == "forbidden"
    assert refusal(billing.approve_request, request_id=forwarded.pk, by=above) == "insufficient_pool"


def test_who_may_decide_follows_the_rights_matrix() -> None:
    alice = a_customer()
    fund_group(alice.group, 100)
    colleague = a_user(alice.group)
    other_chief = a_user(a_group(alice.group.organisation), "group_admin")
    chief, owner, root = a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation), a_super_admin()
    for person in (alice.user, colleague, other_chief):
        request = asked(alice)
        assert refusal(billing.approve_request, request_id=request.pk, by=person) == "forbidden"
        billing.withdraw_request(request_id=request.pk, by=alice.user)
    for person in (chief, owner, root):
        billing.approve_request(request_id=asked(alice).pk, by=person)
    assert wallet(alice) == (cr(30), 0)


def test_who_may_ask_is_a_member_for_himself_and_an_administrator_for_his_place() -> None:
    alice = a_customer()
    colleague, chief = a_customer(group=alice.group), a_user(alice.group, "group_admin")
    guest = a_customer(user=a_user(alice.group, "guest"), group=alice.group)
    owner, root = an_org_admin(alice.group.organisation), a_super_admin()
    elsewhere = a_customer()

    def code(by: User, child: UUID, parent: UUID) -> str:
        return refusal(billing.ask_for_credits, wallet=child, parent=parent, amount=1, reason="x", by=by)

    assert code(colleague.user, alice.wallet, group_of(alice)) == "forbidden"
    assert code(chief, alice.wallet, group_of(alice)) == "forbidden"
    assert code(guest.user, guest.wallet, group_of(alice)) == "forbidden"
    assert code(elsewhere.user, elsewhere.wallet, group_of(alice)) == "forbidden"
    assert code(alice.user, alice.wallet, organisation_of(alice)) == "invalid"
    assert code(alice.user, group_of(alice), organisation_of(alice)) == "forbidden"
    assert code(chief, organisation_of(alice), SYSTEM_ID) == "forbidden"
    for by, child, parent in (
        (chief, group_of(alice), organisation_of(alice)),
        (owner, organisation_of(alice), SYSTEM_ID),
    ):
        request = billing.ask_for_credits(wallet=child, parent=parent, amount=1, reason="x", by=by)
        billing.withdraw_request(request_id=request.pk, by=by)
        billing.ask_for_credits(wallet=child, parent=parent, amount=1, reason="x", by=root)


def test_a_wallet_has_one_open_request_to_the_same_parent() -> None:
    alice = a_customer()
    first = asked(alice)
    assert refusal(
        billing.ask_for_credits, wallet=alice.wallet, parent=group_of(alice), amount=1, reason="x", by=alice.user
    ) == ("conflict")
    billing.withdraw_request(request_id=first.pk, by=alice.user)
    asked(alice)


def test_what_a_group_lacks_is_forwarded_and_the_request_waits_for_it() -> None:
    alice = a_customer()
    chief, owner = a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation)
    billing.issue(amount=cr(10), by=None)
    billing.allocate(source=SYSTEM_ID, to=organisation_of(alice), amount=cr(10), by=None)
    request = asked(alice)
    assert refusal(billing.approve_request, request_id=request.pk, by=chief) == "insufficient_pool"
    assert state(request) == "open"
    forwarded = billing.forward_request(request_id=request.pk, by=chief)
    assert (forwarded.wallet_id, forwarded.parent_id, forwarded.amount) == (
        group_of(alice),
        organisation_of(alice),
        cr(10),
    )
    assert refusal(billing.forward_request, request_id=request.pk, by=chief) == "conflict"
    billing.approve_request(request_id=forwarded.pk, by=owner)
    assert titles(chief)[-1].endswith("received the 10.00 credits that were asked for")
    billing.approve_request(request_id=request.pk, by=chief)
    assert wallet(alice) == (cr(10), 0)
    assert books_agree()
    again = billing.ask_for_credits(wallet=organisation_of(alice), parent=SYSTEM_ID, amount=1, reason="x", by=owner)
    assert refusal(billing.forward_request, request_id=again.pk, by=a_super_admin()) == "invalid"


def test_who_left_the_group_gets_nothing_and_his_request_ends() -> None:
    alice = a_customer()
    chief = a_user(alice.group, "group_admin")
    fund_group(alice.group, 50)
    request = asked(alice)
    Membership.objects.filter(user=alice.user).delete()
    assert refusal(billing.approve_request, request_id=request.pk, by=chief) == "invalid"
    billing.return_to_parents(user_id=alice.user.pk, group_id=alice.group.pk)
    assert state(request) == "withdrawn"
    assert wallet(alice) == (0, 0)


def test_an_approval_that_is_killed_anywhere_moves_nothing_or_everything_and_the_repeat_finishes_it_once() -> None:
    alice = a_customer()
    chief = a_user(alice.group, "group_admin")
    fund_group(alice.group, 50)
    request, before = asked(alice), transfers()
    client = Client()
    client.force_login(chief)

    def approve() -> None:
        answer = post(client, f"{request.pk}/approve", {}, key="once")
        assert answer.status_code == 201, answer.content
        assert answer.json()["state"] == "approved"

    def check() -> None:
        assert (state(request), transfers() - before) in {("open", 0), ("approved", 1)}

    def done() -> None:
        assert (state(request), transfers() - before, wallet(alice)) == ("approved", 1, (cr(10), 0))
        assert books_agree()

    assert every_death_then_again(approve, check, done) > 15


# Over HTTP -----------------------------------------------------------------------------------------------------------


def post(client: Client, path: str, body: dict[str, Any], key: str | None = None) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    address = f"/api/v1/credit-requests{'/' if path else ''}{path}"
    return client.post(address, body, content_type="application/json", headers=headers)


def signed_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def test_over_http_it_is_asked_seen_in_the_inbox_and_approved_once() -> None:
    alice = a_customer()
    chief = a_user(alice.group, "group_admin")
    fund_group(alice.group, 50)
    made = post(signed_in(alice.user), "", {"amount": "7.5", "reason": "a paper"})
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["parent"], shown["amount"], shown["state"]) == (str(group_of(alice)), "7.500000", "open")
    inbox = signed_in(chief).get("/api/v1/credit-requests?inbox=true").json()["results"]
    assert [row["id"] for row in inbox] == [shown["id"]]
    assert signed_in(alice.user).get("/api/v1/credit-requests?inbox=true").json()["results"] == []
    first = post(signed_in(chief), f"{shown['id']}/approve", {}, key="k")
    assert post(signed_in(chief), f"{shown['id']}/approve", {}, key="k").json() == first.json()
    again = post(signed_in(chief), f"{shown['id']}/approve", {}, key="k2")
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")
    assert post(signed_in(chief), f"{shown['id']}/approve", {}).json()["code"] == "idempotency_key_required"
    listed = signed_in(alice.user).get("/api/v1/credit-requests?state=approved").json()["results"]
    assert [row["transfer"] for row in listed] == [first.json()["transfer"]]
    assert wallet(alice) == (cr("7.5"), 0)


def test_over_http_who_has_several_groups_names_the_one_he_asks_and_strangers_are_not_found() -> None:
    alice = a_customer()
    a_customer(group=a_group(), user=alice.user)
    client = signed_in(alice.user)
    assert post(client, "", {"amount": "1", "reason": "x"}).json()["errors"] == {
        "parent": ["Name the group that is asked."]
    }
    ask = {"amount": "1", "reason": "x"}
    for nobody in (f"group:{a_group().pk}", str(SYSTEM_ID), str(uuid7()), str(alice.wallet)):
        assert post(client, "", ask | {"parent": nobody}).status_code == 404, nobody
    assert post(client, "", ask | {"parent": str(group_of(alice))}).status_code == 201
    owner = an_org_admin(alice.group.organisation)
    place = {"wallet": f"organisation:{alice.group.organisation_id}"}
    assert post(signed_in(owner), "", ask | place).json()["parent"] == str(SYSTEM_ID)
    assert post(client, "", ask | place).status_code == 404
    assert post(client, "", {"amount": "1", "parent": str(group_of(alice))}).json()["code"] == "reason_required"


def test_a_request_is_seen_by_who_asked_and_by_who_decides() -> None:
    alice = a_customer()
    request = asked(alice)
    path = f"/api/v1/credit-requests/{request.pk}"
    seen = (alice.user, a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation), a_super_admin())
    for person in seen:
        assert signed_in(person).get(path).status_code == 200
    unseen = (a_user(alice.group), a_user(a_group(), "group_admin"), an_org_admin(a_group().organisation))
    for person in unseen:
        assert signed_in(person).get(path).status_code == 404
        assert signed_in(person).get("/api/v1/credit-requests").json()["results"] == []
