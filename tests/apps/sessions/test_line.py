"""The line when the world around it changes: pools that come, rows that cannot be read, volumes that bind a session."""

from datetime import timedelta

import pytest

from accounts.models import AuditEntry
from cluster import services as cluster
from cluster.models import Card, Pool
from cluster.services import VolumeWish
from sessions_app import queries, queue
from sessions_app.models import QueueEntry, Session
from sessions_app.services import Asked, keep_alive, pause_session, resume_session, set_priority
from sessions_app.spec import lane_of
from tests.apps.sessions.world import MountAsk, fresh
from tests.builders import a_cluster, a_user

pytestmark = pytest.mark.django_db


def close_cards(world, closed=True):
    Card.objects.filter(node=world.node).update(is_draining=closed)


def a_volume(world, name):
    wish = VolumeWish(name=name, kind="data", access="rwo", size_gib=1, group_id=None, cluster_id=world.cluster.pk)
    return cluster.create_volume(by=world.alice.user, wish=wish)


def test_who_waits_keeps_its_place_before_newcomers_when_a_pool_is_added(world):
    close_cards(world)
    first = world.create("L")
    before = QueueEntry.objects.get(session=first).lane
    Pool.objects.create(cluster=world.cluster, name="more", is_shared=True)
    queue.drain()
    entry = QueueEntry.objects.get(session=first)
    assert entry.lane == lane_of(first) != before
    close_cards(world, closed=False)
    second = world.create("L")
    assert (fresh(second).state, QueueEntry.objects.get(session=second).lane) == ("queued", entry.lane)
    queue.drain()
    assert [fresh(session).state for session in (first, second)] == ["starting", "starting"]


def test_a_start_that_failed_goes_back_to_the_lane_of_its_volumes_cluster(world):
    a_cluster("other")
    failed = world.create("L", mounts=(MountAsk(a_volume(world, "one").pk, "/data", "rw"),))
    close_cards(world)
    world.gone(failed, "node_lost")
    newcomer = world.create("L")
    lanes = QueueEntry.objects.in_bulk()
    assert lanes[failed.pk].lane != lanes[newcomer.pk].lane
    same = world.create("L", mounts=(MountAsk(a_volume(world, "two").pk, "/data", "rw"),))
    assert QueueEntry.objects.get(session=same).lane == lanes[failed.pk].lane


def test_a_row_that_cannot_be_read_stops_nobody_behind_it(world):
    close_cards(world)
    broken, behind = world.create("L"), world.create("L")
    Session.objects.filter(pk=broken.pk).update(mounts=[{"path": "/data"}])
    close_cards(world, closed=False)
    assert queue.drain() == 1
    assert [fresh(session).state for session in (broken, behind)] == ["queued", "starting"]


def test_an_administrators_resume_and_keep_alive_leave_a_trace_with_what_they_did(world):
    root = a_user(is_super_admin=True)
    session = world.run("L")
    keep_alive(Asked(session.pk, root, reason="asked by phone"))
    pause_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    resume_session(Asked(session.pk, root, reason="asked by phone"))
    acts = AuditEntry.objects.filter(target_id=session.pk).values_list("act", flat=True)
    assert sorted(acts) == ["session.keep_alive", "session.resume"]


def test_a_priority_that_was_given_moves_a_session_ahead_lets_it_leave_the_line_and_ends_with_the_wait(world):
    root = a_user(is_super_admin=True)
    close_cards(world)
    first, second = world.create("L"), world.create("L")
    set_priority(Asked(second.pk, root, reason="a deadline"), 5)
    assert [queries.places([session.pk])[session.pk].position for session in (first, second)] == [2, 1]
    close_cards(world, closed=False)
    queue.drain()
    world.ready(fresh(second))
    assert fresh(second).state == "running"
    pause_session(Asked(second.pk, world.alice.user))
    world.gone(second)
    resume_session(Asked(second.pk, world.alice.user))
    assert (fresh(second).state, fresh(second).priority) == ("starting", 0)


def test_who_joins_late_by_pools_that_changed_meanwhile_is_moved_too(world):
    queue.drain()
    Pool.objects.create(cluster=world.cluster, name="more", is_shared=True)
    queue.drain()
    close_cards(world)
    late = world.create("L")
    lane = QueueEntry.objects.get(session=late).lane
    QueueEntry.objects.filter(session=late).update(lane="read before the change")
    world.pass_time(timedelta(minutes=1))
    queue.drain()
    assert QueueEntry.objects.get(session=late).lane == lane
