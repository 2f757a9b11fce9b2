"""Policies in admission, in the line and on what lives: which field refuses what, with which scope, and what a change does."""

from datetime import timedelta

import pytest

from accounts.models import AuditEntry
from cluster import services as cluster
from cluster.models import Card, Pool, PoolGrant
from gshare_core.errors import DomainError
from sessions_app import priorities, queries, queue
from sessions_app.models import QueueEntry, TimelineEntry
from sessions_app.previews import preview
from sessions_app.services import (
    Asked,
    pause_session,
    restart_session,
    resume_session,
    set_priority,
    stop_session,
)
from sessions_app.spec import lane_of
from tests.apps.sessions.world import fresh, limit
from tests.builders import a_customer, a_group, a_user, an_org_admin

pytestmark = pytest.mark.django_db


def close_cards(world, closed=True):
    Card.objects.filter(node=world.node).update(is_draining=closed)


def refusal(act, *args, **changes):
    with pytest.raises(DomainError) as refused:
        act(*args, **changes)
    return refused.value


def of(world, field, value, **kind):
    limit("group", field, value, target=world.alice.group, **kind)


def scope(world):
    return f"group:{world.alice.group.pk}"


# Every field, and the scopes that bind ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", ["max_sessions", "cpu_milli", "memory_mib", "scratch_gib", "vram_mib", "core_percent", "cards"]
)
@pytest.mark.parametrize("kind", ["per_user", "total"])
def test_zero_means_none_and_the_refusal_names_field_limit_use_and_scope(world, field, kind):
    of(world, field, 0, kind=kind)
    told = refusal(world.create, "exclusive")
    assert (told.code, told.gate, told.facts["field"]) == ("quota_exceeded", 4, field)
    assert (told.facts["limit"], told.facts["used"], told.facts["scope"]) == (0, 0, scope(world))


def test_max_queued_binds_only_who_would_have_to_wait(world):
    of(world, "max_queued", 0)
    world.create("M")
    close_cards(world)
    assert refusal(world.create, "M").facts["field"] == "max_queued"


def test_max_paused_binds_the_owners_own_pause_and_no_event(world):
    of(world, "max_paused", 0)
    session = world.run("M")
    assert refusal(pause_session, Asked(session.pk, world.alice.user)).facts["field"] == "max_paused"
    world.gone(session, "evicted")
    assert fresh(session).state == "paused"


@pytest.mark.parametrize(
    ("field", "wish"), [("allow_privileged", {"privileged": True}), ("allow_preemptible", {"preemptible": True})]
)
def test_rights_are_refused_where_a_policy_withholds_them(world, field, wish):
    of(world, field, 0)
    told = refusal(world.create, "cpu" if field == "allow_privileged" else "L", **wish)
    assert (told.code, told.facts["field"], told.facts["scope"]) == ("quota_exceeded", field, scope(world))
    of(world, field, 1)
    assert world.create("cpu" if field == "allow_privileged" else "L", **wish).state == "starting"


def test_a_groups_number_counts_the_use_in_that_group_and_a_users_own_counts_all(world):
    other = a_customer(1_000, group=a_group(world.alice.group.organisation), user=world.alice.user)
    limit("group", "max_sessions", 1, target=world.alice.group)
    world.create("S")
    world.create("S", customer=other)
    assert refusal(world.create, "S").facts["scope"] == scope(world)
    limit("user", "max_sessions", 2, target=world.alice.user)
    told = refusal(world.create, "S", customer=other)
    assert (told.facts["scope"], told.facts["used"]) == (f"user:{world.alice.user.pk}", 2)


def test_totals_of_group_and_organisation_bind_at_every_level_at_once(world):
    place = world.alice.group
    colleague = a_customer(1_000, group=place)
    neighbour = a_customer(1_000, group=a_group(place.organisation))
    limit("group", "max_sessions", 2, kind="total", target=place)
    limit("organisation", "max_sessions", 3, kind="total", target=place.organisation)
    world.create("S")
    world.create("S", customer=colleague)
    assert refusal(world.create, "S", customer=colleague).facts["scope"] == f"group:{place.pk}"
    world.create("S", customer=neighbour)
    told = refusal(world.create, "S", customer=neighbour)
    assert (told.facts["scope"], told.facts["used"]) == (f"organisation:{place.organisation_id}", 3)


