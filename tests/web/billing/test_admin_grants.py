"""Credits issued once, promised monthly, and the report of what the starts of months moved."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import ValidationError

from accounts.models import Membership
from billing import services as billing
from billing.models import SYSTEM_ID, Account, MonthlyGrant, Transfer
from billing.views.fields import AmountField
from gshare_core.clock import ManualClock
from gshare_core.kit import clock
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund_group
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db

ISSUE, REPORT = "/admin/credits/issue/", "/admin/credits/refills/"
MARCH = datetime(2026, 3, 10, 9, tzinfo=UTC)
AFTERWARDS = datetime(2100, 1, 2, 9, tzinfo=UTC)
APRIL = datetime(2026, 4, 2, 9, tzinfo=UTC)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def promised(alice: Customer) -> UUID:
    """Her organisation and her group get 60 a month, she 40; the group's wallet."""
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    group = billing.ensure_wallet("group", alice.group.pk)
    billing.set_monthly_grant(wallet=organisation, parent=SYSTEM_ID, amount=cr(60), by=None)
    billing.set_monthly_grant(wallet=group, parent=organisation, amount=cr(60), by=None)
    billing.set_monthly_grant(wallet=alice.wallet, parent=group, amount=cr(40), by=None)
    return group


def test_credits_are_issued_once_however_often_the_form_is_sent_and_by_super_administrators_only() -> None:
    root, group = a_super_admin(), a_group()
    client = browser(root)
    key = client.get(ISSUE).context["form"]["key"].value()
    before, sent = Transfer.objects.count(), {"amount": "1,250.5", "note": "the year", "key": key}
    assert client.post(ISSUE, sent).status_code == 302
    client.post(ISSUE, sent)
    assert Transfer.objects.count() == before + 1
    assert Account.objects.get(pk=SYSTEM_ID).balance == cr("1250.5")
    refused = client.post(ISSUE, {"amount": "0", "note": "kept", "key": "another"})
    assert (refused.status_code, refused.context["form"]["note"].value()) == (422, "kept")
    assert ISSUE in text(client.get("/admin/credits/"))
    admin = browser(an_org_admin(group.organisation))
    assert (admin.get(ISSUE).status_code, admin.post(ISSUE, sent).status_code) == (404, 404)
    assert ISSUE not in text(admin.get("/admin/credits/"))


def test_a_monthly_grant_is_set_one_level_above_shown_and_ended_and_moves_nothing() -> None:
    alice = a_customer(10)
    group = fund_group(alice.group, 100)
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    billing.set_monthly_grant(wallet=organisation, parent=SYSTEM_ID, amount=cr(60), by=None)
    billing.set_monthly_grant(wallet=group, parent=organisation, amount=cr(60), by=None)
    client, here = browser(a_user(alice.group, role="group_admin")), f"/admin/credits/wallets/{alice.wallet}/"
    sent, before = {"act": "grant", "parent": str(group), "amount": "40"}, Transfer.objects.count()
    assert client.post(here, sent).status_code == 302
    (row,) = client.get(here).context["grants"]
    assert (row["of"], row["amount_micro"]) == (alice.group.name, cr(40))
    refused = client.post(here, sent | {"amount": "70"})
    assert refused.status_code == 422
    assert "gets 60.00 cr a month and would give 70.00 cr" in text(refused)
    assert refused.context["promise"]["amount"].value() == "70"
    client.post(here, sent | {"amount": "0"})
    assert not MonthlyGrant.objects.filter(wallet=alice.wallet).exists()
    assert Transfer.objects.count() == before
    own = client.get(f"/admin/credits/wallets/{group}/")
    assert own.context["form"] is None
    assert [row["amount_micro"] for row in own.context["grants"]] == [cr(60)]
    assert client.post(f"/admin/credits/wallets/{group}/", sent).status_code == 422


def test_the_report_shows_the_refills_of_the_scope_with_what_was_missing_and_sums_all_of_them() -> None:
    alice, stranger = a_customer(0), a_customer(0, group=a_group(name="Genomics"))
    with clock.using(ManualClock(MARCH)):
        promised(alice)
        promised(stranger)
        billing.issue(amount=cr(100), by=None)
    with clock.using(ManualClock(APRIL)):
        billing.refill_due()
        page = browser(a_super_admin()).get(REPORT)
        assert len(page.context["rows"]) == 6
        assert page.context["totals"]["short"] > 0
        assert page.context["totals"]["moved"] == sum(row["moved_micro"] for row in page.context["rows"])
        client = browser(a_user(alice.group, role="group_admin"))
        rows = client.get(REPORT).context["rows"]
        assert {row["to"] for row in rows} == {alice.user.email, alice.group.name}
        march, april = (client.get(REPORT, {"month": f"2026-{month}-01"}).context for month in ("03", "04"))
        assert (march["rows"], march["totals"]) == ([], {"moved": 0, "short": 0})
        assert len(april["rows"]) == 2
        short = browser(a_super_admin()).get(REPORT, {"short": "true"}).context["rows"]
        assert short
        assert all(row["short_micro"] > 0 for row in short)
        assert client.get(REPORT, {"month": "never"}).status_code == 302
    assert browser(alice.user).get(REPORT).status_code == 404


def test_what_other_places_promise_and_give_somebody_is_not_told_to_the_administrator_of_one() -> None:
    alice, theirs = a_customer(10), a_group(name="Genomics")
    group = promised(alice)
    Membership.objects.create(user=alice.user, group=theirs, role="member", created_at=MARCH)
    their_organisation = billing.ensure_wallet("organisation", theirs.organisation_id)
    their_wallet = billing.ensure_wallet("group", theirs.pk)
    for wallet, parent in ((their_organisation, SYSTEM_ID), (their_wallet, their_organisation)):
        billing.set_monthly_grant(wallet=wallet, parent=parent, amount=cr(30), by=None)
    billing.set_monthly_grant(wallet=alice.wallet, parent=their_wallet, amount=cr(7), by=None)
    with clock.using(ManualClock(AFTERWARDS)):
        billing.refill_due()
    parents = {
        str(their_wallet): a_user(theirs, role="group_admin"),
        str(group): a_user(alice.group, role="group_admin"),
    }
    for own, admin in parents.items():
        client = browser(admin)
        answer = client.get(f"/api/v1/wallets/{alice.wallet}").json()
        assert [each["parent"] for each in answer["monthly_grants"]] == [own]
        rows = client.get(f"/api/v1/wallets/{alice.wallet}/refills").json()["results"]
        assert [each["parent"] for each in rows] == [own]
        assert [each["of"] for each in client.get(f"/admin/credits/wallets/{alice.wallet}/").context["grants"]] == [
            theirs.name if own == str(their_wallet) else alice.group.name
        ]
        mine = [row for row in client.get(REPORT).context["rows"] if row["to"] == alice.user.email]
        assert len(mine) == 1
    seen = browser(alice.user).get(f"/api/v1/wallets/{alice.wallet}").json()["monthly_grants"]
    assert {each["parent"] for each in seen} == set(parents)


@pytest.mark.parametrize(
    ("typed", "amount"), [("1,000", 1000), ("12,345.5", "12345.5"), (" 200 ", 200), ("12.5", "12.5")]
)
def test_commas_part_thousands(typed: str, amount: int | str) -> None:
    assert AmountField().clean(typed) == cr(amount)


@pytest.mark.parametrize("typed", ["12,5", "1,00", "1,0000", ",5", "1.000,5", "1,,000"])
def test_a_comma_that_parts_decimals_is_refused_and_multiplies_nothing(typed: str) -> None:
    with pytest.raises(ValidationError):
        AmountField().clean(typed)
