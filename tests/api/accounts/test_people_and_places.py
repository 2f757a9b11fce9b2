"""The calls about people, places and seats: scoped to the caller, strangers find nothing."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts import services
from accounts.models import Membership, User
from gshare_core.ids import uuid7
from tests.builders import a_group, a_super_admin, a_user, an_org_admin, an_organisation

pytestmark = pytest.mark.django_db
JSON = "application/json"


def as_(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def town():
    """Two tenants: one with a guest, a member, both kinds of administrator; a stranger's beside it."""
    group = a_group()
    people = {role: a_user(group, role) for role in ("guest", "member", "group_admin")}
    foreign = a_group()
    return {
        **people,
        "org_admin": an_org_admin(group.organisation),
        "super_admin": a_super_admin(),
        "stranger": a_user(foreign, "group_admin"),
        "group": group,
        "foreign": foreign,
    }


def emails(client: Client, path: str = "/api/v1/users") -> set[str]:
    return {row["email"] for row in client.get(path).json()["results"]}


def test_lists_hold_what_the_caller_may_see_and_nothing_of_other_tenants(town):
    own = {town[role].email for role in ("guest", "member", "group_admin")}
    assert emails(as_(town["member"])) == {town["member"].email}
    assert emails(as_(town["group_admin"])) == own
    assert emails(as_(town["org_admin"])) == own | {town["org_admin"].email}
    assert emails(as_(town["stranger"])) == {town["stranger"].email}
    assert emails(as_(town["super_admin"])) == set(User.objects.values_list("email", flat=True))
    groups = {row["id"] for row in as_(town["guest"]).get("/api/v1/groups").json()["results"]}
    assert groups == {str(town["group"].pk)}
    organisations = as_(town["stranger"]).get("/api/v1/organisations").json()["results"]
    assert [row["id"] for row in organisations] == [str(town["foreign"].organisation_id)]
    seats = as_(town["member"]).get("/api/v1/memberships").json()["results"]
    assert [row["user"]["email"] for row in seats] == [town["member"].email]


def test_a_stranger_gets_404_for_everything_that_is_not_his(town):
    client = as_(town["stranger"])
    seat = Membership.objects.get(user=town["member"])
    policy = services.set_policy(
        scope=services.limits.Scope(services.limits.ScopeKind.GROUP, town["group"].pk),
        per_user={"cards": 1},
        totals={},
        by=None,
    )
    member, group = town["member"], town["group"]
    calls = [
        ("get", f"/api/v1/users/{member.pk}"),
        ("patch", f"/api/v1/users/{member.pk}"),
        ("post", f"/api/v1/users/{member.pk}/reset-password"),
        ("post", f"/api/v1/users/{member.pk}/sign-out"),
        ("get", f"/api/v1/groups/{group.pk}"),
        ("patch", f"/api/v1/groups/{group.pk}"),
        ("get", f"/api/v1/organisations/{group.organisation_id}"),
        ("patch", f"/api/v1/organisations/{group.organisation_id}"),
        ("get", f"/api/v1/memberships/{seat.pk}"),
        ("patch", f"/api/v1/memberships/{seat.pk}"),
        ("delete", f"/api/v1/memberships/{seat.pk}"),
        ("get", f"/api/v1/policies/{policy.pk}"),
        ("patch", f"/api/v1/policies/{policy.pk}"),
        ("delete", f"/api/v1/policies/{policy.pk}"),
    ]
    for method, path in calls:
        response = getattr(client, method)(path, {"role": "guest"}, content_type=JSON)
        assert response.status_code == 404, (method, path)
        unknown = path.replace(path.split("/")[4], str(uuid7()))
        again = getattr(client, method)(unknown, {"role": "guest"}, content_type=JSON)
        assert again.json()["detail"] == response.json()["detail"]


def test_a_new_person_gets_an_initial_password_once(town):
    body = {"email": "new@example.org", "name": "New", "group": str(town["group"].pk)}
    made = as_(town["group_admin"]).post("/api/v1/users", body, content_type=JSON)
    assert made.status_code == 201
    assert len(made.json()["initial_password"]) >= 12
    assert made["Cache-Control"] == "no-store"
    again = as_(town["group_admin"]).get(f"/api/v1/users/{made.json()['id']}").json()
    assert "initial_password" not in again
    assert again["must_change_password"] is True
    taken = as_(town["group_admin"]).post("/api/v1/users", body, content_type=JSON)
    assert (taken.status_code, taken.json()["code"]) == (409, "conflict")


def test_adding_by_address_answers_the_same_whether_or_not_it_exists(town):
    client = as_(town["group_admin"])
    a_user(email="real@example.org")

    def add(email: str):
        body = {"email": email, "group": str(town["group"].pk), "role": "member"}
        return client.post("/api/v1/memberships", body, content_type=JSON)

    real, nobody, again = add("real@example.org"), add("nobody@example.org"), add("real@example.org")
    assert real.status_code == nobody.status_code == again.status_code == 202
    assert real.json() == again.json() == nobody.json() | {"email": "real@example.org"}
    assert Membership.objects.filter(user__email="real@example.org").count() == 1


