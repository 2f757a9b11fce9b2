"""Several who leave the line in one transaction: each judged beside those before him, nobody held up by another."""

from collections import Counter

import pytest
from django.db import connection

from billing.models import Meter
from cluster import fleets
from cluster.models import Card, Claim, Desired, FleetChange
from sessions_app import queue, recounting
from sessions_app.models import QueueEntry, TimelineEntry
from tests.apps.sessions.test_line import a_volume, close_cards
from tests.apps.sessions.world import MODEL, MountAsk, fresh, limit, states
from tests.builders import a_customer, a_node

pytestmark = pytest.mark.django_db


def transactions(*sessions):
    """By which transactions the sessions' places on the metal were written."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT xmin::text FROM cluster_claim WHERE session_id = ANY(%s)", [[session.pk for session in sessions]]
        )
        return Counter(xmin for (xmin,) in cursor.fetchall())


@pytest.mark.django_db(transaction=True)
def test_who_fits_leaves_in_one_transaction_with_everything_that_is_his(world):
    close_cards(world)
    waiting = [world.create("L", customer=a_customer(1_000)) for _number in range(3)]
    close_cards(world, closed=False)
    fleets.forget()
    assert queue.drain() == 3
    assert list(transactions(*waiting).values()) == [3]
    assert states(*waiting) == ["starting"] * 3
    assert not QueueEntry.objects.exists()
    assert Desired.objects.filter(session_id__in=[session.pk for session in waiting]).count() == 3
    assert TimelineEntry.objects.filter(session__in=waiting, event="placed", detail="left the line").count() == 3
    assert Card.objects.get(pk=world.card.pk).used_slots == 3
    assert Meter.objects.filter(held__gt=0).count() == 3
    assert recounting.differences() == []
    seqs = list(Desired.objects.values_list("seq", flat=True)) + list(FleetChange.objects.values_list("seq", flat=True))
    assert len(seqs) == len(set(seqs)), "no number of the cluster's counter was given twice"


def test_a_walk_goes_on_behind_those_who_left_together(world):
    for number in range(3):
        a_node(world.cluster, f"more-{number}", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    for field in ("max_queued", "max_sessions", "cpu_milli", "memory_mib", "scratch_gib", "vram_mib", "core_percent"):
        limit("user", field, 10**7, target=world.alice.user)
    Card.objects.update(is_draining=True)
    waiting = [world.create("S") for _number in range(20)]
    Card.objects.update(is_draining=False)
    assert queue.drain() == 20
    assert set(states(*waiting)) == {"starting"}


def test_a_limit_that_the_one_before_uses_up_stops_only_who_is_bound_by_it(world):
    limit("user", "max_sessions", 1, target=world.alice.user)
    close_cards(world)
    first, second = world.create("L"), world.create("L")
    other = world.create("L", customer=a_customer(1_000))
    close_cards(world, closed=False)
    assert queue.drain() == 2
    assert states(first, second, other) == ["starting", "queued", "starting"]
    assert QueueEntry.objects.get(session=second).reason == "quota_exceeded"


def test_who_has_a_volume_goes_at_his_turn(world):
    close_cards(world)
    first = world.create("L")
    mounts = (MountAsk(a_volume(world, "one").pk, "/data", "rw"),)
    second, third = world.create("L", mounts=mounts), world.create("L")
    close_cards(world, closed=False)
    assert queue.drain() == 3
    assert states(first, second, third) == ["starting"] * 3
    assert Claim.objects.filter(state="open").count() == 3


def test_room_for_some_is_given_to_the_first(world):
    close_cards(world)
    waiting = [world.create("L") for _number in range(6)]
    close_cards(world, closed=False)
    assert queue.drain() == 4
    assert states(*waiting) == ["starting"] * 4 + ["queued"] * 2
    assert {fresh(session).state for session in waiting[4:]} == {"queued"}
