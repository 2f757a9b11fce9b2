"""Whatever a cluster sends, the listener answers: taken, skipped or refused with a reason, never a fault of ours.

Valid bodies in which some values were replaced by what JSON can carry at all: NUL characters, lone surrogates, numbers past
every column, times at the ends of the calendar, wrong types, lists within lists.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cluster import fleets, tokens
from cluster.models import Card, Node
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_site.settings.test import GIVEN
from sessions_app.models import Session, TimelineEntry
from tests.apps.sessions.world import World, a_world, manual_clock

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("sessions_app.api.internal_urls"),
    pytest.mark.usefixtures("signing_keys"),
    pytest.mark.timeout(600),
]
EXAMPLES = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0")) or 150

NASTY: tuple[Any, ...] = (
    "\x00",
    "gpu\x00-01",
    "\ud800",
    "x" * 5_000,
    "",
    2**31,
    2**63 - 1,
    2**63,
    10**400,
    -1,
    0,
    1.5,
    1e308,
    True,
    None,
    [],
    [[]],
    {},
    {"\x00": "\x00"},
    {"a": "\x00"},
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-10-14T12:00:00",
    "NaN",
    "not a number",
    "00000000-0000-0000-0000-000000000000",
    "gone",
    "running",
)
nasty = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(codec=None), max_size=40),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
# Where in the body, as numbers that choose among what there is; and what is put there.
changes = st.lists(st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=6), nasty), min_size=1, max_size=4)


@contextmanager
def a_stage() -> Iterator[tuple[World, Session]]:
    """A world with a session that runs, rolled back afterwards."""
    fleets.forget()
    time = manual_clock()
    with transaction.atomic(), clock.using(time):
        world = a_world(time)
        session = world.create("L")
        yield world, session
        transaction.set_rollback(True)
    fleets.forget()


def status_body(world: World, session: Session) -> dict[str, Any]:
    now = world.time.now().isoformat()
    return {
        "run": 1,
        "generation": session.generation,
        "sequence": 1_800_000_000_000,
        "phase": "running",
        "reason": None,
        "message": "all well",
        "pod": "s-1.1",
        "node": world.node.name,
        "cards": [world.card.uuid],
        "mig": {"profile": "1g.10gb", "start": 0},
        "ready_at": now,
        "last_alive_at": now,
        "observed_at": now,
        "sent_at": now,
        "endpoints": {"lab": "127.0.0.1:40001", "terminal": "unix:/tmp/socket"},
    }


def inventory_body(world: World, session: Session) -> dict[str, Any]:
    now = world.time.now().isoformat()
    card = world.card
    return {
        "contract_version": 1,
        "observed_at": now,
        "sent_at": now,
        "nodes": [
            {
                "name": world.node.name,
                "labels": {"zone": "a"},
                "ready": True,
                "cpu_milli": 128_000,
                "memory_mib": 524_288,
                "scratch_gib": 2_000,
                "yield_capable": False,
                "cards": [
                    {
                        "uuid": card.uuid,
                        "index": card.index,
                        "model": card.model,
                        "vram_mib": card.vram_mib,
                        "core_percent": 100,
                        "slots": card.slots,
                        "mode": "hami-core",
                        "healthy": True,
                        "mig_profiles": [
                            {
                                "name": "1g.10gb",
                                "vram_mib": 9_728,
                                "core_percent": 14,
                                "placements": [{"start": 0, "size": 1}],
                            }
                        ],
                        "bound": [{"session": None, "vram_mib": 1, "core_percent": 1}],
                    }
                ],
            }
        ],
        "volumes": [{"claim": "vol-1", "size_gib": 1, "phase": "Bound"}],
        "sessions": [
            {"id": str(session.pk), "run": 1, "generation": 1, "phase": "running", "last_alive_at": now},
            {"id": str(uuid7()), "run": 1, "generation": 1, "phase": "running", "last_alive_at": now},
        ],
    }


def samples_body(world: World, session: Session) -> list[Any]:
    row = {"session": str(session.pk), "run": 1, "at": world.time.now().isoformat(), "cpu_usec": 5, "memory_bytes": 7}
    return [row, dict(row, session=str(uuid7())), dict(row, run=2)]


def mutated(body: Any, plan: list[tuple[list[int], Any]]) -> Any:
    """The body with every change made; each puts a value of its own, which later changes may alter."""
    for path, value in plan:
        _put(body, path, copy.deepcopy(value))
    return body


def _put(body: Any, path: list[int], value: Any) -> None:
    here, last = body, None
    for step in path:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        last = (here, keys[step % len(keys)])
        inner = here[last[1]]
        if not isinstance(inner, (dict, list)) or not inner:
            break
        here = inner
    if last is not None:
        last[0][last[1]] = value


def post(world: World, path: str, body: Any, scope: str = "operator") -> Any:
    token = tokens.issue(world.cluster, scope, at=clock.now()).token
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    headers = {"Authorization": f"Bearer {token}"}
    return Client().post(path, data, content_type="application/json", headers=headers)


def is_answered(response: Any, *allowed: int) -> None:
    assert response.status_code in allowed, (response.status_code, response.content[:500])
    if response.status_code == 400:
        assert response.json()["code"] == "invalid"


WELL = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@example([([2], 2**63)])
@example([([0], 2**31)])
@example([([1], 2**31)])
@example([([6], "s\x00")])
@example([([6], "x" * 254)])
@example([([7], "gpu\x00")])
@example([([10], "0001-01-01T00:00:00+14:00")])
@example([([11], "9999-12-31T23:59:59-14:00")])
@example([([14, 0], "\x00")])
@WELL
@given(changes)
def test_no_status_report_is_a_fault_of_ours(signing_keys: Any, plan: list[tuple[list[int], Any]]) -> None:
    with a_stage() as (world, session):
        body = mutated(status_body(world, session), plan)
        is_answered(post(world, f"/internal/v1/sessions/{session.pk}/status", body), 204, 400)


@example([([3, 0, 1, 0], "\x00")])
@example([([3, 0, 7, 0, 2], "A100\x00")])
@example([([3, 0, 7, 0, 8, 0, 0], "\x00")])
@example([([1], "0001-01-01T00:00:00+14:00"), ([2], "9999-12-31T23:59:59-14:00")])
@example([([5, 0, 1], 2**63), ([5, 1, 2], 2**63)])
@example([([0], NASTY[17]), ([0, 0], NASTY[17])])
@WELL
@given(changes)
def test_no_inventory_is_a_fault_of_ours(signing_keys: Any, plan: list[tuple[list[int], Any]]) -> None:
    with a_stage() as (world, session):
        body = mutated(inventory_body(world, session), plan)
        is_answered(post(world, "/internal/v1/inventory", body), 200, 400)
        assert Card.objects.filter(retired_at=None).exists()
        assert Node.objects.filter(retired_at=None).exists()


@example([([0, 2], "0001-01-01T00:00:00+14:00")])
@example([([0, 3], 2**63), ([1, 1], 2**31)])
@example([([0, 3], 2**63 - 1), ([0, 4], 2**63 - 1)])
@example([([0], "\x00"), ([1, 0], "\x00")])
@example([([0, 2], "9999-12-31T23:59:59-14:00"), ([1], [[]])])
@WELL
@given(changes)
def test_no_batch_of_samples_is_a_fault_of_ours(signing_keys: Any, plan: list[tuple[list[int], Any]]) -> None:
    with a_stage() as (world, session):
        body = mutated(samples_body(world, session), plan)
        is_answered(post(world, "/internal/v1/agent/samples", body, "agent"), 200)
        assert Session.objects.get(pk=session.pk).state == session.state


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"null", b"{}", b"7", b"[" * 100_000, b'"\\u0000"'])
def test_what_is_no_batch_is_refused(body: bytes) -> None:
    with a_stage() as (world, _session):
        is_answered(post(world, "/internal/v1/agent/samples", body, "agent"), 400)


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"null", b"[]", b"1" * 5_000, b"[" * 100_000, b'{"run": ' * 100_000, b'"\\u0000"'],
    ids=["empty", "no text", "null", "a list", "a long number", "deep lists", "deep objects", "a NUL"],
)
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with a_stage() as (world, session):
        is_answered(post(world, "/internal/v1/inventory", body), 400)
        is_answered(post(world, f"/internal/v1/sessions/{session.pk}/status", body), 400)


def test_a_bad_row_is_skipped_and_listed_and_its_neighbours_are_taken() -> None:
    with a_stage() as (world, session):
        body = inventory_body(world, session)
        body["nodes"].append(dict(body["nodes"][0], name="gpu-02", labels={"\x00": "a"}, cards=[]))
        body["nodes"].append(dict(body["nodes"][0], name="gpu-03", cards=[]))
        response = post(world, "/internal/v1/inventory", body)
        is_answered(response, 200)
        assert "nodes[1]" in [row["where"] for row in response.json()["skipped"]]
        assert set(Node.objects.values_list("name", flat=True)) == {"gpu-01", "gpu-03"}


def test_a_number_past_the_column_names_its_field_and_changes_nothing() -> None:
    with a_stage() as (world, session):
        before = TimelineEntry.objects.filter(session=session).count()
        body = status_body(world, session) | {"sequence": 2**63}
        response = post(world, f"/internal/v1/sessions/{session.pk}/status", body)
        is_answered(response, 400)
        assert "sequence" in response.json()["detail"]
        assert TimelineEntry.objects.filter(session=session).count() == before
