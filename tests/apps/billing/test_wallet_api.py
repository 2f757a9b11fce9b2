"""Wallets over HTTP: who sees what, and credits that move once."""

from __future__ import annotations

import csv
import io
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from accounts.models import User
from billing import services as billing
from billing.models import REVENUE_ID, SYSTEM_ID
from gshare_core.ids import uuid7
from tests.apps.billing.stage import books_agree, ended, opened, running, transfers, wallet
from tests.builders import a_customer, a_group, a_super_admin, a_user, an_org_admin, cr, fund_group

pytestmark = pytest.mark.django_db


def signed_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def post(person: User, path: str, body: dict[str, Any], key: str | None = "k") -> Any:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return signed_in(person).post(f"/api/v1/wallets/{path}", body, content_type="application/json", headers=headers)


# Looking -------------------------------------------------------------------------------------------------------------


def test_a_wallet_shows_credits_with_six_decimals() -> None:
    alice = a_customer(100)
    running(alice)
    client = signed_in(alice.user)
    listed = client.get("/api/v1/wallets").json()
    assert (listed["count"], listed["count_is_exact"], listed["next"]) == (1, True, None)
    shown = client.get(f"/api/v1/wallets/{alice.wallet}").json()
    assert shown | {"accrued": ""} == {
        "id": str(alice.wallet),
        "kind": "user",
        "owner": str(alice.user.pk),
        "name": alice.user.email,
        "balance": "100.000000",
        "held": "12.500000",
        "available": "87.500000",
        "accrued": "",
        "monthly_grants": [],
    }


def test_the_own_wallet_is_made_at_the_first_look() -> None:
    person = a_user(a_group())
    (row,) = signed_in(person).get("/api/v1/wallets").json()["results"]
    assert (row["owner"], row["balance"]) == (str(person.pk), "0.000000")


def test_administrators_see_the_wallets_of_their_scope_and_strangers_find_nothing() -> None:
    alice, bob = a_customer(1), a_customer(1)
    group = billing.ensure_wallet("group", alice.group.pk)
    organisation = billing.ensure_wallet("organisation", alice.group.organisation_id)
    chief, owner, root = a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation), a_super_admin()
    sees = {
        alice.user: {alice.wallet},
        chief: {alice.wallet, group},
        owner: {alice.wallet, group, organisation},
        root: {alice.wallet, bob.wallet, group, organisation, SYSTEM_ID},
        bob.user: {bob.wallet},
    }
    for person, expected in sees.items():
        client = signed_in(person)
        found = {UUID(row["id"]) for row in client.get("/api/v1/wallets").json()["results"]}
        assert found >= expected
        for key in (alice.wallet, group, organisation, SYSTEM_ID):
            for path in ("", "/entries"):
                answer = client.get(f"/api/v1/wallets/{key}{path}")
                assert answer.status_code == (200 if key in expected else 404), (person, key, path)


def test_mint_and_revenue_are_no_wallets() -> None:
    root = a_super_admin()
    assert signed_in(root).get(f"/api/v1/wallets/{REVENUE_ID}").status_code == 404


def test_entries_come_newest_first_with_the_balance_after_each_and_the_run_that_a_charge_paid() -> None:
    alice = a_customer(100)
    run = running(alice)
    ended(run, at=30)
    rows = signed_in(alice.user).get(f"/api/v1/wallets/{alice.wallet}/entries").json()["results"]
    assert [(row["kind"], row["change"], row["balance"]) for row in rows] == [
        ("charge", "-6.250000", "93.750000"),
        ("allocate", "100.000000", "100.000000"),
    ]
    charge = rows[0]
    assert (charge["debit"], charge["credit"], charge["amount"]) == (str(alice.wallet), "revenue", "6.250000")
    assert (charge["label"], charge["run"]) == ("vit-ft", 1)
    assert (charge["billed_from"], charge["billed_to"]) == ("2026-03-02T09:00:00Z", "2026-03-02T09:30:00Z")
    assert charge["actor"] is None


