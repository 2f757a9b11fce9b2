"""Sessions over REST: forms of answers, idempotency, who may see and do what."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from billing.models import Account, Budget, Transfer
from sessions_app.models import Session
from tests.apps.sessions.world import World, limit
from tests.builders import LONG_AGO, a_customer, a_user, cr

pytestmark = pytest.mark.django_db


def client_of(user: Any) -> Client:
    """Somebody signed in by the console's own cookie."""
    client = Client(headers={"origin": "http://localhost:8000"})
    client.force_login(user)
    return client


def body_of(world: World, tier: str = "L", **changes: Any) -> dict[str, Any]:
    """The body of create."""
    facts = {
        "name": "vit-ft",
        "group": str(world.alice.group.pk),
        "offering": None if tier == "cpu" else str(world.offering.pk),
        "preset": str(world.presets[tier].pk),
        "image": str(world.image.pk),
    }
    return facts | changes


def post(client: Client, path: str, body: Any, key: str | None = "key") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=headers)


def test_create_answers_the_session_as_the_contract_says(world):
    answer = post(client_of(world.alice.user), "/sessions", body_of(world))
    assert answer.status_code == 201
    session = answer.json()
    assert (session["name"], session["state"], session["mode"]) == ("vit-ft", "starting", "fractional")
    assert session["owner"] == {"id": str(world.alice.user.pk), "email": world.alice.user.email}
    assert session["gpu"] == {
        "vram_mib": 20389,
        "core_percent": 25,
        "cards": [{"uuid": world.card.uuid, "node": "gpu-01", "kind": "shared"}],
        "occupancy": "0.250000",
    }
    assert session["cost"]["hourly_credits"] == session["cost"]["held"] == "12.500000"
    assert session["allowed"] == ["pause", "stop"]
    assert client_of(world.alice.user).get(f"/api/v1/sessions/{session['id']}").json()["id"] == session["id"]


def test_the_same_key_gives_the_same_session_and_another_body_is_refused(world):
    client = client_of(world.alice.user)
    first, again = (post(client, "/sessions", body_of(world)) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert Session.objects.count() == 1
    other = post(client, "/sessions", body_of(world, name="other"))
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


def test_while_too_many_start_at_the_same_time_create_and_resume_say_when_to_come_again_and_change_nothing(
    world, crowded
):
    client, paused = client_of(world.alice.user), world.run("S")
    post(client, f"/sessions/{paused.pk}/pause", {})
    world.gone(paused)
    with crowded():
        for path, body in (("/sessions", body_of(world)), (f"/sessions/{paused.pk}/resume", {})):
            answer = post(client, path, body)
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), path
            assert int(answer["Retry-After"]) > 0
            assert answer.json()["remedy"]
        assert list(Session.objects.values_list("pk", "state")) == [(paused.pk, "paused")]
    assert post(client, "/sessions", body_of(world)).status_code == 201, "the key was not used up"


def test_create_needs_a_key(world):
    answer = post(client_of(world.alice.user), "/sessions", body_of(world), key=None)
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_required")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Not a name!"}, "name"),
        ({"group": "nonsense"}, "group"),
        ({"preset": None}, "preset"),
        ({"volumes": [{"volume": "x", "path": "/data"}]}, "volumes.0.volume"),
        ({"priority": -1}, "priority"),
        ({"pause_mode": "warm"}, "pause_mode"),
    ],
)
def test_bad_input_names_the_field_and_the_remedy(world, changes, field):
    answer = post(client_of(world.alice.user), "/sessions", body_of(world, **changes))
    problem = answer.json()
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert field in problem["errors"]
    assert problem["remedy"]
    assert not Session.objects.exists()


def test_a_refusal_names_gate_reason_and_remedy(world):
    poor = a_customer(0, group=world.alice.group)
    answer = post(client_of(poor.user), "/sessions", body_of(world))
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["gate"]) == (402, "insufficient_credit", 6)
    assert problem["remedy"]
    assert problem["facts"] == {"needed": "12.500000", "available": "0.000000"}


