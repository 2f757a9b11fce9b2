"""Keyset lists: totals, order, cursors, search, filters, CSV."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import signing
from django.test import Client

from accounts import audit, notices
from accounts.models import User
from gshare_core.kit import lists
from gshare_core.kit.lists import guarded
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user, an_org_admin, an_organisation

pytestmark = pytest.mark.django_db


def as_(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def pages(client: Client, address: str) -> list[list[dict]]:
    found = []
    while address:
        answer = client.get(address)
        assert answer.status_code == 200, answer.content
        found.append(answer.json()["results"])
        address = answer.json()["next"]
    return found


@pytest.mark.parametrize("ordering", ["name", "-name", "created_at", "-created_at"])
@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages_hold_every_row_once_and_in_order_also_among_equals(ordering, limit):
    organisation = an_organisation()
    for n in range(7):
        a_group(organisation, f"lab {n}")
    client = as_(an_org_admin(organisation))
    found = pages(client, f"/api/v1/groups?ordering={ordering}&limit={limit}")
    rows = [row for page in found for row in page]
    assert len({row["id"] for row in rows}) == len(rows) == 7
    column = ordering.removeprefix("-")
    assert rows == sorted(rows, key=lambda row: (row[column], row["id"]), reverse=ordering.startswith("-"))


def test_a_row_that_is_added_between_pages_neither_repeats_nor_hides_another():
    organisation = an_organisation()
    for n in range(4):
        a_group(organisation, f"b{n}")
    client = as_(an_org_admin(organisation))
    first = client.get("/api/v1/groups?limit=2").json()
    a_group(organisation, "a earlier")
    rest = pages(client, first["next"])
    assert [row["name"] for page in rest for row in page] == ["b2", "b3"]


def test_cursors_are_signed_and_good_for_their_own_list_order_and_filters_only():
    organisation = an_organisation()
    for n in range(3):
        a_group(organisation, f"lab {n}")
    client = as_(an_org_admin(organisation))
    cursor = client.get("/api/v1/groups?limit=1").json()["next"].split("cursor=")[1]
    assert client.get(f"/api/v1/groups?limit=2&cursor={cursor}").status_code == 200
    forged = signing.dumps({"o": "name", "k": ["a", "b"], "d": "x"}, salt="another")
    for address in (
        f"/api/v1/groups?ordering=-name&cursor={cursor}",
        f"/api/v1/groups?q=lab&cursor={cursor}",
        f"/api/v1/users?cursor={cursor}",
        f"/api/v1/groups?cursor={cursor}x",
        f"/api/v1/groups?cursor={forged}",
        "/api/v1/groups?cursor=%00",
    ):
        refused = client.get(address)
        assert (refused.status_code, list(refused.json()["errors"])) == (400, ["cursor"]), address


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("ordering=password", "ordering"),
        ("ordering=--name", "ordering"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=many", "limit"),
        ("limit=\N{ARABIC-INDIC DIGIT ONE}", "limit"),
        ("q=x", "q"),
        ("q=" + "x" * 101, "q"),
        ("q=ab%00", "q"),
        ("organisation=nobody", "organisation"),
    ],
)
def test_what_a_list_cannot_be_asked_is_refused_by_name(query, field):
    refused = as_(a_super_admin()).get(f"/api/v1/groups?{query}")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert list(refused.json()["errors"]) == [field]


def test_search_finds_parts_of_words_in_any_case_and_takes_wildcards_literally():
    client = as_(a_super_admin())
    a_user(name="Ada Lovelace", email="countess@example.org")
    a_user(name="100% effort", email="percent@example.org")
    found = {row["name"] for row in client.get("/api/v1/users?q=LOVE").json()["results"]}
    assert found == {"Ada Lovelace"}
    assert [row["name"] for row in client.get("/api/v1/users?q=0%25").json()["results"]] == ["100% effort"]
    assert client.get("/api/v1/users?q=%25%25").json()["count"] == 0


def test_filters_narrow_and_counts_say_whether_they_are_exact(monkeypatch):
    group = a_group()
    for _ in range(5):
        a_user(group)
    a_user(group, is_active=False)
    client = as_(a_super_admin())
    answer = client.get(f"/api/v1/users?group={group.pk}&is_active=true").json()
    assert (answer["count"], answer["count_is_exact"]) == (5, True)
    monkeypatch.setattr(lists, "COUNT_LIMIT", 3)
    answer = client.get(f"/api/v1/users?group={group.pk}").json()
    assert (answer["count"], answer["count_is_exact"]) == (3, False)


def test_the_trail_is_read_by_administrators_within_their_scope():
    group, foreign = a_group(), a_group()
    for place in (group, foreign):
        audit.record(by=None, act="thing.change", target_kind="thing", group_id=place.pk, at=LONG_AGO)
    audit.record(by=None, act="system.change", target_kind="thing", at=LONG_AGO)

    def sees(user):
        return {row["group"] for row in as_(user).get("/api/v1/audit").json()["results"]}

    assert sees(a_user(group, "group_admin")) == {str(group.pk)}
    assert sees(an_org_admin(group.organisation)) == {str(group.pk)}
    assert sees(a_super_admin()) == {str(group.pk), str(foreign.pk), None}
    refused = as_(a_user(group)).get("/api/v1/audit")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def test_the_trail_narrows_by_time_and_act_and_comes_newest_first():
    for n in range(3):
        audit.record(by=None, act=f"thing.{n}", target_kind="thing", at=LONG_AGO + timedelta(days=n))
    client = as_(a_super_admin())
    rows = client.get("/api/v1/audit?until=2026-01-03T00:00:00Z").json()["results"]
    assert [row["act"] for row in rows] == ["thing.1", "thing.0"]
    assert client.get("/api/v1/audit?act=thing.2").json()["count"] == 1
    assert rows[0]["at"] == "2026-01-02T00:00:00Z"


def test_the_trail_is_also_a_csv_whose_cells_no_spreadsheet_runs():
    audit.record(
        by=None, act="thing.change", target_kind="thing", target_label="=HYPERLINK(1)", after={"a": "b,c"}, at=LONG_AGO
    )
    answer = as_(a_super_admin()).get("/api/v1/audit", headers={"Accept": "text/csv"})
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    header, row = answer.content.decode().splitlines()
    assert header.startswith("id,at,actor,actor_email,act")
    assert "'=HYPERLINK(1)" in row
    assert '"{""a"": ""b,c""}"' in row


@pytest.mark.parametrize("risky", ["=1", "+1", "-1", "@x", "\tx", "\rx"])
def test_a_cell_that_looks_like_a_formula_gets_an_apostrophe(risky):
    assert guarded(risky) == f"'{risky}"
    assert guarded(f"x{risky}") == f"x{risky}"
    assert guarded(None) == ""


def test_a_file_is_refused_when_it_would_hold_too_many_rows(monkeypatch):
    monkeypatch.setattr(lists, "CSV_MAX", 1)
    for _ in range(2):
        audit.record(by=None, act="thing.change", target_kind="thing", at=LONG_AGO)
    answer = as_(a_super_admin()).get("/api/v1/audit", headers={"Accept": "text/csv"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_notices_are_ones_own_and_read_once():
    user, other = a_user(), a_user()
    for person in (user, user, other):
        notices.notify(user_id=person.pk, kind="test", title="-hello", body="", at=LONG_AGO, link="/wallet/")
    client = as_(user)
    rows = client.get("/api/v1/notifications").json()["results"]
    assert [(row["title"], row["read_at"]) for row in rows] == [("-hello", None)] * 2
    read = client.post(f"/api/v1/notifications/{rows[0]['id']}/read").json()
    assert read["read_at"]
    assert client.post(f"/api/v1/notifications/{rows[0]['id']}/read").json()["read_at"] == read["read_at"]
    assert client.get("/api/v1/notifications?unread=true").json()["count"] == 1
    assert as_(other).post(f"/api/v1/notifications/{rows[0]['id']}/read").status_code == 404
    assert client.post("/api/v1/notifications/read").json() == {"read": 1}
    assert "'-hello" in client.get("/api/v1/notifications", headers={"Accept": "text/csv"}).content.decode()
