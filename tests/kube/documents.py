"""Documents of sessions for tests that send them to an API server."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from gshare_core.contract import API_GROUP, PLURAL_MODE_CHANGES, PLURAL_SESSIONS, DesiredDocument, SessionSpec
from gshare_core.contract.resources import session_resource
from gshare_core.ids import uuid7
from tests.kube.rest import JSON

CARD = "GPU-0a1b2c3d-0000-4000-8000-000000000001"


def a_card_share(**fields: Any) -> JSON:
    """A quarter of a card."""
    known = {"mode": "fractional", "node": "gpu-01", "cards": [CARD], "vramMib": 20480, "corePercent": 25}
    return known | {"borrowed": False} | fields


def a_session(session: UUID | None = None, **fields: Any) -> JSON:
    """The resource of a session with a quarter of a card; `fields` replace parts of its spec, None takes them away."""
    session = session or uuid7()
    spec: JSON = {
        "contractVersion": 1,
        "sessionId": str(session),
        "run": 1,
        "generation": 1,
        "desired": "Running",
        "class": "gpu",
        "image": "registry.example/lab@sha256:" + "0" * 64,
        "apps": [{"name": "lab", "port": 8888}, {"name": "terminal", "port": 7681}],
        "resources": {"cpuMilli": 4000, "memoryMib": 8192, "scratchGib": 50},
        "gpu": a_card_share(),
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
        "access": {"host": f"{session}.sessions.example", "tokenSecret": f"s-{session.hex}-access"},
        "privileged": False,
        "deadlines": {"startSeconds": 600, "pullSeconds": 1800, "stopGraceSeconds": 120},
    }
    spec = {name: value for name, value in (spec | fields).items() if value is not None}
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "GShareSession",
        "metadata": {"name": f"s-{session.hex}"},
        "spec": spec,
    }


def a_tombstone(session: UUID, *, run: int = 1, generation: int = 1, confirmed: bool = False) -> JSON:
    """The resource of a session of which nothing is wanted."""
    document = DesiredDocument(session=session, seq=0, spec=None, run=run, generation=generation, confirmed=confirmed)
    return session_resource(document)


def spec_of(resource: JSON) -> SessionSpec:
    """What the models read of it."""
    return SessionSpec.model_validate(resource["spec"])


def sessions(namespace: str, name: str = "") -> str:
    """Where session resources are."""
    return f"/apis/{API_GROUP}/v1/namespaces/{namespace}/{PLURAL_SESSIONS}" + (f"/{name}" if name else "")


def mode_changes(namespace: str, name: str = "") -> str:
    """Where mode changes are."""
    return f"/apis/{API_GROUP}/v1/namespaces/{namespace}/{PLURAL_MODE_CHANGES}" + (f"/{name}" if name else "")