def test_a_session_without_a_card_starts_under_a_blocking_budget_and_leaves_no_ledger_row(world):
    poor = a_customer(0, group=world.alice.group)
    Budget.objects.create(group=world.alice.group, limit=1, mode="block", time_zone="UTC", created_at=LONG_AGO)
    before = Transfer.objects.count()
    answer = post(client_of(poor.user), "/sessions", body_of(world, "cpu"))
    assert (answer.status_code, answer.json()["state"]) == (201, "starting")
    assert answer.json()["gpu"] is None
    assert Transfer.objects.count() == before
    rich = a_customer(100, group=world.alice.group)
    blocked = post(client_of(rich.user), "/sessions", body_of(world))
    assert (blocked.status_code, blocked.json()["code"], blocked.json()["gate"]) == (409, "budget_exceeded", 5)


@pytest.mark.parametrize("whose", ["group", "stranger", "unknown"])
def test_any_wallet_but_ones_own_is_forbidden(world, whose):
    wallets = {
        "group": lambda: Account.objects.get(group=world.alice.group).pk,
        "stranger": lambda: a_customer(5).wallet,
        "unknown": uuid4,
    }
    answer = post(client_of(world.alice.user), "/sessions", body_of(world, wallet=str(wallets[whose]())))
    assert (answer.status_code, answer.json()["code"], answer.json()["gate"]) == (403, "wallet_forbidden", 3)


def test_a_guests_create_is_forbidden(world):
    guest = a_user(world.alice.group, role="guest")
    answer = post(client_of(guest), "/sessions", body_of(world, "cpu"))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("header", ["Bearer abc", "Basic YWxpY2U6cGFzc3dvcmQ=", "Token abc"])
