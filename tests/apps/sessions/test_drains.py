"""Trap 33: what lives when a person, a place, a row of the catalogue, a pool or a cluster is taken away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from accounts import services as accounts
from accounts.models import AuditEntry, DrainIntent, Membership
from catalog import services as catalog
from catalog.models import Image, Offering, Preset, PriceRevision
from cluster import services as cluster
from cluster.models import Card, Cluster, Node, Pool
from cluster.services import VolumeWish
from gshare_core.errors import DomainError
from sessions_app import draining, queue
from sessions_app.domain.lifecycle import TERMINAL
from sessions_app.models import QueueEntry, Session, TimelineEntry
from sessions_app.services import Asked, pause_session, restart_session, resume_session
from tests.apps.sessions.world import a_cuda_image, a_preset, an_offering
from tests.dying import every_way_to_die
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db


def fresh(session: Session) -> Session:
    return Session.objects.get(pk=session.pk)


def refusal(act: Callable[..., Any], *args: Any, **changes: Any) -> DomainError:
    with pytest.raises(DomainError) as refused:
        act(*args, **changes)
    return refused.value


def close_cards(world, closed: bool = True) -> None:
    Card.objects.filter(node=world.node).update(is_draining=closed)


@pytest.fixture
def lively(world) -> list[Session]:
    """Sessions of alice in her group: running, without a GPU, pausing, paused, waiting."""
    running, plain, pausing, paused = world.run("M"), world.run("cpu"), world.run("S"), world.run("S")
    for session in (pausing, paused):
        pause_session(Asked(session.pk, world.alice.user))
    world.gone(paused)
    close_cards(world)
    return [running, plain, pausing, paused, world.create("L")]


def take_away(world, kind: str) -> None:
    group = world.alice.group
    match kind:
        case "user":
            accounts.deactivate_user(user_id=world.alice.user.pk, by=None)
        case "membership":
            seat = Membership.objects.filter(user=world.alice.user, group=group).first()
            if seat is not None:
                accounts.remove_membership(membership_id=seat.pk, by=None)
        case "group":
            accounts.set_group_active(group_id=group.pk, active=False, by=None)
        case "organisation":
            accounts.set_organisation_active(organisation_id=group.organisation_id, active=False, by=None)


PLACES = ["user", "membership", "group", "organisation"]


@pytest.mark.parametrize("kind", PLACES)
def test_trap_33_a_drain_that_is_killed_anywhere_goes_on_and_ends_everything_once(world, lively, kind):
    take_away(world, kind)
    every_way_to_die(draining.drain, lambda: None)
    for session in lively:
        world.gone(session) if fresh(session).state == "stopping" else None
    assert {fresh(session).life in TERMINAL for session in lively} == {True}
    stops = TimelineEntry.objects.filter(event="stop").exclude(to_state="").values_list("session_id", flat=True)
    assert sorted(stops) == sorted(session.pk for session in lively)
    assert set(Session.objects.values_list("reason", flat=True)) == {"access_revoked"}
    assert everything_agrees()
    world.time.advance(timedelta(minutes=6))
    every_way_to_die(draining.drain, lambda: None)
    assert not DrainIntent.objects.filter(closed_at=None).exists()


@pytest.mark.parametrize("kind", PLACES)
def test_trap_33_taking_away_is_killed_anywhere_and_the_right_never_ends_without_the_intent(world, kind):
    def lost() -> bool:
        group = world.alice.group
        world.alice.user.refresh_from_db()
        group.refresh_from_db()
        group.organisation.refresh_from_db()
        seated = Membership.objects.filter(user=world.alice.user, group=group).exists()
        return not (world.alice.user.is_active and seated and group.is_active and group.organisation.is_active)

    def check() -> None:
        assert lost() == DrainIntent.objects.filter(kind=kind, closed_at=None).exists()

    assert every_way_to_die(lambda: take_away(world, kind), check) > 3
    assert lost()


def test_what_was_given_back_before_the_pass_reached_it_is_left_alone(world):
    session = world.run("M")
    take_away(world, "user")
    sent: list[str] = []

    def give_back(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        if "FOR NO KEY UPDATE" in sql and not sent:
            sent.append(sql)
            accounts.reactivate_user(user_id=world.alice.user.pk, by=None)
        return execute(sql, *args)

    with connection.execute_wrapper(give_back):
        draining.drain()
    assert sent
    assert fresh(session).state == "running"


# The catalogue ----------------------------------------------------------------------------------------------------------


def rows(world) -> dict[str, Any]:
    return {"offering": world.offering, "preset": world.presets["L"], "image": world.image}


@pytest.mark.parametrize("kind", ["offering", "preset", "image"])
def test_a_withdrawn_row_is_hidden_at_once_lets_what_runs_run_and_ends_who_waits(world, kind):
    running = world.run("L")
    paused = world.run("L")
    pause_session(Asked(paused.pk, world.alice.user))
    world.gone(paused)
    close_cards(world)
    waiting = world.create("L")
    catalog.set_offered(kind=kind, row_id=rows(world)[kind].pk, offered=False, by=None)
    assert refusal(world.create, "L").code == "not_found"
    close_cards(world, closed=False)
    queue.drain()
    assert (fresh(waiting).state, fresh(waiting).reason) == ("failed", "not_found")
    assert not QueueEntry.objects.exists()
    told = refusal(resume_session, Asked(paused.pk, world.alice.user))
    assert (told.code, fresh(paused).state) == ("not_found", "paused")
    assert "offer it again" in told.remedy
    restart_session(Asked(running.pk, world.alice.user))
    world.gone(running)
    assert fresh(running).state == "starting"
    assert everything_agrees()
    catalog.set_offered(kind=kind, row_id=rows(world)[kind].pk, offered=True, by=None)
    resume_session(Asked(paused.pk, world.alice.user))
    assert fresh(paused).state == "starting"


@pytest.mark.parametrize("kind", ["offering", "preset", "image"])
def test_a_row_that_is_offered_or_used_is_not_deleted_and_the_refusal_counts(world, kind):
    row = rows(world)[kind]
    session = world.run("L")
    assert refusal(catalog.delete_row, kind=kind, row_id=row.pk, by=None).code == "in_use"
    catalog.set_offered(kind=kind, row_id=row.pk, offered=False, by=None)
    told = refusal(catalog.delete_row, kind=kind, row_id=row.pk, by=None)
    assert (told.code, told.facts["sessions"]) == ("in_use", 1)
    assert "1 session" in told.detail
    pause_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    assert refusal(catalog.delete_row, kind=kind, row_id=row.pk, by=None).facts["sessions"] == 1
    Session.objects.update(state="stopped", ended_at=world.time.now())
    told = refusal(catalog.delete_row, kind=kind, row_id=row.pk, by=None)
    assert (told.code, told.facts["ended"]) == ("in_use", 1)


@pytest.mark.parametrize(
    ("kind", "model", "make"),
    [
        ("offering", Offering, lambda: an_offering("unused", is_active=False)),
        ("preset", Preset, lambda: a_preset("S", name="unused", is_active=False)),
        ("image", Image, lambda: a_cuda_image(is_active=False)),
    ],
)
def test_a_row_that_nothing_ever_used_is_deleted_wholly_or_not_at_all(world, kind, model, make):
    row = make()
    if kind == "offering":  # a price is history
        assert refusal(catalog.delete_row, kind=kind, row_id=row.pk, by=None).facts == {"prices": 1}
        assert PriceRevision.objects.filter(offering=row).exists()
        row = Offering.objects.create(name="x", model="x", vram_mib=4_096, tiers=["L"], is_active=False)

    def delete() -> None:
        catalog.delete_row(kind=kind, row_id=row.pk, by=None)

    def check() -> None:
        told = AuditEntry.objects.filter(act="catalogue.delete", target_id=str(row.pk)).exists()
        assert told != model.objects.filter(pk=row.pk).exists()

    assert every_way_to_die(delete, check) > 2
    assert not model.objects.filter(pk=row.pk).exists()


# Pools and clusters -----------------------------------------------------------------------------------------------------


def test_a_pool_with_nodes_is_not_deleted_and_the_refusal_counts_what_runs_there(world):
    pool = cluster.create_pool(
        by=None, cluster_id=world.cluster.pk, name="own", is_shared=False, node_ids=[world.node.pk]
    )
    cluster.grant_pool(by=None, pool_id=pool.pk, group_id=world.alice.group.pk)
    running = world.run("L")
    told = refusal(cluster.delete_pool, by=None, pool_id=pool.pk)
    assert (told.code, told.facts) == ("in_use", {"nodes": 1, "sessions": 1})
    assert "1 node, 1 session" in told.detail
    assert "Move its nodes" in told.remedy
    close_cards(world)
    waiting = world.create("L")
    cluster.change_pool(by=None, pool_id=pool.pk, node_ids=[])
    assert every_way_to_die(lambda: cluster.delete_pool(by=None, pool_id=pool.pk), lambda: None) > 3
    assert not Pool.objects.filter(pk=pool.pk).exists()
    close_cards(world, closed=False)
    queue.drain()
    assert (fresh(running).state, fresh(waiting).state) == ("running", "starting")


def test_a_pool_is_deleted_although_a_node_that_left_the_cluster_stood_in_it(world):
    pool = cluster.create_pool(
        by=None, cluster_id=world.cluster.pk, name="own", is_shared=False, node_ids=[world.node.pk]
    )
    Node.objects.filter(pk=world.node.pk).update(retired_at=world.time.now())
    cluster.delete_pool(by=None, pool_id=pool.pk)
    assert not Pool.objects.filter(pk=pool.pk).exists()


def test_a_cluster_with_sessions_or_volumes_is_not_removed_and_the_refusal_counts_them(world):
    wish = VolumeWish(name="data", kind="data", access="rwo", size_gib=1, cluster_id=world.cluster.pk)
    volume = cluster.create_volume(by=world.alice.user, wish=wish)
    running = world.run("M")
    bound = world.run("M", cluster=world.cluster.pk)
    pause_session(Asked(bound.pk, world.alice.user))
    world.gone(bound)
    told = refusal(cluster.remove_cluster, by=None, cluster_id=world.cluster.pk)
    assert (told.code, told.facts) == ("in_use", {"sessions": 1, "documents": 1, "volumes": 1, "bound": 1})
    assert "stop its sessions" in told.remedy
    for session in (running, bound):
        Session.objects.filter(pk=session.pk).update(cluster=None)
    world.gone(running, "drained")
    cluster.delete_volume(by=world.alice.user, volume_id=volume.pk)
    assert refusal(cluster.remove_cluster, by=None, cluster_id=world.cluster.pk).facts["volumes"] == 1
    world.time.advance(timedelta(days=2))
    cluster.purge_volumes(at=world.time.now())
    told_now = world.cluster.pk

    def check() -> None:
        removed = Cluster.objects.filter(pk=told_now).exclude(removed_at=None).exists()
        assert removed == (not Node.objects.filter(cluster=told_now, retired_at=None).exists())

    assert every_way_to_die(lambda: cluster.remove_cluster(by=None, cluster_id=told_now), check) > 3
    assert refusal(cluster.remove_cluster, by=None, cluster_id=told_now).code == "not_found"
