"""A class begins: two hundred people press Start on sixteen cards, some of them twice, before two web processes and a worker.

All of them at the same instant, in the middle of which others still get their pages. Nobody gets an error and nobody two sessions; who does not fit waits with a place and a reason; as cards come free the
worker takes everybody off the line, of each lane and shape exactly in the order (priority, order_at, id).
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from itertools import cycle, pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest
from celery import Celery
from django.conf import settings
from django.db import connection
from django.db.models import F

from accounts.models import PolicyValue
from billing import services as billing
from cluster.models import Card
from gshare_core.kit import locks
from gshare_core.kit.clock import DatabaseClock
from gshare_site.services import redis_urls
from sessions_app import requesters
from sessions_app.api.serializers import AskSerializer
from sessions_app.models import QueueEntry, RecentUse, Run, Session, TimelineEntry
from sessions_app.plans import read_plan
from sessions_app.queries import details
from sessions_app.services import Asked, stop_session
from tests.apps.sessions.world import MODEL, World, a_world, an_offering, limit
from tests.builders import Customer, a_customer, a_node, cr, fund_group
from tests.concurrency.front import Answer, Call, TwoWebs, a_create, a_page, outcomes, rush
from tests.concurrency.reporting import report
from tests.concurrency.rivals import Held
from tests.door.processes import running
from tests.recount import everything_agrees, nothing_is_held
from tests.services import Addresses, environment
from tests.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
PEOPLE = 200
ENOUGH = 50  # an hour of a whole card
SIZES = ("L", "XL", "L", "exclusive", "L", "XL", "L", "L")
OTHER = "NVIDIA H100 80GB HBM3"
PAGE_SECONDS = 10  # less than the 15 s for which a request waits for a connection
BEAT_SECONDS = 0.5
ALL_START_SECONDS = 200


class Place(NamedTuple):
    """A place in line; smaller leaves earlier."""

    priority: int
    order_at: datetime
    session: UUID


@contextmanager
def worker(services: Addresses, database_name: str, home: Path) -> Iterator[Callable[[], None]]:
    """A worker of two processes; what is given makes it walk along the line every now and then, as the beat does."""
    env = {**environment(services, database_name), "GSHARE_HOME": str(home), "GSHARE_LOG_LEVEL": "WARNING"}
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "gshare_site", "worker", "--loglevel=WARNING"]
    command += ["--without-gossip", "--without-mingle", "--concurrency=2", "--hostname=class@%h"]
    sender = Celery("the beat", broker=redis_urls(services.redis).broker, set_as_current=False)
    sender.conf.task_default_queue = "gshare"
    sent: list[float] = []

    def walk() -> None:
        if not sent or time.monotonic() - sent[-1] > BEAT_SECONDS:
            sent.append(time.monotonic())
            sender.send_task("sessions.drain_queue", ignore_result=True)

    with running(command, env), sender:
        yield walk


def a_class() -> tuple[World, dict[UUID, UUID], list[Customer]]:
    """Sixteen cards of two models on three nodes; people with what they need, some used much lately; whose GPU is which."""
    world = a_world(DatabaseClock(), cards=8)  # type: ignore[arg-type]  # -- it tells the time
    other = an_offering(OTHER)
    a_node(world.cluster, "gpu-02", cards=[{"model": OTHER, "vram_mib": 81_559, "slots": 16}] * 4)
    a_node(world.cluster, "gpu-03", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}] * 4)
    assert Card.objects.count() == 16
    group = world.alice.group
    PolicyValue.objects.filter(policy__scope_kind="global", field="max_queued").update(value=1)
    limit("group", "max_priority", 1, target=group)
    above = fund_group(group, ENOUGH * PEOPLE)
    people = [a_customer(group=group) for _number in range(PEOPLE)]
    for who in people:
        billing.allocate(source=above, to=who.wallet, amount=cr(ENOUGH), by=None)
    used = [RecentUse(scope=f"user:{who.user.pk}", hours=20, as_of=world.time.now()) for who in people[::7]]
    RecentUse.objects.bulk_create(used)
    offerings = cycle([world.offering.pk] * 4 + [other.pk])
    return world, {who.user.pk: offering for who, offering in zip(people, offerings, strict=False)}, people


def starts_of(world: World, gpus: dict[UUID, UUID], people: list[Customer]) -> list[Call]:
    """What everybody presses; every third clicks twice, and the other process gets the second click."""
    calls = []
    for number, (who, size) in enumerate(zip(people, cycle(SIZES), strict=False)):
        once = a_create(world, who.user, who.group.pk, size, name=f"class-{number}")
        once.body.update(offering=str(gpus[who.user.pk]), priority=int(number % 7 == 6))
        calls += [once, once] if number % 3 == 0 else [once]
    return calls


def hold_line(world: World, call: Call) -> Held:
    """The lane that a request is for, held by somebody who takes his time: no request for it goes on."""
    ask = AskSerializer(data=call.body)
    ask.is_valid(raise_exception=True)
    lane = read_plan(ask.ask(), requesters.who(call.by, UUID(call.body["group"])), at=world.time.now()).lane
    assert lane is not None

    def body(pause: Callable[[], None]) -> None:
        with locks.ordered():
            locks.lock_name(locks.Rank.LANE, lane)
            pause()

    return Held(body)


def waiting_for_locks() -> int:
    """How many transactions wait for somebody else's: for the line, or for the first of two clicks."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def rush_with_a_pause(webs: TwoWebs, world: World, calls: list[Call], reader: Customer) -> list[Answer]:
    """Everybody at once before a line that stands still until somebody else has read pages in both processes."""
    with ThreadPoolExecutor(1) as pool:
        held = hold_line(world, calls[0])
        try:
            sent = pool.submit(rush, webs, calls)
            until(lambda: waiting_for_locks() == 2 * settings.GSHARE.admissions_abreast, within=30, what="all wait")
            for path in ("/", "/sessions/", "/queue/"):
                for process in (0, 1):
                    assert a_page(webs, process, reader.user, path, within=PAGE_SECONDS) == 200
            assert waiting_for_locks() == 2 * settings.GSHARE.admissions_abreast
            assert not Session.objects.filter(offering=calls[0].body["offering"]).exists()
        finally:
            held.release()
        return sent.result()


