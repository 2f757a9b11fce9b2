"""`/internal/v1/agent/samples`: what nodes' agents count of runs, for their own cluster only."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from cluster import tokens
from cluster.models import Cluster
from gshare_core.contract import HEADER_STALE
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from sessions_app import idleness
from sessions_app.activity import memory_of
from sessions_app.models import RunActivity, Session
from tests.apps.sessions.test_idleness import beat, fresh, row
from tests.apps.sessions.world import World
from tests.builders import a_cluster

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("sessions_app.api.internal_urls"),
    pytest.mark.usefixtures("signing_keys"),
]
PATH = "/internal/v1/agent/samples"


def post(cluster: Cluster, body: Any, scope: str = "agent") -> Any:
    token = tokens.issue(cluster, scope, at=clock.now()).token
    headers = {"Authorization": f"Bearer {token}"}
    return Client().post(PATH, json.dumps(body), content_type="application/json", headers=headers)


def counted(session: Any, usec: int, at: datetime, **fields: Any) -> dict[str, Any]:
    named = {"session": str(getattr(session, "pk", session)), "run": 1}
    return named | {"at": at.isoformat(), "cpu_usec": usec, "memory_bytes": 2**30} | fields


def readings(session: Session) -> list[tuple[datetime, int]]:
    return list(memory_of(RunActivity.objects.get(run__session=session)).cpu)


def test_what_an_agent_counted_is_the_runs_use_and_nothing_else_is_touched(world: World) -> None:
    session = world.run("L")
    world.time.advance(timedelta(minutes=5))
    beat(world, row(session, world.time.now(), cpu_usec=None))
    before = memory_of(RunActivity.objects.get(run__session=session))
    now = world.time.advance(timedelta(seconds=30))
    response = post(world.cluster, [counted(session, 7, now - timedelta(seconds=1)), counted(session, 9, now)])
    assert (response.status_code, response.json()) == (200, {"skipped": []})
    assert HEADER_STALE not in response.headers
    after = memory_of(RunActivity.objects.get(run__session=session))
    assert (after.cpu, after.memory_bytes) == (((now, 9),), 2**30), "the last of a batch says it all"
    assert (after.at, after.apps, after.gpu) == (before.at, before.apps, before.gpu)


def test_doubled_and_late_batches_change_nothing_and_say_so(world: World) -> None:
    session, now = world.run("L"), world.time.advance(timedelta(minutes=5))
    post(world.cluster, [counted(session, 9, now)])
    for body in ([counted(session, 9, now)], [counted(session, 5, now - timedelta(minutes=1))], []):
        response = post(world.cluster, body)
        assert (response.status_code, response.headers[HEADER_STALE]) == (200, "true")
    assert readings(session) == [(now, 9)]


def test_another_clusters_runs_and_those_that_never_were_look_alike_and_hide_no_others(world: World) -> None:
    session, now = world.run("L"), world.time.advance(timedelta(minutes=5))
    stranger, nobody = a_cluster(), uuid7()
    response = post(stranger, [counted(session, 9, now), counted(nobody, 9, now)])
    assert response.status_code == 200
    said = {each["where"]: each["why"] for each in response.json()["skipped"]}
    assert set(said) == {f"session {session.pk} run 1", f"session {nobody} run 1"}
    assert set(said.values()) == {"This run is not one of your cluster's."}
    assert not RunActivity.objects.filter(run__session=session).exists()
    mixed = post(world.cluster, [counted(nobody, 9, now), counted(session, 9, now), counted(session, 9, now, run=2)])
    assert len(mixed.json()["skipped"]) == 2
    assert readings(session) == [(now, 9)]


def test_a_run_that_ended_is_its_clusters_own_and_no_news(world: World) -> None:
    session = world.run("L")
    world.gone(session)
    response = post(world.cluster, [counted(session, 9, world.time.now())])
    assert (response.json(), response.headers[HEADER_STALE]) == ({"skipped": []}, "true")


def test_a_row_that_cannot_be_read_is_skipped_and_its_neighbours_are_taken(world: World) -> None:
    session, now = world.run("L"), world.time.advance(timedelta(minutes=5))
    bad = [counted(session, -1, now), counted(session, 1, now) | {"at": "yesterday"}, "row", {}]
    response = post(world.cluster, [*bad, counted(session, 9, now)])
    assert [each["where"] for each in response.json()["skipped"]] == [f"samples[{index}]" for index in range(4)]
    assert readings(session) == [(now, 9)]


def test_absurd_counters_and_times_are_dropped(world: World) -> None:
    session, now = world.run("L"), world.time.advance(timedelta(minutes=5))
    for absurd in (
        counted(session, 2**63 - 1, now),
        counted(session, 9, now + timedelta(hours=1)),
        counted(session, 9, now - timedelta(days=1)),
    ):
        assert post(world.cluster, [absurd]).status_code == 200
    assert readings(session) == []


@pytest.mark.parametrize("scope", ["operator", "yielder"])
def test_only_an_agents_token_may(world: World, scope: str) -> None:
    assert post(world.cluster, [], scope).status_code == 403
    assert Client().post(PATH, "[]", content_type="application/json").status_code == 401


def test_cpu_that_an_agent_counted_keeps_who_computes_from_being_idle(world: World) -> None:
    session = world.run("L")
    for minute in range(14):
        now = world.time.advance(timedelta(minutes=5))
        beat(world, row(session, now, cpu_usec=None))
        post(world.cluster, [counted(session, (minute + 1) * 300 * 1_000_000, now)])  # a whole core of four
        idleness.judge()
    assert fresh(session).state == "running"
    assert RunActivity.objects.get(run__session=session).evidence["cpu"]["state"] == "in_use"
