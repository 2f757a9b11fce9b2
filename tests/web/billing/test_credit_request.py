"""Asking one's group for credits: from a refused session to the form, once, with its state, taken back."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from billing import services as billing
from billing.models import Account, CreditRequest
from tests.apps.sessions.world import World
from tests.builders import a_customer, a_user, cr, fund_group
from tests.web.sessions.conftest import alice, browser, world

__all__ = ["alice", "world"]

pytestmark = pytest.mark.django_db
HERE = "/wallet/request/"


def text(answer: Any) -> str:
    return str(answer.content.decode())


def sent(world: World, **changes: str) -> dict[str, str]:
    return {"group": str(world.alice.group.pk), "amount": "40", "reason": "a second run"} | changes


def test_a_request_is_asked_once_however_often_the_form_is_sent_and_its_state_is_shown(
    world: World, alice: Client
) -> None:
    assert alice.post(HERE, sent(world)).status_code == 302
    again = alice.post(HERE, sent(world))
    assert again.status_code == 422
    assert "There is an open request already." in text(again)
    made = CreditRequest.objects.get()
    assert (made.wallet_id, made.amount, made.reason) == (world.alice.wallet, cr(40), "a second run")
    assert made.parent == Account.objects.get(group=world.alice.group)
    (row,) = alice.get(HERE).context["requests"]
    assert (row["of"], row["state"]) == (world.alice.group.name, "open")


def test_what_was_decided_is_told_with_the_reason_and_can_no_longer_be_withdrawn(world: World, alice: Client) -> None:
    alice.post(HERE, sent(world))
    made = CreditRequest.objects.get()
    admin = a_user(world.alice.group, role="group_admin")
    billing.reject_request(request_id=made.pk, reason="not this month", by=admin)
    page = alice.get(HERE)
    (row,) = page.context["requests"]
    assert (row["state"], row["withdraw_url"]) == ("rejected", "")
    assert "not this month" in text(page)
    alice.post(f"{HERE}{made.pk}/withdraw/")
    assert CreditRequest.objects.get().state == "rejected"


def test_one_takes_back_ones_own_request_and_nobody_elses(world: World, alice: Client) -> None:
    alice.post(HERE, sent(world))
    made = CreditRequest.objects.get()
    other = browser(a_customer(10, group=world.alice.group).user)
    assert other.post(f"{HERE}{made.pk}/withdraw/").status_code == 404
    assert other.get(HERE).context["requests"] == []
    alice.post(f"{HERE}{made.pk}/withdraw/")
    assert CreditRequest.objects.get().state == "withdrawn"
    assert alice.post(HERE, sent(world)).status_code == 302


@pytest.mark.parametrize(
    "change", [{"amount": "much"}, {"amount": "0"}, {"amount": "-4"}, {"reason": ""}, {"reason": "  "}, {"group": "x"}]
)
def test_a_refusal_stays_on_the_form_with_what_was_typed(world: World, alice: Client, change: dict[str, str]) -> None:
    refused = alice.post(HERE, sent(world, **change))
    assert refused.status_code == 422
    (field,) = change
    assert refused.context["form"][field].value() == change[field]
    assert not CreditRequest.objects.exists()


def test_a_guest_is_offered_no_form_and_no_foreign_group_is_taken(world: World, alice: Client) -> None:
    guest = browser(a_user(world.alice.group, role="guest"))
    assert guest.get(HERE).context["form"] is None
    foreign = a_customer(10).group
    fund_group(foreign, 5)
    assert alice.post(HERE, sent(world, group=str(foreign.pk))).status_code == 422
    assert not CreditRequest.objects.exists()


def test_a_session_refused_for_lack_of_credits_leads_to_the_form_with_what_is_missing(world: World) -> None:
    poor = a_customer(1, group=world.alice.group)
    client = browser(poor.user)
    asked = {"size": "exclusive", "offering": str(world.offering.pk), "group": str(world.alice.group.pk)}
    page = client.get("/sessions/new/", asked)
    found = page.context["review"]["credits_url"]
    assert found in text(page).replace("&amp;", "&")
    form = client.get(found).context["form"]
    assert form["group"].value() == str(world.alice.group.pk)
    assert client.post(HERE, {"group": form["group"].value(), "amount": form["amount"].value(), "reason": "x"}).url
    assert page.context["review"]["rate_micro_per_hour"] - cr(1) == CreditRequest.objects.get().amount
    assert browser(world.alice.user).get("/sessions/new/", asked).context["review"]["credits_url"] == ""