def everybody_has_one_place(calls: list[Call], answers: list[Answer]) -> None:
    """No error, one session each, a doubled click the same answer; who waits knows where and why."""
    found = outcomes(answers)
    assert set(found) == {"placed", "queued"}, found
    assert found["queued"] > found["placed"] > 0
    told: dict[UUID, set[str]] = defaultdict(set)
    for call, answer in zip(calls, answers, strict=True):
        told[call.by.pk].add(answer.body["id"])
        assert answer.body["state"] == "starting" or answer.body["queue"]["reason"], answer.body
    assert {len(ids) for ids in told.values()} == {1}
    assert sorted(Session.objects.values_list("owner", flat=True)) == sorted(told)
    waiting = list(Session.objects.filter(state="queued"))
    places = details(waiting).places
    by_lane: dict[str, list[int]] = defaultdict(list)
    for session in waiting:
        place = places[session.pk]
        assert place.reason and place.detail
        by_lane[place.entry.lane].append(place.position)
    assert len(by_lane) == 2
    for positions in by_lane.values():
        assert sorted(positions) == list(range(1, len(positions) + 1))


def line_now() -> dict[tuple[str, str], list[Place]]:
    """Who waits, per lane and shape, in the order in which they must leave."""
    found: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for entry in QueueEntry.objects.all():
        found[entry.lane, entry.shape].append(Place(-entry.priority, entry.order_at, entry.session_id))
    return {bucket: sorted(places) for bucket, places in found.items()}


def work_and_go(walk: Callable[[], None]) -> bool:
    """Whoever starts becomes ready, stops and is gone, so that the next find room; True when nobody is left."""
    for session in Session.objects.filter(state="starting").select_related("owner"):
        report(session, "running", ready=True)
        stop_session(Asked(session.pk, session.owner))
        session.refresh_from_db()
        report(session, "gone", "stopped")
    walk()
    return not Session.objects.live().exists()


def test_two_hundred_people_press_start_at_once_and_all_get_a_place_and_then_a_card_in_exact_order(
    webs: TwoWebs, services: Addresses, database_name: str, tmp_path: Path
) -> None:
    world, gpus, people = a_class()
    calls = starts_of(world, gpus, people)
    answers = rush_with_a_pause(webs, world, calls, reader=world.alice)
    everybody_has_one_place(calls, answers)
    assert everything_agrees()
    line = line_now()
    assert len(line) == 6, "three sizes in two lanes"
    assert QueueEntry.objects.exclude(order_at=F("enqueued_at")).exists(), "recent use has its price"
    assert any(first.order_at > second.order_at for places in line.values() for first, second in pairwise(places))

    with worker(services, database_name, tmp_path) as walk:
        until(lambda: work_and_go(walk), within=ALL_START_SECONDS, what="all two hundred to have started")

    runs = list(Run.objects.all())
    placed = {run.session_id: run.placed_at for run in runs if run.placed_at is not None}
    assert len(runs) == len(placed) == PEOPLE, "everybody had exactly one run"
    for bucket, places in line.items():
        left = sorted(places, key=lambda place: placed[place.session])
        assert left == places, bucket
    assert set(Session.objects.values_list("state", "reason")) == {("stopped", "user")}
    assert TimelineEntry.objects.filter(to_state="starting").count() == PEOPLE
    assert {card.used_slots for card in Card.objects.all()} == {0}
    assert nothing_is_held()
    assert everything_agrees()
