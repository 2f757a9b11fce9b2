"""Preemption while others walk and act at the same instant: each is asked once, and nobody for nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from accounts.models import PolicyValue
from cluster import fleets
from cluster.models import Earmark, Pool, PoolGrant
from gshare_core.kit import locks
from gshare_core.kit.clock import DatabaseClock
from sessions_app import queue
from sessions_app.models import Preemption, QueueEntry, Run, Session, TimelineEntry
from sessions_app.services import Asked, stop_session
from tests.apps.sessions.world import World, a_world, an_offering, fresh, limit
from tests.builders import a_customer, a_node
from tests.concurrency.rivals import Held, Waiting, times, together
from tests.recount import everything_agrees
from tests.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]


@pytest.fixture
def world() -> World:
    """Two cards, on the database's clock; everybody may ask for priority."""
    made = a_world(DatabaseClock(), cards=2)  # type: ignore[arg-type]  # -- both tell the time
    PolicyValue.objects.filter(field__in=("max_sessions", "max_queued")).update(value=1_000)
    PolicyValue.objects.filter(field__in=("cpu_milli", "memory_mib", "vram_mib", "core_percent")).update(value=10**9)
    limit("global", "max_priority", 10)
    return made


def lower(world: World, tier: str) -> Session:
    """A preemptible session that has run for an hour."""
    session = world.run(tier, customer=a_customer(100), preemptible=True)
    Run.objects.filter(session=session).update(ready_at=F("ready_at") - timedelta(hours=1))
    return session


def preempted() -> int:
    return TimelineEntry.objects.filter(event="pause", reason="preempted").count()


def test_walks_at_once_preempt_once(world: World) -> None:
    for _card in range(2):
        lower(world, "exclusive")
    head = world.create("exclusive", priority=5)
    fleets.forget()
    assert together(*times(4, queue.drain)) == [0] * 4
    assert (preempted(), Preemption.objects.count()) == (1, 1)
    assert Earmark.objects.get().session_id == head.pk
    assert TimelineEntry.objects.filter(session=head, event="preempts").count() == 1
    assert everything_agrees()


def test_two_heads_at_once_never_count_on_the_same_card(world: World) -> None:
    other = an_offering("NVIDIA H100", vram_mib=81_559)
    a_node(world.cluster, "gpu-02", cards=[{"model": "NVIDIA H100", "vram_mib": 81_559}])
    for offering in (None, None, other):
        changes = {} if offering is None else {"offering": offering.pk}
        session = world.run("exclusive", customer=a_customer(100), preemptible=True, **changes)
        Run.objects.filter(session=session).update(ready_at=F("ready_at") - timedelta(hours=1))
    heads = [
        world.create("exclusive", priority=5),
        world.create("exclusive", priority=5, offering=other.pk, customer=a_customer(100)),
    ]
    together(*times(3, queue.drain))
    assert preempted() == 2
    marks = {mark.session_id: set(mark.cards) for mark in Earmark.objects.all()}
    assert set(marks) == {head.pk for head in heads}
    assert not set.intersection(*marks.values())


def test_whoever_chooses_sees_what_another_line_was_just_promised_on_the_same_cards(world: World) -> None:
    """A walk that is about to commit its choice for one line, and a second one that has found the head of another line."""
    victims = [lower(world, "exclusive") for _card in range(2)]
    carol = a_customer(100)
    own = Pool.objects.create(cluster=world.cluster, name="carols", is_shared=False)
    PoolGrant.objects.create(pool=own, group=carol.group)
    first = world.create("exclusive", priority=5)

    def walk(pause: Callable[[], None]) -> None:
        def pause_before_the_end(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
            done = execute(sql, *args)
            if 'INSERT INTO "sessions_app_preemption"' in sql:
                pause()
            return done

        with connection.execute_wrapper(pause_before_the_end):
            queue.drain()

    held = Held(walk)
    second = world.create("exclusive", priority=9, customer=carol)
    assert len(set(QueueEntry.objects.values_list("lane", flat=True))) == 2
    other = Waiting(queue.drain)
    until(other.is_blocked, what="the second walk to wait for the first one's choice")
    held.release()
    assert other.result() == 0
    marks = {mark.session_id: set(mark.cards) for mark in Earmark.objects.all()}
    assert set(marks) == {first.pk, second.pk}
    assert not marks[first.pk] & marks[second.pk]
    assert [fresh(victim).state for victim in victims] == ["pausing", "pausing"]


def test_who_stops_while_he_is_being_asked_is_stopped_and_not_preempted(world: World) -> None:
    victims = [lower(world, "exclusive") for _card in range(2)]
    head = world.create("exclusive", priority=5)
    first = max(victims, key=lambda victim: Run.objects.get(session=victim).ready_at)

    def stopping(pause: Callable[[], None]) -> None:
        with locks.ordered():
            stop_session(Asked(first.pk, first.owner))
            pause()

    held = Held(stopping)
    walk = Waiting(queue.drain)
    until(walk.is_blocked, what="the walk to wait for who stops")
    held.release()
    assert walk.result() == 0
    queue.drain()
    assert (fresh(first).state, preempted()) == ("stopping", 0), "what he gives back is enough"
    assert not Preemption.objects.exists()
    world.gone(first)
    queue.drain()
    assert fresh(head).state == "starting"


def test_who_cancels_the_request_while_others_are_asked_for_it_saves_those_who_were_not_yet(world: World) -> None:
    victims = [lower(world, "XL") for _half in range(4)]
    head = world.create("exclusive", priority=5)
    chosen: list[str] = []

    def cancel_after_the_first(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        locks_a_session = 'FROM "sessions_app_session"' in sql and "FOR NO KEY UPDATE" in sql
        if 'INSERT INTO "sessions_app_preemption"' in sql or (chosen and locks_a_session):
            chosen.append(sql)
            if len(chosen) == 4:  # chosen, the first one and the head were locked: now the second is to be asked
                together(lambda: stop_session(Asked(head.pk, head.owner)))
        return execute(sql, *args)

    with connection.execute_wrapper(cancel_after_the_first):
        queue.drain()
    assert preempted() == 1
    assert sorted(fresh(victim).state for victim in victims) == ["pausing", "running", "running", "running"]