def test_a_seat_is_given_changed_and_taken(town):
    client, person = as_(town["org_admin"]), a_user(organisation=town["group"].organisation)
    body = {"user": str(person.pk), "group": str(town["group"].pk), "role": "guest"}
    made = client.post("/api/v1/memberships", body, content_type=JSON)
    assert (made.status_code, made.json()["role"]) == (201, "guest")
    path = f"/api/v1/memberships/{made.json()['id']}"
    assert client.patch(path, {"role": "group_admin"}, content_type=JSON).json()["role"] == "group_admin"
    assert client.patch(path, {"role": "org_admin"}, content_type=JSON).status_code == 400
    assert client.delete(path).status_code == 204
    assert client.delete(path).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"role": "member"},
        {"email": "a@b.example", "user": str(uuid7()), "role": "member"},
        {"email": "a@b.example", "role": "member"},
        {"email": "a@b.example", "role": "emperor"},
        {"email": "a@b.example", "group": "x", "role": "member"},
    ],
)
def test_a_body_that_names_no_person_place_or_role_is_invalid(town, body):
    response = as_(town["super_admin"]).post("/api/v1/memberships", body, content_type=JSON)
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert response.json()["errors"]


def test_what_a_patch_names_changes_together_or_not_at_all(town):
    client, member = as_(town["org_admin"]), town["member"]
    path = f"/api/v1/users/{member.pk}"
    refused = client.patch(path, {"name": "Changed", "email": town["guest"].email}, content_type=JSON)
    assert refused.status_code == 409
    member.refresh_from_db()
    assert member.name != "Changed"
    done = client.patch(path, {"name": "Changed", "email": "moved@example.org"}, content_type=JSON)
    assert (done.json()["name"], done.json()["email"]) == ("Changed", "moved@example.org")


def test_a_super_administrator_among_others_is_changed_and_ended_in_one_patch(town):
    others = [a_super_admin() for _ in range(3)]
    path = f"/api/v1/users/{others[2].pk}"
    body = {"email": "past@example.org", "super_admin": True, "is_active": False, "reason": "left"}
    answer = as_(others[1]).patch(path, body, content_type=JSON)
    assert answer.status_code == 200, answer.content
    assert (answer.json()["email"], answer.json()["is_active"]) == ("past@example.org", False)


def test_trap_55_over_the_api_a_group_admin_gets_forbidden_for_whom_he_sees_but_does_not_outrank(town):
    client = as_(town["group_admin"])
    town["group"].memberships.create(user=town["org_admin"], role="member", created_at=town["group"].created_at)
    target = town["org_admin"].pk
    for method, path, body in [
        ("post", f"/api/v1/users/{target}/reset-password", {}),
        ("patch", f"/api/v1/users/{target}", {"email": "mine@example.org"}),
        ("patch", f"/api/v1/users/{target}", {"is_active": False}),
    ]:
        response = getattr(client, method)(path, body, content_type=JSON)
        assert (response.status_code, response.json()["code"]) == (403, "forbidden"), path


def test_organisations_and_groups_are_made_renamed_and_switched_off(town):
    top = as_(town["super_admin"])
    made = top.post("/api/v1/organisations", {"name": "Acme"}, content_type=JSON).json()
    group = top.post("/api/v1/groups", {"organisation": made["id"], "name": "lab"}, content_type=JSON)
    assert group.status_code == 201
    path = f"/api/v1/groups/{group.json()['id']}"
    changed = top.patch(path, {"name": "lab 2", "is_active": False}, content_type=JSON).json()
    assert (changed["name"], changed["is_active"]) == ("lab 2", False)
    assert (
        as_(town["member"])
        .post("/api/v1/groups", {"organisation": str(town["group"].organisation_id), "name": "x"}, content_type=JSON)
        .status_code
        == 403
    )


def test_policies_are_set_by_scope_and_named_fields(town):
    client = as_(town["org_admin"])
    scope = f"group:{town['group'].pk}"
    made = client.post(
        "/api/v1/policies",
        {"scope": scope, "per_user": {"max_sessions": 2, "allow_preemptible": True}, "totals": {"cards": 8}},
        content_type=JSON,
    )
    assert made.status_code == 201
    assert (made.json()["scope"], made.json()["per_user"]) == (scope, {"max_sessions": 2, "allow_preemptible": 1})
    path = f"/api/v1/policies/{made.json()['id']}"
    assert client.patch(path, {"per_user": {"max_sessions": None}}, content_type=JSON).json()["per_user"] == {
        "allow_preemptible": 1
    }
    assert (
        client.post("/api/v1/policies", {"scope": scope, "per_user": {"cards": 1}}, content_type=JSON).status_code
        == 200
    )
    bad = client.patch(path, {"per_user": {"tea": 1, "cards": -1}}, content_type=JSON)
    assert set(bad.json()["errors"]) == {"tea", "cards"}
    for wrong in (1.5, "many", [1]):
        assert client.patch(path, {"per_user": {"cards": wrong}}, content_type=JSON).status_code == 400
    assert client.post("/api/v1/policies", {"scope": "galaxy", "per_user": {}}, content_type=JSON).status_code == 400
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_lists_cost_the_same_number_of_statements_whatever_their_length(town, django_assert_max_num_queries):
    client = as_(town["super_admin"])
    for path in ("users", "groups", "organisations", "memberships", "policies", "audit", "notifications"):
        client.get(f"/api/v1/{path}")
    for _ in range(30):
        a_user(town["group"])
    for path in ("users", "groups", "organisations", "memberships", "policies", "audit", "notifications"):
        with django_assert_max_num_queries(6):
            client.get(f"/api/v1/{path}")


def test_an_organisation_of_nobody_is_seen_by_super_administrators_only(town):
    lonely = an_organisation()
    assert as_(town["super_admin"]).get(f"/api/v1/organisations/{lonely.pk}").status_code == 200
    assert as_(town["org_admin"]).get(f"/api/v1/organisations/{lonely.pk}").status_code == 404