def test_entries_are_filtered_paged_and_searched() -> None:
    alice = a_customer(100)
    for number in range(4):
        ended(running(alice, at=number * 60), at=number * 60 + 12)
    client = signed_in(alice.user)
    path = f"/api/v1/wallets/{alice.wallet}/entries"
    assert client.get(f"{path}?kind=allocate").json()["count"] == 1
    assert client.get(f"{path}?q=vit").json()["count"] == 4
    first = client.get(f"{path}?limit=2&kind=charge").json()
    second = client.get(first["next"]).json()
    numbers = [row["number"] for page in (first, second) for row in page["results"]]
    assert numbers == [5, 4, 3, 2]
    assert second["next"] is None
    assert client.get(f"{path}?from=2026-03-02T10:30:00Z&kind=charge").json()["count"] == 2
    assert client.get(f"{path}?kind=gift").status_code == 400


def test_entries_as_csv_equal_the_ledger() -> None:
    alice = a_customer(100)
    ended(running(alice), at=30)
    client = signed_in(alice.user)
    answer = client.get(f"/api/v1/wallets/{alice.wallet}/entries", headers={"Accept": "text/csv"})
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["change"] for row in rows] == ["'-6.250000", "100.000000"]  # a spreadsheet would take -… for a formula
    assert rows[0]["billed_to"] == "2026-03-02T09:30:00Z"


def test_an_administrator_sees_of_a_members_wallet_what_concerns_his_places_only() -> None:
    alice = a_customer(100)
    ended(running(alice), at=30)
    other = a_customer(3, group=a_group(), user=alice.user)  # the same person in a foreign organisation
    ended(running(other, at=100), at=112)
    chief, foreign = a_user(alice.group, "group_admin"), a_user(other.group, "group_admin")
    path = f"/api/v1/wallets/{alice.wallet}/entries"
    own = [row["change"] for row in signed_in(alice.user).get(path).json()["results"]]
    assert own == ["-2.500000", "3.000000", "-6.250000", "100.000000"]
    assert [row["change"] for row in signed_in(chief).get(path).json()["results"]] == ["-6.250000", "100.000000"]
    assert [row["change"] for row in signed_in(foreign).get(path).json()["results"]] == ["-2.500000", "3.000000"]


# Moving --------------------------------------------------------------------------------------------------------------


def test_credits_are_issued_and_handed_down_by_who_may() -> None:
    alice, root = a_customer(), a_super_admin()
    owner, chief = an_org_admin(alice.group.organisation), a_user(alice.group, "group_admin")
    organisation, group = alice.group.organisation_id, alice.group.pk
    issued = post(root, "system/issue", {"amount": "1000", "note": "first"})
    assert issued.status_code == 201
    assert issued.json() | {"id": "", "at": ""} == {
        "id": "",
        "at": "",
        "kind": "issue",
        "debit": "mint",
        "credit": str(SYSTEM_ID),
        "amount": "1000.000000",
        "reference": None,
        "actor": str(root.pk),
        "note": "first",
    }
    down = post(root, f"{SYSTEM_ID}/allocate", {"to": f"organisation:{organisation}", "amount": "500"})
    assert down.status_code == 201
    down = post(owner, f"{down.json()['credit']}/allocate", {"to": f"group:{group}", "amount": "100.5"})
    assert down.status_code == 201
    group_wallet = down.json()["credit"]
    down = post(chief, f"{group_wallet}/allocate", {"to": str(alice.wallet), "amount": "10", "note": "yours"})
    assert (down.status_code, down.json()["amount"]) == (201, "10.000000")
    assert wallet(alice) == (cr(10), 0)
    back = post(chief, f"{alice.wallet}/reclaim", {"to": group_wallet, "amount": "4"}, key="k2")
    assert (back.status_code, back.json()["kind"]) == (201, "reclaim")
    assert wallet(alice) == (cr(6), 0)
    assert books_agree()


