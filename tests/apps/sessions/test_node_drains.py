"""A node that is emptied: what runs there starts elsewhere or is stopped, whoever dies on the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from accounts.models import Notification
from cluster import services as cluster
from cluster.models import Card, Claim, Node, NodeDrain
from sessions_app import draining, queue, reconciler
from sessions_app.models import Run, Session, TimelineEntry
from sessions_app.services import Asked, pause_session, restart_session
from tests.apps.sessions.world import MODEL, fresh, states
from tests.builders import a_node
from tests.dying import every_way_to_die
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db
WHY = "a fan is broken"


@pytest.fixture
def second(world) -> Node:
    """Another node with a card of the offering, closed until it is needed."""
    node = a_node(world.cluster, "gpu-02", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    cluster.cordon_node(by=None, node_id=node.pk, cordoned=True)
    return node


def drain(world, mode: str = "reschedule") -> None:
    cluster.drain_node(by=None, node_id=world.node.pk, mode=mode, reason=WHY)


def move_on() -> None:
    """What the worker does by itself, as often as it takes."""
    for _ in range(3):
        draining.drain()
        reconciler.reconcile()
        queue.drain()


def where(session: Session) -> str:
    return Run.objects.get(session=session, number=fresh(session).run_number).node


def open_again(node: Node) -> None:
    cluster.cordon_node(by=None, node_id=node.pk, cordoned=False)


def test_what_runs_starts_elsewhere_and_its_owner_reads_why(world, second):
    running, plain = world.run("M"), world.run("cpu")
    drain(world)
    open_again(second)
    assert draining.drain() == 2
    assert draining.drain() == 0, "who leaves is asked once"
    assert [(fresh(one).state, fresh(one).reason, fresh(one).detail) for one in (running, plain)] == [
        ("pausing", "drained", WHY)
    ] * 2
    for session in (running, plain):
        world.gone(session)
    move_on()
    assert states(running, plain) == ["starting"] * 2
    assert [where(one) for one in (running, plain)] == ["gpu-02"] * 2
    told = Notification.objects.get(title__contains=running.name)
    assert WHY in told.body
    assert told.link == f"/sessions/{running.pk}/"
    assert everything_agrees()


def test_who_finds_no_room_elsewhere_waits_in_line_and_starts_when_there_is_some(world, second):
    running = world.run("M")
    drain(world)
    move_on()
    world.gone(running)
    move_on()
    assert fresh(running).state == "queued"
    open_again(second)
    move_on()
    assert (fresh(running).state, where(running)) == ("starting", "gpu-02")


def test_a_start_goes_back_in_line_at_its_old_place_with_its_hold(world, second):
    starting = world.create("M")
    held = starting.timeline.get(event="placed").held
    world.time.advance(timedelta(minutes=1))
    drain(world)
    draining.drain()
    assert (fresh(starting).state, fresh(starting).misplaced) == ("starting", True)
    assert draining.drain() == 0
    world.gone(starting)
    assert fresh(starting).state == "queued"
    open_again(second)
    move_on()
    assert (fresh(starting).state, where(starting)) == ("starting", "gpu-02")
    assert held > 0
    assert fresh(starting).line_at == starting.line_at
    assert fresh(starting).failed_starts == 0
    assert everything_agrees()


def test_a_restart_does_not_come_up_there_again(world, second):
    running = world.run("M")
    restart_session(Asked(running.pk, world.alice.user))
    drain(world)
    draining.drain()
    open_again(second)
    world.gone(running)
    move_on()
    assert (fresh(running).state, where(running)) == ("starting", "gpu-02")


def test_with_stop_everything_ends_and_volumes_are_spoken_of(world):
    running, starting = world.run("M"), world.create("S")
    paused = world.run("S")
    pause_session(Asked(paused.pk, world.alice.user))
    drain(world, "stop")
    draining.drain()
    assert states(running, starting, paused) == ["stopping", "stopping", "pausing"]
    for session in (running, starting, paused):
        world.gone(session)
    assert states(running, starting, paused) == ["stopped", "stopped", "paused"], "who pauses already keeps his session"
    assert fresh(running).reason == "drained"
    assert "volumes is kept" in Notification.objects.get(title__contains=running.name).body
    assert everything_agrees()


@pytest.mark.parametrize("mode", ["reschedule", "stop"])
def test_trap_33_a_drain_that_is_killed_anywhere_goes_on_and_asks_everybody_once(world, second, mode):
    there = [world.run("M"), world.run("cpu"), world.create("S")]
    drain(world, mode)
    every_way_to_die(draining.drain, lambda: None)
    asked = TimelineEntry.objects.filter(reason="drained", event__in=["pause", "stop", "misplaced"])
    assert sorted(asked.values_list("session_id", flat=True)) == sorted(session.pk for session in there)
    assert Notification.objects.filter(kind="session_drained").count() == 3
    for session in there:
        world.gone(session)
    open_again(second)
    move_on()
    wanted = {"reschedule": "starting", "stop": "stopped"}[mode]
    assert states(*there) == [wanted] * 3
    assert not Claim.objects.holding().filter(node=world.node).exists()
    assert everything_agrees()
    world.time.advance(timedelta(minutes=6))
    every_way_to_die(draining.drain, lambda: None)
    assert not NodeDrain.objects.filter(closed_at=None).exists()
    world.node.refresh_from_db()
    assert world.node.is_cordoned, "an empty node stays out of use until it is used again"


def test_asking_is_killed_anywhere_and_no_node_is_drained_that_is_not_cordoned(world):
    def check() -> None:
        asked = NodeDrain.objects.filter(closed_at=None).exists()
        assert Node.objects.get(pk=world.node.pk).is_cordoned == asked

    assert every_way_to_die(lambda: drain(world), check) > 3
    assert NodeDrain.objects.count() == 1


def test_a_node_that_is_used_again_lets_go_of_nobody_more(world):
    running = world.run("M")
    drain(world)
    seen: list[str] = []

    def use_again(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        if "FOR NO KEY UPDATE" in sql and not seen:  # the pass has found the session and is about to look at it again
            seen.append(sql)
            NodeDrain.objects.update(closed_at=world.time.now())
        return execute(sql, *args)

    with connection.execute_wrapper(use_again):
        assert draining.drain() == 0
    assert seen
    assert fresh(running).state == "running"


def test_a_drain_ends_only_when_nothing_holds_the_node_any_more(world):
    running = world.run("M")
    drain(world, "stop")
    draining.drain()
    world.time.advance(timedelta(minutes=10))
    draining.drain()
    assert NodeDrain.objects.get().closed_at is None
    world.gone(running)
    draining.drain()
    assert NodeDrain.objects.get().closed_at is not None


def test_who_was_lost_on_a_silent_node_starts_elsewhere_and_the_card_stays_blocked(world, second):
    running = world.run("M")
    Node.objects.filter(pk=world.node.pk).update(is_ready=False, not_ready_since=world.time.now())
    world.time.advance(timedelta(minutes=6))
    reconciler.reconcile()
    assert fresh(running).state == "lost"
    drain(world)
    open_again(second)
    draining.drain()
    world.time.advance(timedelta(minutes=4))
    move_on()
    assert (fresh(running).state, where(running)) == ("starting", "gpu-02")
    assert Claim.objects.get(node=world.node, state="orphaned").card.used_slots == 1
    assert NodeDrain.objects.get().closed_at is None
    assert Card.objects.get(node=second).used_slots == 1
    assert everything_agrees()
