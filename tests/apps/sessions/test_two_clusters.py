"""A session that was lost on one cluster goes on on another; the first is told to end what it has, and touches nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing.models import Meter
from cluster import queries, ticks
from cluster.models import Card, Claim, Cluster, Desired, Node
from sessions_app import reconciler
from sessions_app.models import Run, TimelineEntry
from sessions_app.services import pause_session, resume_session
from tests.apps.sessions.world import MODEL, asked, fresh
from tests.builders import a_cluster, a_node, cr
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def documents(cluster):
    return [
        (row.run, row.spec["desired"] if row.spec else None)
        for row in Desired.objects.filter(cluster=cluster).order_by("run")
    ]


def used(node):
    return [card.used_slots for card in Card.objects.filter(node=node)]


@pytest.fixture
def elsewhere(world):
    """Another cluster with a card of the offering; the first choice is the world's own."""
    cluster = a_cluster("zz-elsewhere", last_beat_at=world.time.now())
    return a_node(cluster, "other-01", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])


@pytest.fixture
def moved(world, elsewhere):
    """Lost on the first cluster with run 1 alive, paused there without word, resumed as run 2 on the other."""
    Node.objects.filter(pk=elsewhere.pk).update(is_cordoned=True)
    session = world.run("L")
    Node.objects.filter(pk=elsewhere.pk).update(is_cordoned=False)
    world.pass_time(10 * MINUTE, session)
    fall_silent(world, elsewhere)
    reconciler.reconcile()
    assert fresh(session).state == "lost"
    pause_session(asked(world, session))
    world.time.advance(4 * MINUTE)
    Cluster.objects.filter(pk=elsewhere.cluster_id).update(last_beat_at=world.time.now())
    reconciler.reconcile()
    assert fresh(session).state == "paused"
    resume_session(asked(world, session))
    assert Run.objects.get(session=session, number=2).cluster_id == elsewhere.cluster_id
    world.ready(fresh(session))
    return fresh(session)


def fall_silent(world, elsewhere):
    world.time.advance(6 * MINUTE)
    Cluster.objects.filter(pk=elsewhere.cluster_id).update(last_beat_at=world.time.now())
    ticks.judge()
    assert queries.cluster_states() == {world.cluster.pk: "lost", elsewhere.cluster_id: "connected"}


def test_the_silent_cluster_is_told_to_end_its_run_while_the_session_runs_elsewhere(world, elsewhere, moved):
    assert documents(world.cluster) == [(1, "Paused")]
    assert documents(elsewhere.cluster_id) == [(2, "Running")]
    feed = queries.desired_after(world.cluster.pk, 0)
    assert [(row.session, row.spec.run, row.spec.desired) for row in feed.documents] == [(moved.pk, 1, "Paused")]
    assert (used(world.node), used(elsewhere)) == ([1], [1])


def test_when_the_silent_cluster_returns_its_card_is_free_at_gone_and_the_other_run_is_untouched(
    world, elsewhere, moved
):
    before = (moved.state, moved.version, moved.generation, moved.deadline_at)
    ending = Desired.objects.get(cluster=world.cluster)
    first = Run.objects.get(session=moved, number=1)

    assert not world.report(moved, "running", run=1, generation=ending.generation - 1, ready_at=first.ready_at)
    assert not world.report(moved, "terminating", run=1, generation=ending.generation)
    assert used(world.node) == [1], "its end was observed, and it is still there"
    assert Desired.objects.get(cluster=world.cluster).observed_generation == ending.generation
    assert world.report(moved, "gone", "stopped", run=1, generation=ending.generation)

    assert (used(world.node), used(elsewhere)) == ([0], [1])
    assert documents(world.cluster) == []
    assert documents(elsewhere.cluster_id) == [(2, "Running")]
    after = fresh(moved)
    assert (after.state, after.version, after.generation, after.deadline_at) == before
    assert everything_agrees()


def test_both_runs_are_billed_once_each_for_what_they_were_proven_to_run(world, elsewhere, moved):
    world.pass_time(30 * MINUTE, moved)
    ending = Desired.objects.get(cluster=world.cluster).generation
    assert world.report(moved, "gone", "stopped", run=1, generation=ending)
    assert not world.report(moved, "gone", "stopped", run=1, generation=ending)
    pause_session(asked(world, moved))
    assert world.gone(moved)

    assert fresh(moved).state == "paused"
    quarter = cr("12.5")  # an hour of a quarter of the card
    charged = dict(Meter.objects.filter(reference=moved.pk).values_list("run_id", "charged"))
    runs = {run.number: charged[run.pk] for run in Run.objects.filter(session=moved)}
    assert runs == {1: quarter * 10 // 60, 2: quarter * 30 // 60}
    told = TimelineEntry.objects.filter(session=moved).exclude(charged=0).values_list("run", "charged")
    assert sorted(told) == sorted(runs.items())
    assert not Claim.objects.holding().exists()
    assert not Desired.objects.exists()
    assert everything_agrees()


def test_the_other_runs_end_leaves_the_silent_clusters_order_to_end_in_place(world, elsewhere, moved):
    pause_session(asked(world, moved))
    world.gone(moved)

    assert documents(elsewhere.cluster_id) == []
    assert documents(world.cluster) == [(1, "Paused")]
    assert used(world.node) == [1]
