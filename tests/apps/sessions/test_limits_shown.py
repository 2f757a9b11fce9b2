"""Limits as people and programs see them: with the use that they are really held against, and who set them."""

import pytest

from accounts.domain.policies import FIELDS
from cluster import services as cluster
from cluster.services import VolumeWish
from sessions_app.overview import limits_in_force
from sessions_app.views.limits import all_rows
from tests.apps.sessions.world import limit
from tests.builders import a_customer, a_group, a_user, an_org_admin
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db


def own(world, field):
    found = limits_in_force(world.alice.user.pk, world.alice.group.pk)
    return next(use for use in found.fields if use.field == field)


def effective(person, **parameters):
    return browser(person).get("/api/v1/policies/effective", parameters)


def test_storage_in_use_is_what_the_volumes_take(world):
    wish = VolumeWish(name="home", kind="home", access="rwo", size_gib=20, cluster_id=world.cluster.pk)
    cluster.create_volume(by=world.alice.user, wish=wish)
    use = own(world, "storage_gib")
    assert (use.used, use.value, use.remaining) == (20, 200, 180)
    limit("organisation", "storage_gib", 30, kind="total", target=world.alice.group.organisation)
    assert own(world, "storage_gib").remaining == 10


def test_the_answer_has_every_field_with_value_scope_use_and_rest(world):
    group = world.alice.group
    world.create("M")
    limit("group", "max_sessions", 4, target=group)
    answer = effective(world.alice.user, group=group.pk).json()
    assert answer["fields"].keys() == FIELDS.keys()
    assert answer["fields"]["max_sessions"] == {"value": 4, "scope": f"group:{group.pk}", "used": 1, "remaining": 3}
    assert answer["fields"]["idle_timeout_min"] == {"value": 60, "scope": "global", "used": None, "remaining": None}
    assert answer["totals"] == []


def test_what_is_left_is_what_every_bound_leaves_and_the_totals_say_why(world):
    group = world.alice.group
    colleague = a_customer(1_000, group=group)
    limit("group", "max_sessions", 2, kind="total", target=group)
    world.create("S", customer=colleague)
    world.create("S", customer=colleague)
    answer = effective(world.alice.user, group=group.pk).json()
    assert answer["fields"]["max_sessions"] == {"value": 8, "scope": "global", "used": 0, "remaining": 0}
    assert answer["totals"] == [
        {"field": "max_sessions", "value": 2, "scope": f"group:{group.pk}", "used": 2, "remaining": 0}
    ]


def test_a_groups_number_shows_the_use_in_that_group_alone(world):
    other = a_customer(1_000, group=a_group(world.alice.group.organisation), user=world.alice.user)
    limit("group", "max_sessions", 4, target=world.alice.group)
    world.create("S", customer=other)
    assert own(world, "max_sessions").used == 0
    assert effective(world.alice.user).json()["fields"]["max_sessions"]["used"] == 1


def test_others_limits_are_for_their_administrators(world):
    group, alice = world.alice.group, world.alice.user
    stranger, peer = a_user(a_group()), a_user(group)
    boss, head = a_user(group, "group_admin"), an_org_admin(group.organisation)
    for person, status in [(stranger, 404), (peer, 404), (boss, 200), (head, 200)]:
        assert effective(person, user=alice.pk, group=group.pk).status_code == status
        assert effective(person, user=alice.pk).status_code == status
    assert effective(stranger, group=group.pk).status_code == 404
    assert effective(boss, user="x").status_code == 400


def test_the_console_says_value_use_and_who_set_it(world):
    group, user = world.alice.group, world.alice.user
    limit("group", "max_sessions", 4, target=group)
    limit("organisation", "cards", 2, target=group.organisation)
    limit("user", "max_priority", 3, target=user)
    limit("group", "cpu_milli", 64_000, kind="total", target=group)
    world.create("M")
    shown = {(row["name"], bool(row.get("total"))): row for row in all_rows(user.pk, group.pk)}
    assert len(shown) == len(FIELDS) + 1
    sessions, total = shown["Sessions", False], shown["CPU", True]
    assert (sessions["value_text"], sessions["limit_text"]) == ("1", "4")
    assert sessions["scope_text"] == f"the group {group.name}"
    assert shown["Whole cards", False]["scope_text"] == f"the organisation {group.organisation.name}"
    assert (shown["Highest priority", False]["limit_text"], shown["Highest priority", False]["scope_text"]) == (
        "3",
        "an administrator, for you alone",
    )
    assert shown["Paused when idle for", False]["limit_text"] == "1 h"
    assert shown["Longest run", False]["limit_text"] == "no end"
    assert (total["value_text"], total["limit_text"]) == ("4", "64 cores")
    page = browser(user).get("/account/").content.decode()
    assert f"the group {group.name}" in page
    assert "all together" in page


def test_who_is_in_several_groups_chooses_whose_limits_he_sees(world):
    first, user = world.alice.group, world.alice.user
    second = a_group(first.organisation)
    a_customer(group=second, user=user)
    limit("group", "max_sessions", 3, target=second)
    page = browser(user).get(f"/account/?group={second.pk}").content.decode()
    assert f"the group {second.name}" in page
    foreign = a_group()
    assert foreign.name not in browser(user).get(f"/account/?group={foreign.pk}").content.decode()
    assert f"?group={first.pk}" in page
