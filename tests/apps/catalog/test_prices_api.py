"""Prices over REST: history and plans, a price with a start, for super administrators, once per key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from accounts.models import AuditEntry, User
from catalog import queries
from catalog.models import Offering, PriceRevision
from gshare_core.clock import ManualClock
from gshare_core.ids import Maker, made_by
from gshare_core.kit import clock
from tests.builders import a_group, a_super_admin, a_user, an_org_admin, cr

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 10, 14, 12, tzinfo=UTC)


@pytest.fixture
def offering() -> Offering:
    """A GPU with a price of 50 since a year."""
    offering = Offering.objects.create(name="A100 80GB", model="NVIDIA A100", vram_mib=81_559, tiers=["L"])
    PriceRevision.objects.create(offering=offering, rate_micro_per_hour=cr(50), starts_at=NOON - timedelta(days=365))
    return offering


def as_(user: User) -> Client:
    client = Client(headers={"origin": "http://localhost:8000"})
    client.force_login(user)
    return client


def post(client: Client, offering: Offering | UUID, body: dict[str, Any], key: str | None = "") -> HttpResponse:
    headers = {} if key is None else {"Idempotency-Key": key or uuid4().hex}
    pk = offering.pk if isinstance(offering, Offering) else offering
    with clock.using(ManualClock(NOON)):
        return client.post(f"/api/v1/offerings/{pk}/prices", body, content_type="application/json", headers=headers)  # type: ignore[return-value]


def listed(client: Client, offering: Offering, query: str = "") -> list[tuple[str, str]]:
    with clock.using(ManualClock(NOON)):
        rows = client.get(f"/api/v1/offerings/{offering.pk}/prices{query}").json()["results"]
    return [(row["hourly_credits"], row["state"]) for row in rows]


def test_a_planned_price_counts_from_its_start_and_leaves_its_trace(offering: Offering) -> None:
    root = a_super_admin()
    client, start = as_(root), "2026-11-01T00:00:00+09:00"
    made = post(client, offering, {"hourly_credits": "62.5", "starts_at": start})
    assert made.status_code == 201
    body = made.json()
    assert body == {
        "id": body["id"],
        "offering": str(offering.pk),
        "hourly_credits": "62.500000",
        "starts_at": "2026-10-31T15:00:00Z",
        "ends_at": None,
        "state": "planned",
    }
    at = datetime.fromisoformat(start)
    assert queries.price_at(offering.pk, at - timedelta(microseconds=1)) == cr(50)
    assert queries.price_at(offering.pk, at) == cr("62.5")
    entry = AuditEntry.objects.get(act="catalogue.price")
    assert (entry.actor_id, entry.target_id) == (root.pk, str(offering.pk))
    assert entry.after == {"rate": "62.500000", "starts_at": "2026-10-31T15:00:00+00:00"}


def test_history_and_plans_are_listed_newest_start_first_page_by_page(offering: Offering) -> None:
    client = as_(a_super_admin())
    post(client, offering, {"hourly_credits": "55"})
    planned = post(client, offering, {"hourly_credits": "60", "starts_at": "2026-12-01T00:00:00Z"}).json()
    post(client, offering, {"hourly_credits": "61", "starts_at": "2026-12-01T00:00:00Z", "replaces": planned["id"]})
    assert listed(client, offering) == [
        ("61.000000", "planned"),
        ("60.000000", "replaced"),
        ("55.000000", "current"),
        ("50.000000", "past"),
    ]
    assert listed(client, offering, "?ordering=starts_at")[0] == ("50.000000", "past")
    seen, address = [], f"/api/v1/offerings/{offering.pk}/prices?limit=1"
    while address:
        with clock.using(ManualClock(NOON)):
            page = client.get(address).json()
        seen += [(row["hourly_credits"], row["state"]) for row in page["results"]]
        address = page["next"]
    assert seen == listed(client, offering)


def test_a_price_without_a_start_counts_at_once(offering: Offering) -> None:
    made = post(as_(a_super_admin()), offering, {"hourly_credits": 70}).json()
    assert (made["state"], made["starts_at"]) == ("current", "2026-10-14T12:00:00Z")
    assert queries.price_at(offering.pk, NOON) == cr(70)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "hourly_credits"),
        ({"hourly_credits": "0"}, "hourly_credits"),
        ({"hourly_credits": "-1"}, "hourly_credits"),
        ({"hourly_credits": 12.5}, "hourly_credits"),
        ({"hourly_credits": "1e99"}, "hourly_credits"),
        ({"hourly_credits": "99999999999999999999"}, "hourly_credits"),
        ({"hourly_credits": "5", "starts_at": "tomorrow"}, "starts_at"),
        ({"hourly_credits": "5", "starts_at": "2026-11-01T00:00:00"}, "starts_at"),
        ({"hourly_credits": "5", "starts_at": "2026-02-31T00:00:00Z"}, "starts_at"),
        ({"hourly_credits": "5", "starts_at": 1793000000}, "starts_at"),
        ({"hourly_credits": "5", "starts_at": "2026-10-14T11:59:59Z"}, "starts_at"),
        ({"hourly_credits": "5", "starts_at": "9999-12-31T23:59:59Z"}, "starts_at"),
        ({"hourly_credits": "5", "starts_at": "9999-12-31T23:59:59-12:00"}, "starts_at"),
        ({"hourly_credits": "5", "replaces": "x"}, "replaces"),
        ({"hourly_credits": "5", "replaces": str(UUID(int=7))}, "replaces"),
    ],
)
def test_what_is_wrong_is_named_with_its_field_and_a_remedy(
    offering: Offering, body: dict[str, Any], field: str
) -> None:
    refused = post(as_(a_super_admin()), offering, body)
    assert refused.status_code == 400, refused.content
    problem = refused.json()
    assert list(problem["errors"]) == [field]
    assert problem["remedy"]
    assert PriceRevision.objects.count() == 1


def test_a_price_from_the_same_moment_is_replaced_only_by_name_and_the_later_counts_whatever_the_clocks_say(
    offering: Offering,
) -> None:
    client, start = as_(a_super_admin()), "2026-11-01T00:00:00Z"
    first = post(client, offering, {"hourly_credits": "60", "starts_at": start}).json()
    refused = post(client, offering, {"hourly_credits": "61", "starts_at": start})
    assert refused.status_code == 409
    assert refused.json()["code"] == "conflict"
    assert "replaces" in refused.json()["remedy"]
    with made_by(Maker(lambda: 0, lambda _bits: 0)):  # a process whose clock is far behind
        made = post(client, offering, {"hourly_credits": "61", "starts_at": start, "replaces": first["id"]})
    assert made.status_code == 201, made.content
    assert queries.price_at(offering.pk, datetime.fromisoformat(start)) == cr(61)


def test_a_key_sets_one_price_however_often_it_is_sent(offering: Offering) -> None:
    client, body = as_(a_super_admin()), {"hourly_credits": "60", "starts_at": "2026-11-01T00:00:00Z"}
    first, again = post(client, offering, body, "k"), post(client, offering, body, "k")
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert PriceRevision.objects.count() == 2
    assert post(client, offering, body | {"hourly_credits": "61"}, "k").json()["code"] == "idempotency_mismatch"
    assert post(client, offering, body, None).json()["code"] == "idempotency_key_required"


def test_prices_are_seen_and_set_by_super_administrators_only_and_of_what_exists(offering: Offering) -> None:
    group = a_group()
    for user in (a_user(), a_user(group), a_user(group, role="group_admin"), an_org_admin(group.organisation)):
        for answer in (
            as_(user).get(f"/api/v1/offerings/{offering.pk}/prices"),
            post(as_(user), offering, {"hourly_credits": "1"}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    root = as_(a_super_admin())
    assert root.get(f"/api/v1/offerings/{UUID(int=7)}/prices").status_code == 404
    assert post(root, UUID(int=7), {"hourly_credits": "1"}).status_code == 404
    assert PriceRevision.objects.count() == 1
