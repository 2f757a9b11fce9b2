"""The policies page: effective values with their source, setting one level above, and what other numbers would mean."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import AuditEntry, PolicyValue
from tests.apps.sessions.world import World
from tests.builders import a_limit
from tests.web.sessions.admin_world import Administered, administered
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def us(world: World) -> Administered:
    return administered(world)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def scope_of(us: Administered, kind: str) -> str:
    group = us.world.alice.group
    return {
        "global": "global",
        "organisation": f"organisation:{group.organisation_id}",
        "group": f"group:{group.pk}",
        "user": f"user:{us.world.alice.user.pk}",
    }[kind]


def row(answer: Any, field: str) -> dict[str, Any]:
    return next(row for row in answer.context["rows"] if row["field"] == field)


@pytest.mark.parametrize(
    ("role", "seen", "settable"),
    [
        ("super_admin", {"global", "organisation", "group", "user"}, {"global", "organisation", "group", "user"}),
        ("org_admin", {"global", "organisation", "group", "user"}, {"group", "user"}),
        ("group_admin", {"global", "group", "user"}, {"user"}),
    ],
)
def test_each_role_reads_its_scopes_and_sets_those_one_level_below(
    us: Administered, role: str, seen: set[str], settable: set[str]
) -> None:
    client = browser(us.administrators[role])
    answers = {
        kind: client.get("/admin/policies/", {"scope": scope_of(us, kind)})
        for kind in ("global", "organisation", "group", "user")
    }
    assert {kind for kind, answer in answers.items() if answer.status_code == 200} == seen
    assert {kind for kind in seen if answers[kind].context["may_set"]} == settable


def test_foreign_and_malformed_scopes_do_not_exist(us: Administered) -> None:
    client = browser(us.org_admin)
    for scope in (f"group:{us.stranger.group.pk}", f"user:{us.stranger.user.pk}", "group:nonsense", "planet:1"):
        assert client.get("/admin/policies/", {"scope": scope}).status_code == 404, scope


def test_a_value_in_force_names_who_supplies_it(us: Administered) -> None:
    group = us.world.alice.group
    a_limit(group.organisation, max_queued=7)
    a_limit(group, max_paused=3)
    page = browser(us.root).get("/admin/policies/", {"scope": f"group:{group.pk}"})
    assert (row(page, "max_paused")["in_force"], row(page, "max_paused")["source"]) == ("3", group.name)
    assert (row(page, "max_queued")["in_force"], row(page, "max_queued")["source"]) == ("7", group.organisation.name)
    assert row(page, "max_priority")["source"] == "General policy"


def test_setting_sends_what_differs_is_audited_and_empty_inherits_again(us: Administered) -> None:
    scope = scope_of(us, "group")
    client, address = browser(us.org_admin), f"/admin/policies/?scope={scope}"
    client.post(address, {"act": "save", "per_user-max_sessions": "2", "total-vram_mib": "40960"})
    values = set(PolicyValue.objects.filter(policy__group=us.world.alice.group).values_list("kind", "field", "value"))
    assert values == {("per_user", "max_sessions", 2), ("total", "vram_mib", 40960)}
    entry = AuditEntry.objects.get(act="policy.set", actor_id=us.org_admin.pk)
    assert entry.after == {"per_user": {"max_sessions": 2}, "totals": {"vram_mib": 40960}}
    client.post(address, {"act": "save", "per_user-max_sessions": ""})
    assert not PolicyValue.objects.filter(policy__group=us.world.alice.group, field="max_sessions").exists()


def test_a_form_that_was_read_before_another_saved_reverts_nothing_and_tells_of_a_conflict(us: Administered) -> None:
    group = us.world.alice.group
    a_limit(group, max_sessions=5, max_queued=7)
    client, address = browser(us.org_admin), f"/admin/policies/?scope=group:{group.pk}"
    page = client.get(address)
    read = {
        f"{prefix}per_user-{field}": row(page, field)[f"{'was_' if prefix else ''}per_user"]
        for field in ("max_sessions", "max_queued", "max_paused")
        for prefix in ("", "was-")
    }
    assert 'name="was-per_user-max_sessions" value="5"' in text(page)
    browser(us.root).post(address, {"act": "save", "per_user-max_sessions": "9", "per_user-max_queued": ""})

    saved = client.post(address, {**read, "act": "save", "per_user-max_paused": "3"})
    assert saved.status_code in (302, 303, 204)
    assert values_of(group) == {"max_sessions": 9, "max_paused": 3}  # his own field only

    both = client.post(address, {**read, "act": "save", "per_user-max_sessions": "2", "per_user-max_queued": "8"})
    assert both.status_code == 422
    assert row(both, "max_sessions")["per_user_errors"] == [
        "Somebody else has set this to 9 meanwhile. Look at it, then set it again."
    ]
    assert row(both, "max_queued")["per_user_errors"] == [
        "Somebody else has set this to inherit meanwhile. Look at it, then set it again."
    ]
    assert values_of(group) == {"max_sessions": 9, "max_paused": 3}

    shown = row(both, "max_sessions")
    again = {"per_user-max_sessions": shown["per_user"], "was-per_user-max_sessions": shown["was_per_user"]}
    client.post(address, {**again, "act": "save"})
    assert values_of(group) == {"max_sessions": 2, "max_paused": 3}


def values_of(group: Any) -> dict[str, int]:
    return dict(PolicyValue.objects.filter(policy__group=group).values_list("field", "value"))


def test_who_may_not_set_it_is_refused_whatever_is_sent(us: Administered) -> None:
    scope = scope_of(us, "group")
    answer = browser(us.group_admin).post(
        f"/admin/policies/?scope={scope}", {"act": "save", "per_user-max_sessions": "9"}
    )
    assert answer.status_code == 422
    assert not PolicyValue.objects.filter(policy__group=us.world.alice.group).exists()


def test_what_is_reserved_and_what_is_no_number_stay_on_the_form_at_their_field(us: Administered) -> None:
    scope = scope_of(us, "group")
    client, address = browser(us.org_admin), f"/admin/policies/?scope={scope}"
    reserved = client.post(address, {"act": "save", "per_user-max_priority": "5"})
    assert reserved.status_code == 422
    assert row(reserved, "max_priority")["per_user_errors"] == ["You may set this to 0 only."]
    wrong = client.post(address, {"act": "save", "per_user-max_sessions": "many"})
    assert row(wrong, "max_sessions")["per_user_errors"] == ["Give a whole number, or nothing to inherit."]
    assert row(wrong, "max_sessions")["per_user"] == "many"


def test_the_what_if_counts_who_stands_above_and_changes_nothing(us: Administered) -> None:
    group = us.world.alice.group
    a_limit(group, max_sessions=5)
    us.world.run("S", name="second")
    us.world.run("S", name="third")
    before = set(PolicyValue.objects.values_list("policy", "kind", "field", "value"))
    sent = {"act": "check", "per_user-max_sessions": "1", "total-max_sessions": "10", "per_user-idle_timeout_min": "30"}
    page = browser(us.root).post(f"/admin/policies/?scope=group:{group.pk}", sent)
    told = {(one["name"], one["kind"]): one for one in page.context["what_if"]}
    people = told["Sessions", "each person"]
    assert (people["before"], people["after"]) == ("5", "1")
    assert people["effect"].startswith("1 person uses more now")
    assert told["Sessions", "all together"]["effect"] == "3 are used now"
    assert told["Paused when idle for", "each person"]["after"] == "30 min"
    assert set(PolicyValue.objects.values_list("policy", "kind", "field", "value")) == before


def test_the_what_if_of_one_person_looks_at_his_own_use(us: Administered) -> None:
    sent = {"act": "check", "per_user-max_sessions": "0"}
    page = browser(us.root).post(f"/admin/policies/?scope={scope_of(us, 'user')}", sent)
    assert "1 are used now: what runs goes on" in page.context["what_if"][0]["effect"]


def test_the_list_holds_the_policies_of_the_scope_by_name(us: Administered) -> None:
    a_limit(us.world.alice.group, max_sessions=5)
    a_limit(us.stranger.group, max_sessions=5)
    names = {row["name"] for row in browser(us.org_admin).get("/admin/policies/").context["rows"]}
    assert names == {"General policy", us.world.alice.group.name}
    only = browser(us.root).get("/admin/policies/?kind=group").context["rows"]
    assert {row["name"] for row in only} == {us.world.alice.group.name, us.stranger.group.name}
