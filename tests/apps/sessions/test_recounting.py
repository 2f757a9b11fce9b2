"""Counters and places in line that were damaged are found, told, and put right; what agrees is left alone."""

from io import StringIO

import pytest
import structlog
from django.core.management import CommandError, call_command
from prometheus_client import REGISTRY

from cluster.models import Card
from sessions_app import queue, recounting
from sessions_app.models import LaneTally, QueueEntry, Session, Usage
from sessions_app.services import Asked, pause_session
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db


@pytest.fixture
def lively(world):
    """One runs, one is pausing, one waits, one has ended."""
    running = world.run("M")
    pausing = world.run("S")
    pause_session(Asked(pausing.pk, world.alice.user))
    ended = world.run("cpu")
    world.gone(ended, "evicted")
    Card.objects.filter(node=world.node).update(is_draining=True)
    return {"running": running, "pausing": pausing, "queued": world.create("L"), "world": world}


def user_scope(lively):
    return f"user:{lively['world'].alice.user.pk}"


def check():
    """Exit code and what was said."""
    said = StringIO()
    try:
        call_command("reconcile", "--check", stdout=said, stderr=said)
    except CommandError:
        return 1, said.getvalue()
    return 0, said.getvalue()


def test_what_agrees_is_left_alone_and_says_so(lively):
    assert recounting.differences() == []
    assert check()[0] == 0
    assert everything_agrees()


def test_a_check_names_each_difference_exits_one_and_changes_nothing(lively):
    Usage.objects.filter(scope=user_scope(lively), field="max_sessions").update(used=7)
    code, said = check()
    assert code == 1
    assert f"usage {user_scope(lively)} max_sessions: stored 7, counted 1" in said
    assert check()[0] == 1


def test_a_lanes_tally_that_is_off_is_told_and_put_right(lively):
    lane = QueueEntry.objects.get(session=lively["queued"]).lane
    LaneTally.objects.create(lane=lane, change=2)
    LaneTally.objects.create(lane="of nobody", change=-1)
    code, said = check()
    assert code == 1
    assert f"lane {lane} length: stored 3, counted 1" in said
    recounting.repair()
    assert recounting.differences() == []
    assert everything_agrees()


def test_counters_that_drifted_vanished_or_are_of_nobody_are_counted_anew(lively):
    Usage.objects.filter(field="vram_mib").update(used=1)
    Usage.objects.filter(field="max_paused").delete()
    Usage.objects.create(scope="group:01980000-0000-7000-8000-000000000000", field="cards", used=3)
    call_command("reconcile", stdout=StringIO(), stderr=StringIO())
    assert recounting.differences() == []
    assert everything_agrees()
    assert Usage.objects.get(scope=user_scope(lively), field="max_paused").used == 2


def test_who_waits_without_a_place_gets_his_old_one_and_who_does_not_wait_has_none(lively):
    waiting, running = lively["queued"], lively["running"]
    place = QueueEntry.objects.get(session=waiting)
    QueueEntry.objects.filter(session=waiting).delete()
    QueueEntry.objects.create(session=running, lane="x", enqueued_at=place.order_at, order_at=place.order_at)
    assert check()[0] == 1
    recounting.repair()
    entry = QueueEntry.objects.get()
    assert (entry.session_id, entry.lane, entry.order_at) == (waiting.pk, place.lane, waiting.line_at)
    Card.objects.update(is_draining=False)
    queue.drain()
    assert Session.objects.get(pk=waiting.pk).state == "starting"


def test_a_place_of_another_priority_than_its_session_is_put_right(lively):
    QueueEntry.objects.update(priority=4)
    assert [difference.what for difference in recounting.repair()] == ["queue"]
    assert QueueEntry.objects.get().priority == 0


def test_the_tick_raises_the_alarm_once_and_repairs(lively):
    Usage.objects.filter(scope=user_scope(lively), field="cpu_milli").update(used=0)
    before = REGISTRY.get_sample_value("gshare_recount_differences_total", {"what": "usage"}) or 0
    with structlog.testing.capture_logs() as said:
        assert recounting.watch() == 1
        assert recounting.watch() == 0
    alarms = [entry for entry in said if entry["event"] == "recount_differs"]
    assert [(alarm["log_level"], alarm["field"], alarm["stored"], alarm["counted"]) for alarm in alarms] == [
        ("error", "cpu_milli", 0, 4_000)
    ]
    assert REGISTRY.get_sample_value("gshare_recount_differences_total", {"what": "usage"}) == before + 1


def test_a_comparison_is_one_statement(lively, django_assert_num_queries):
    with django_assert_num_queries(1):
        recounting.differences()


def test_a_counter_that_vanished_under_a_living_process_is_made_again_and_counts(world):
    first = world.create("S")
    Usage.objects.all().delete()
    second = world.create("S")
    assert {first.state, second.state} == {"starting"}
    own = Usage.objects.filter(scope=f"user:{world.alice.user.pk}", field="max_sessions")
    assert [row.used for row in own] == [1]