def test_a_signed_in_session_is_the_only_way_in(world, header):
    answer = Client().get("/api/v1/sessions", headers={"authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_the_preview_names_every_gate_and_changes_nothing(world):
    answer = post(client_of(world.alice.user), "/sessions/preview", body_of(world), key=None).json()
    assert answer["outcome"] == "placed"
    assert answer["hourly_credits"] == answer["hold_credits"] == "12.500000"
    assert [gate["gate"] for gate in answer["gates"]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert answer["placement"]["cards"] == [world.card.uuid]
    assert not Session.objects.exists()


def test_verbs_answer_202_and_what_a_state_does_not_allow_409_with_what_it_does(world):
    session = world.run()
    client = client_of(world.alice.user)
    restarted = post(client, f"/sessions/{session.pk}/resume", {}, key=None)
    assert (restarted.status_code, restarted.json()["code"]) == (409, "invalid_transition")
    assert "pause" in restarted.json()["facts"]["allowed"]
    paused = post(client, f"/sessions/{session.pk}/pause", {}, key=None)
    assert (paused.status_code, paused.json()["state"]) == (202, "pausing")
    world.gone(session)
    resumed = post(client, f"/sessions/{session.pk}/resume", {}, key=None)
    assert (resumed.status_code, resumed.json()["state"], resumed.json()["run"]) == (202, "starting", 2)


def test_an_administrator_needs_a_reason_for_somebody_elses_session(world):
    session = world.run()
    boss = client_of(a_user(world.alice.group, role="group_admin"))
    without = post(boss, f"/sessions/{session.pk}/stop", {}, key=None)
    assert (without.status_code, without.json()["code"]) == (400, "reason_required")
    told = post(boss, f"/sessions/{session.pk}/stop", {"reason": "the node is needed"}, key=None)
    assert (told.status_code, told.json()["reason"]) == (202, "admin")


def test_what_is_not_yours_does_not_exist(world):
    session = world.run()
    colleague = client_of(a_customer(5, group=world.alice.group).user)
    stranger = client_of(a_customer(5).user)
    for client in (colleague, stranger):
        for path in ("", "/timeline"):
            assert client.get(f"/api/v1/sessions/{session.pk}{path}").status_code == 404
        for verb in ("pause", "resume", "restart", "stop", "keep-alive", "stay-paused"):
            answer = post(client, f"/sessions/{session.pk}/{verb}", {"reason": "mine now"}, key=None)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert client.get("/api/v1/sessions").json()["results"] == []
    assert Session.objects.get(pk=session.pk).state == "running"


def test_lists_are_scoped_and_a_foreign_scope_does_not_exist(world):
    session = world.run()
    boss = client_of(a_user(world.alice.group, role="group_admin"))
    scope = f"group:{world.alice.group.pk}"
    assert [row["id"] for row in boss.get(f"/api/v1/sessions?scope={scope}").json()["results"]] == [str(session.pk)]
    assert boss.get("/api/v1/sessions").json()["results"] == []
    for foreign in ("all", f"organisation:{world.alice.group.organisation_id}", f"group:{uuid4()}", "nonsense"):
        assert boss.get(f"/api/v1/sessions?scope={foreign}").status_code == 404
    member = client_of(world.alice.user)
    assert member.get(f"/api/v1/sessions?scope={scope}").status_code == 404


def test_the_timeline_tells_states_and_money(world):
    session = world.run()
    rows = client_of(world.alice.user).get(f"/api/v1/sessions/{session.pk}/timeline").json()
    assert [row["to"] for row in rows] == ["running", "starting"]
    assert rows[-1]["held"] == "12.500000"


def test_the_queue_tells_place_reason_and_what_is_missing(world):
    world.create("exclusive")
    waiting = world.create("L")
    rows = client_of(world.alice.user).get("/api/v1/queue").json()["results"]
    assert [row["id"] for row in rows] == [str(waiting.pk)]
    queue = rows[0]["queue"]
    assert (queue["position"], queue["reason"], queue["basis"]) == (1, "not_now", "unknown")
    assert queue["missing"]


def test_only_an_administrator_sets_a_priority(world):
    world.create("exclusive")
    waiting = world.create("L")

    def patch(client: Client) -> Any:
        body = json.dumps({"priority": 5, "reason": "a deadline"})
        return client.patch(f"/api/v1/queue/{waiting.pk}", body, content_type="application/json")

    own = patch(client_of(world.alice.user))
    assert (own.status_code, own.json()["code"]) == (403, "forbidden")
    admin = client_of(a_user(world.alice.group, role="group_admin"))
    beyond = patch(admin)
    assert (beyond.status_code, beyond.json()["code"], list(beyond.json()["errors"])) == (
        403,
        "forbidden",
        ["priority"],
    )
    limit("group", "max_priority", 5, target=world.alice.group)
    boss = patch(admin)
    assert (boss.status_code, boss.json()["priority"]) == (200, 5)


def test_offerings_tell_price_room_and_line(world):
    world.create("L")
    rows = client_of(world.alice.user).get("/api/v1/offerings").json()["results"]
    tiers = rows[0]["tiers"]
    assert tiers["L"] == {
        "vram_mib": 20389,
        "core_percent": 25,
        "cards": 1,
        "hourly_credits": "12.500000",
        "free_now": 3,
        "queue_length": 0,
    }
    assert tiers["exclusive"]["free_now"] == 0


def test_me_tells_who_and_with_what(world):
    me = client_of(world.alice.user).get("/api/v1/me").json()
    assert me["user"]["email"] == world.alice.user.email
    assert me["groups"] == [{"id": str(world.alice.group.pk), "name": world.alice.group.name, "role": "member"}]
    assert me["wallet"]["balance"] == "1000.000000"
    assert me["super_admin"] is False


def test_effective_limits_name_their_source_and_use(world):
    world.create("L")
    client = client_of(world.alice.user)
    fields = client.get(f"/api/v1/policies/effective?group={world.alice.group.pk}").json()["fields"]
    assert fields["max_sessions"] == {"value": 8, "scope": "global", "used": 1, "remaining": 7}
    assert client.get("/api/v1/policies/effective?group=x").status_code == 400
    assert (
        client_of(a_customer(1).user).get(f"/api/v1/policies/effective?group={world.alice.group.pk}").status_code == 404
    )
    assert cr(1) == 1_000_000
