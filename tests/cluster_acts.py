"""Short forms of what sessions do to the metal, for tests that do it often."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection

from cluster import services
from cluster.domain.placement import NoPlace, Request
from cluster.models import Cluster, Pool
from cluster.sequence import record_change
from cluster.services.claims import Reserved
from gshare_core.contract import SessionSpec
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered


def a_quarter(**fields: Any) -> Request:
    """A quarter of an 80 GiB card."""
    values = {"vram_mib": 20_480, "core_percent": 25, "cpu_milli": 4_000, "memory_mib": 16_384, "scratch_gib": 20}
    return Request(**values | fields)


def take(
    request: Request, *, session_id: UUID | None = None, run_id: UUID | None = None, run: int = 1
) -> Reserved | NoPlace:
    """Reserve in a transaction of its own."""
    with ordered():
        return services.reserve(
            request=request,
            session_id=session_id or uuid7(),
            run_id=run_id or uuid7(),
            run=run,
            at=clock.now(),
        )


def release(run_id: UUID) -> bool:
    """Give back in a transaction of its own."""
    with ordered():
        return services.release_claims(run_id, at=clock.now())


def orphan(run_id: UUID, *, generation: int) -> bool:
    """Orphan in a transaction of its own."""
    with ordered():
        return services.orphan_claims(run_id, generation=generation)


def a_pool(cluster: Cluster, name: str, *, is_shared: bool = False) -> Pool:
    """A pool that every process knows of."""
    with ordered():
        pool = Pool.objects.create(cluster=cluster, name=name, is_shared=is_shared)
        record_change(cluster.pk)
    return pool


def a_spec(session: UUID, *, run: int = 1, generation: int = 1, desired: str = "Running", **fields: Any) -> SessionSpec:
    """The document of a session without a card."""
    values = {
        "session_id": session,
        "run": run,
        "generation": generation,
        "desired": desired,
        "session_class": "cpu",
        "image": "registry.example/lab@sha256:" + "0" * 64,
        "apps": [{"name": "lab", "port": 8888}],
        "resources": {"cpu_milli": 1_000, "memory_mib": 1_024, "scratch_gib": 1},
        "access": {"host": f"{session}.localhost", "token_secret": f"s-{session.hex}-access"},
    }
    return SessionSpec(**values | fields)


def want(
    cluster: Cluster,
    spec: SessionSpec | None,
    *,
    session: UUID | None = None,
    run: int | None = None,
    generation: int | None = None,
) -> int | None:
    """Write a document in a transaction of its own."""
    with ordered():
        return services.write_desired(
            session_id=spec.session_id if spec else session or uuid7(),
            cluster_id=cluster.pk,
            spec=spec,
            at=clock.now(),
            run=run,
            generation=generation,
        )


def release_connection() -> None:
    """Close this thread's connection; for threads that end."""
    connection.close()