def test_replaying_a_request_moves_credits_once_and_another_body_is_refused() -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    body = {"to": str(alice.wallet), "amount": "4"}
    before = transfers()
    first, again = (post(chief, f"{group}/allocate", body) for _try in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert transfers() == before + 1
    other = post(chief, f"{group}/allocate", {"to": str(alice.wallet), "amount": "5"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    without = post(chief, f"{group}/allocate", body, key=None)
    assert (without.status_code, without.json()["code"]) == (400, "idempotency_key_required")
    assert wallet(alice) == (cr(4), 0)


def test_what_is_not_there_cannot_be_handed_out() -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    refused = post(chief, f"{group}/allocate", {"to": str(alice.wallet), "amount": "10.000001"})
    assert (refused.status_code, refused.json()["code"]) == (409, "insufficient_pool")
    assert refused.json()["facts"] == {"available": "10.000000", "needed": "10.000001"}
    assert refused.json()["remedy"]


def test_members_move_nothing_and_strangers_find_no_wallet() -> None:
    alice, stranger = a_customer(5), a_customer(5)
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    tries = [
        (alice.user, f"{group}/allocate", {"to": str(alice.wallet), "amount": "1"}, 404),
        (alice.user, f"{alice.wallet}/reclaim", {"to": str(group), "amount": "1"}, 404),
        (alice.user, f"{alice.wallet}/adjust", {"amount": "1", "note": "please"}, 403),
        (alice.user, "system/issue", {"amount": "1"}, 403),
        (chief, f"{alice.wallet}/adjust", {"amount": "1", "note": "please"}, 403),
        (chief, f"{group}/allocate", {"to": str(stranger.wallet), "amount": "1"}, 404),
        (stranger.user, f"{alice.wallet}/adjust", {"amount": "1", "note": "x"}, 404),
        (stranger.user, f"{uuid7()}/allocate", {"to": str(alice.wallet), "amount": "1"}, 404),
    ]
    for person, path, body, status in tries:
        assert post(person, path, body).status_code == status, (path, status)
    assert books_agree()


def test_a_correction_needs_a_reason_and_may_be_negative() -> None:
    alice, root = a_customer(5), a_super_admin()
    refused = post(root, f"{alice.wallet}/adjust", {"amount": "1"})
    assert (refused.status_code, refused.json()["code"]) == (400, "reason_required")
    done = post(root, f"{alice.wallet}/adjust", {"amount": "-2", "note": "charged twice elsewhere"})
    assert (done.status_code, done.json()["debit"], done.json()["credit"]) == (201, str(alice.wallet), "mint")
    assert wallet(alice) == (cr(3), 0)


@pytest.mark.parametrize("amount", ["0", "-1", "1e3", "1.0000001", "", None, 1.5, True, "99999999999999"])
def test_amounts_are_positive_decimal_strings(amount: object) -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    refused = post(chief, f"{group}/allocate", {"to": str(alice.wallet), "amount": amount})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert "amount" in refused.json()["errors"]


@pytest.mark.parametrize("to", ["", "nobody", "team:1", "user:1", 7, None])
def test_a_receiver_is_a_wallet_or_an_owner(to: object) -> None:
    alice = a_customer()
    group = fund_group(alice.group, 10)
    chief = a_user(alice.group, "group_admin")
    refused = post(chief, f"{group}/allocate", {"to": to, "amount": "1"})
    assert refused.status_code == 400
    assert "to" in refused.json()["errors"]


def test_a_hold_cannot_be_handed_away() -> None:
    alice = a_customer("12.5")
    opened(alice)
    chief = a_user(alice.group, "group_admin")
    group = billing.ensure_wallet("group", alice.group.pk)
    refused = post(chief, f"{alice.wallet}/reclaim", {"to": str(group), "amount": "0.000001"})
    assert (refused.status_code, refused.json()["code"]) == (409, "insufficient_pool")
    assert wallet(alice) == (cr("12.5"), cr("12.5"))