# The shared pool --------------------------------------------------------------------------------------------------------


def test_without_shared_pool_only_granted_pools_are_used(world):
    of(world, "shared_pool", 0)
    told = refusal(world.create, "L")
    assert (told.code, told.gate, told.facts["field"]) == ("quota_exceeded", 4, "shared_pool")
    assert told.facts["scope"] == scope(world)
    assert preview(world.ask("L"), by=world.alice.user).outcome == "refused"
    assert refusal(world.create, "cpu").facts["field"] == "shared_pool"
    own = Pool.objects.create(cluster=world.cluster, name="own", is_shared=False)
    PoolGrant.objects.create(pool=own, group=world.alice.group)
    cluster.change_pool(by=None, pool_id=own.pk, node_ids=[world.node.pk])
    assert world.create("L").state == "starting"


def test_who_may_not_use_the_shared_pool_waits_in_another_lane_than_who_may(world):
    colleague = a_customer(1_000, group=world.alice.group)
    own = Pool.objects.create(cluster=world.cluster, name="own", is_shared=False)
    PoolGrant.objects.create(pool=own, group=world.alice.group)
    cluster.change_pool(by=None, pool_id=own.pk, node_ids=[world.node.pk])
    close_cards(world)
    limit("user", "shared_pool", 0, target=colleague.user)
    mine, theirs = world.create("L"), world.create("L", customer=colleague)
    lanes = QueueEntry.objects.in_bulk()
    assert lanes[mine.pk].lane == lane_of(mine) != lanes[theirs.pk].lane == lane_of(theirs)


def test_a_withdrawn_shared_pool_keeps_who_waits_at_his_place_says_why_and_lets_what_runs_run(world):
    running = world.run("L")
    close_cards(world)
    waiting = world.create("L")
    of(world, "shared_pool", 0)
    close_cards(world, closed=False)
    queue.drain()
    entry = QueueEntry.objects.get(session=waiting)
    assert (entry.reason, fresh(running).state) == ("quota_exceeded", "running")
    assert "shared pool" in entry.detail
    assert entry.lane == lane_of(waiting)
    of(world, "shared_pool", 1)
    queue.drain()
    assert fresh(waiting).state == "starting"


# What lives when a policy changes ---------------------------------------------------------------------------------------


def test_a_lower_limit_ends_nothing_and_binds_the_next_request(world):
    first, second = world.run("S"), world.run("S")
    of(world, "max_sessions", 1)
    world.pass_time(timedelta(minutes=1), first, second)
    queue.drain()
    assert {fresh(first).state, fresh(second).state} == {"running"}
    assert refusal(world.create, "S").facts["used"] == 2
    pause_session(Asked(second.pk, world.alice.user))
    world.gone(second)
    assert refusal(resume_session, Asked(second.pk, world.alice.user)).code == "quota_exceeded"
    stop_session(Asked(first.pk, world.alice.user))
    resume_session(Asked(second.pk, world.alice.user))
    assert fresh(second).state == "starting"


def test_who_waits_is_judged_by_the_new_values_keeps_his_place_and_hold_and_says_why(world):
    close_cards(world)
    waiting, behind = world.create("L"), world.create("M", customer=a_customer(1_000))
    place = QueueEntry.objects.get(session=waiting)
    limit("user", "vram_mib", 1_024, target=world.alice.user)
    close_cards(world, closed=False)
    queue.drain()
    entry = QueueEntry.objects.get(session=waiting)
    assert (entry.reason, entry.order_at) == ("quota_exceeded", place.order_at)
    assert "1024" in entry.detail
    assert fresh(behind).state == "starting"
    limit("user", "vram_mib", 81_559, target=world.alice.user)
    queue.drain()
    assert fresh(waiting).state == "starting"


