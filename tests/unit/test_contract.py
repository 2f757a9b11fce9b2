"""The document between control plane and operator: its wire form, what it refuses, its names and orders."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gshare_core import contract
from gshare_core.contract import (
    DesiredDocument,
    DesiredFeed,
    Inventory,
    Phase,
    Reason,
    SessionSpec,
    StatusReport,
    parse_endpoint,
)

SESSION = UUID("0197f3c2-a1b2-7c4e-9d10-aabbccddeeff")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

WIRE: dict[str, Any] = {
    "contractVersion": 1,
    "sessionId": str(SESSION),
    "run": 2,
    "generation": 7,
    "desired": "Running",
    "class": "gpu",
    "image": "registry.gshare.internal/sessions/jupyter@sha256:0",
    "apps": [{"name": "lab", "port": 8888}, {"name": "terminal", "port": 7681}, {"name": "code", "port": 8080}],
    "resources": {"cpuMilli": 4000, "memoryMib": 8192, "scratchGib": 50},
    "gpu": {
        "mode": "fractional",
        "node": "gpu-01",
        "cards": ["GPU-1"],
        "vramMib": 10194,
        "corePercent": 12,
        "mig": None,
        "borrowed": False,
    },
    "node": None,
    "volumes": [
        {
            "claim": "vol-1",
            "mountPath": "/home/work",
            "readOnly": False,
            "sizeGib": 50,
            "storageClass": "nfs",
            "accessMode": "ReadWriteOnce",
        }
    ],
    "access": {"host": f"{SESSION}.gshare-sessions.example", "tokenSecret": f"s-{SESSION.hex}-access"},
    "privileged": False,
    "deadlines": {"startSeconds": 600, "pullSeconds": 1800, "stopGraceSeconds": 120},
    "group": None,
    "organisation": None,
}


def test_a_spec_goes_over_the_wire_unchanged_in_camel_case() -> None:
    assert json.loads(json.dumps(SessionSpec.model_validate(WIRE).to_wire())) == WIRE


def test_unknown_fields_of_a_newer_sender_are_ignored() -> None:
    newer = {**WIRE, "wish": "later", "resources": {**WIRE["resources"], "hugepages": 1}}
    assert SessionSpec.model_validate(newer) == SessionSpec.model_validate(WIRE)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"contractVersion": 2}, "contractVersion"),
        ({"contractVersion": 0}, "contractVersion"),
        ({"run": 0}, "run"),
        ({"desired": "Sleeping"}, "desired"),
        ({"apps": []}, "apps"),
        ({"gpu": None}, "gpu"),
        ({"class": "cpu"}, "gpu"),
        ({"volumes": [{"claim": "vol-1", "mountPath": "/home/../etc", "sizeGib": 1}]}, "mountPath"),
        ({"volumes": [{"claim": "vol-1", "mountPath": "home/work", "sizeGib": 1}]}, "mountPath"),
        ({"volumes": [{"claim": "../etc", "mountPath": "/home/work", "sizeGib": 1}]}, "claim"),
        ({"volumes": [{"claim": "vol-1", "mountPath": "/home/./work", "sizeGib": 1}]}, "mountPath"),
        ({"volumes": [{"claim": "vol-1", "mountPath": "/home/work", "sizeGib": 1}] * 2}, "volumes"),
        ({"apps": [{"name": "lab", "port": 1}] * 2}, "apps"),
        ({"gpu": {**WIRE["gpu"], "cards": ["GPU-1", "GPU-2"]}}, "cards"),
        ({"gpu": {**WIRE["gpu"], "mode": "exclusive", "cards": ["GPU-1", "GPU-1"]}}, "cards"),
        ({"privileged": True}, "privileged"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        SessionSpec.model_validate({**WIRE, **change})
    assert field in contract.explain(refusal.value)


def test_documents_are_frozen() -> None:
    document = SessionSpec.model_validate(WIRE)
    with pytest.raises(ValidationError, match="frozen"):
        document.run = 3  # type: ignore[misc]


def test_one_bad_document_hides_no_other() -> None:
    rows = [
        {"session": str(SESSION), "seq": 40, "spec": WIRE},
        {"session": str(uuid4()), "seq": 41, "spec": WIRE},
        {"session": str(SESSION), "seq": 42, "spec": None},
        "nonsense",
    ]
    feed, bad = DesiredFeed.read({"seq": 42, "documents": rows})
    assert [row.seq for row in feed.documents] == [40, 42]
    assert [row.where for row in bad] == ["documents[1]", "documents[3]"]
    assert "another session" in bad[0].why


@pytest.mark.parametrize("payload", [None, [], {"documents": []}, {"seq": -1}])
def test_what_is_no_feed_is_refused(payload: object) -> None:
    with pytest.raises(ValueError):
        DesiredFeed.read(payload)


def test_a_feed_goes_over_the_wire_unchanged() -> None:
    documents = (
        DesiredDocument(session=SESSION, seq=1, spec=SessionSpec.model_validate(WIRE)),
        DesiredDocument(session=uuid4(), seq=2, spec=None, run=3, generation=9),
        DesiredDocument(session=uuid4(), seq=3, spec=None),
    )
    feed = DesiredFeed(seq=3, documents=documents)
    assert DesiredFeed.read(json.loads(json.dumps(feed.to_wire()))) == (feed, ())


def report(**fields: Any) -> StatusReport:
    values = {"run": 1, "generation": 1, "sequence": 5, "phase": "running", "observed_at": NOW, "sent_at": NOW}
    return StatusReport.model_validate({**values, **fields})


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("reason", [None, *Reason])
def test_a_reason_belongs_to_its_phase(phase: Phase, reason: Reason | None) -> None:
    right = reason in contract.REASONS_OF[phase] if phase in contract.REASONS_OF else reason is None
    if right:
        assert report(phase=phase, reason=reason).reason is reason
    else:
        with pytest.raises(ValidationError, match="reason"):
            report(phase=phase, reason=reason)


def test_every_reason_is_of_failed_or_of_gone() -> None:
    assert set(Reason) == contract.REASONS_OF[Phase.FAILED] | contract.REASONS_OF[Phase.GONE]


def test_times_must_say_their_zone() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        report(sent_at="2026-11-30T12:00:00")


def test_a_long_message_keeps_its_end_and_loses_control_characters() -> None:
    message = report(message="é" * 5000 + "\x1b[31m\x00the end").message
    assert len(message.encode()) <= 2048
    assert message.endswith("the end")
    assert "\x1b" not in message


def test_newer_is_greater_run_then_generation_then_sequence() -> None:
    ordered = [
        report(run=1, generation=9, sequence=9),
        report(run=2, generation=1, sequence=1),
        report(run=2, generation=1, sequence=2),
        report(run=2, generation=2, sequence=1),
    ]
    assert ordered == sorted(ordered, key=lambda one: one.order)
    assert contract.is_newer(ordered[1], ordered[0].order)
    assert not contract.is_newer(ordered[1], ordered[1].order)
    assert contract.is_newer(ordered[0], None)


@given(st.integers(min_value=-1, max_value=2**60), st.integers(min_value=0, max_value=2**60))
def test_a_sequence_always_grows_and_is_at_least_the_clocks(last: int, milliseconds: int) -> None:
    following = contract.next_sequence(last, milliseconds)
    assert following > last
    assert following >= milliseconds


@given(st.uuids())
def test_a_sessions_name_leads_back_to_it(session: UUID) -> None:
    assert contract.session_of_name(contract.session_name(session)) == session


@pytest.mark.parametrize("name", ["", "s-", "s-0197", f"S-{SESSION.hex}", f"s-{SESSION}", f"s-{SESSION.hex}-access"])
def test_another_name_leads_to_no_session(name: str) -> None:
    with pytest.raises(ValueError, match="not a session"):
        contract.session_of_name(name)


def test_an_app_token_is_of_one_cluster_session_and_run() -> None:
    key, other = b"k" * 32, b"o" * 32
    tokens = {
        contract.app_token(key, SESSION, 1),
        contract.app_token(key, SESSION, 2),
        contract.app_token(key, uuid4(), 1),
        contract.app_token(other, SESSION, 1),
    }
    assert len(tokens) == 4
    assert contract.app_token(key, SESSION, 1) in tokens
    assert all(len(token) == 64 for token in tokens)


@pytest.mark.parametrize("text", ["127.0.0.1:8888", "[::1]:1", "unix:/srv/gshare/lab.sock"])
def test_an_endpoint_is_read_and_written_alike(text: str) -> None:
    assert str(parse_endpoint(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1:80",
        "0.0.0.0:80",
        "169.254.169.254:80",
        "localhost:80",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:٣",
        "unix:relative.sock",
        "unix:/srv/../etc/sock",
        "http://127.0.0.1:80",
        "",
    ],
)
def test_an_endpoint_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_endpoint(text)


def inventory(**fields: Any) -> dict[str, Any]:
    node = {"name": "n1", "ready": True, "cpu_milli": 1, "memory_mib": 1, "scratch_gib": 1, "cards": []}
    return {"contract_version": 1, "observed_at": "2026-11-30T12:00:00Z", "sent_at": "2026-11-30T12:00:00Z"} | {
        "nodes": [{**node, **fields}]
    }


def test_bad_rows_of_an_inventory_are_left_out_and_listed() -> None:
    card = {"uuid": "GPU-1", "index": 0, "model": "Tesla T4", "vram_mib": 15360, "slots": 10}
    body = inventory(cards=[card, {**card, "vram_mib": -1}])
    body["nodes"].append({"name": "Bad Name", "ready": True})
    body["sessions"] = [{"id": str(SESSION), "run": 1, "generation": 1, "phase": "running"}, {"id": "x"}]
    document, bad = Inventory.read(body)
    assert [[found.uuid for found in node.cards] for node in document.nodes] == [["GPU-1"]]
    assert [row.id for row in document.sessions] == [SESSION]
    assert [row.where for row in bad] == ["nodes[0].cards[1]", "nodes[1]", "sessions[1]"]


@pytest.mark.parametrize("change", [{"contract_version": 9}, {"sent_at": None}, {"observed_at": "2026-11-30"}])
def test_an_inventory_of_another_contract_or_without_times_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Inventory.read({**inventory(), **change})


@pytest.mark.parametrize(
    "activity",
    [
        None,
        "busy",
        {"at": "yesterday"},
        {"at": NOW.isoformat(), "gpu": {"source": "guess"}},
        {"at": NOW.isoformat(), "cpu_usec": "much"},
    ],
)
def test_an_activity_that_cannot_be_read_never_costs_the_row(activity: object) -> None:
    row = {"id": str(SESSION), "run": 1, "generation": 1, "phase": "running", "last_alive_at": NOW.isoformat()}
    document, bad = Inventory.read({**inventory(), "sessions": [{**row, "activity": activity}]})
    assert bad == ()
    assert document.sessions[0].last_alive_at == NOW
    assert document.sessions[0].activity is None


def test_what_a_run_does_travels_with_its_row() -> None:
    sample = contract.Activity(
        at=NOW,
        cpu_usec=12,
        gpu=contract.GpuUse(source=contract.GpuSource.HAMI, healthy=True, present=True, last_kernel_at=NOW),
        apps=(contract.AppUse(app="lab", busy=True),),
    )
    row = contract.SessionRow(id=SESSION, run=1, generation=1, phase=Phase.RUNNING, activity=sample)
    document, _bad = Inventory.read(json.loads(json.dumps({**inventory(), "sessions": [row.model_dump(mode="json")]})))
    assert document.sessions == (row,)