def test_a_withdrawn_privilege_ends_nothing_but_begins_no_pod_any_more(world):
    of(world, "allow_privileged", 1)
    session = world.run("cpu", privileged=True)
    of(world, "allow_privileged", 0)
    assert fresh(session).state == "running"
    told = refusal(restart_session, Asked(session.pk, world.alice.user))
    assert (told.code, told.facts["field"]) == ("quota_exceeded", "allow_privileged")
    assert "new session" in told.remedy
    pause_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    assert refusal(resume_session, Asked(session.pk, world.alice.user)).facts["field"] == "allow_privileged"
    assert fresh(session).state == "paused"


def test_withdrawn_preemption_leaves_who_waits_in_line_with_the_reason(world):
    close_cards(world)
    waiting = world.create("L", preemptible=True)
    of(world, "allow_preemptible", 0)
    close_cards(world, closed=False)
    queue.drain()
    entry = QueueEntry.objects.get(session=waiting)
    assert (entry.reason, fresh(waiting).state) == ("quota_exceeded", "queued")
    assert "Preemptible" in entry.detail


# Priority ---------------------------------------------------------------------------------------------------------------


def told_of(session):
    rows = TimelineEntry.objects.filter(session=session, event="priority").order_by("id")
    return [(row.reason, row.detail) for row in rows]


def test_a_lowered_max_priority_lowers_what_waits_and_the_timeline_says_so(world):
    of(world, "max_priority", 5)
    close_cards(world)
    first, second = world.create("L"), world.create("L", priority=5)
    assert queries.places([second.pk])[second.pk].position == 1
    of(world, "max_priority", 2)
    assert priorities.follow_policies() == 1
    assert priorities.follow_policies() == 0
    assert (fresh(second).priority, QueueEntry.objects.get(session=second).priority) == (2, 2)
    of(world, "max_priority", 0)
    queue.drain()
    assert [queries.places([session.pk])[session.pk].position for session in (first, second)] == [1, 2]
    assert told_of(second) == [("policy", "5 → 2"), ("policy", "2 → 0")]


def test_an_administrator_gives_at_most_what_the_owners_policy_allows_and_only_super_administrators_more(world):
    of(world, "max_priority", 5)
    close_cards(world)
    waiting = world.create("L")
    group_admin = a_user(world.alice.group, "group_admin")
    org_admin = an_org_admin(world.alice.group.organisation)
    root = a_user(is_super_admin=True)
    set_priority(Asked(waiting.pk, group_admin, reason="a deadline"), 5)
    for admin in (group_admin, org_admin):
        told = refusal(set_priority, Asked(waiting.pk, admin, reason="a deadline"), 6)
        assert (told.code, told.facts) == (
            "forbidden",
            {"field": "max_priority", "limit": 5, "scope": scope(world)},
        )
        assert list(told.errors) == ["priority"]
    set_priority(Asked(waiting.pk, root, reason="a deadline"), 9)
    assert (fresh(waiting).priority, fresh(waiting).priority_granted) == (9, True)
    assert AuditEntry.objects.filter(act="session.priority").count() == 2
    assert told_of(waiting) == [("admin", "0 → 5"), ("admin", "5 → 9")]


def test_what_a_super_administrator_granted_outlives_a_lower_policy_and_ends_with_the_wait(world):
    close_cards(world)
    waiting = world.create("L")
    set_priority(Asked(waiting.pk, a_user(is_super_admin=True), reason="a deadline"), 9)
    of(world, "max_priority", 0)
    queue.drain()
    assert (fresh(waiting).priority, QueueEntry.objects.get(session=waiting).priority) == (9, 9)
    run_pause_resume(world, waiting)
    assert (fresh(waiting).priority, fresh(waiting).priority_granted) == (0, False)


def run_pause_resume(world, session):
    """Let it run, pause it, resume it."""
    close_cards(world, closed=False)
    queue.drain()
    world.ready(fresh(session))
    pause_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    resume_session(Asked(session.pk, world.alice.user))


def test_trap_55_nobody_not_even_a_super_administrator_lifts_his_own_session_above_his_limit(world):
    world.alice.user.is_super_admin = True
    world.alice.user.save()
    close_cards(world)
    waiting = world.create("L")
    assert refusal(set_priority, Asked(waiting.pk, world.alice.user), 1).code == "forbidden"
