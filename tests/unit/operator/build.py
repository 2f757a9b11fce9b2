"""Builders for the operator's tests: documents, pods, and a substrate that lives in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from cluster.operator.state import Pod
from gshare_core.contract import (
    Access,
    App,
    Deadlines,
    Desired,
    DesiredDocument,
    GpuShare,
    HostResources,
    NodeRow,
    SessionSpec,
    VolumeRow,
    session_name,
)

SESSION = UUID("0197f3c2-a1b2-7c4e-9d10-aabbccddeeff")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GRACE = 30


def spec(run: int = 1, generation: int = 1, desired: Desired = Desired.RUNNING, **fields: Any) -> SessionSpec:
    """The document of a CPU session; `gpu=` makes it one with a card."""
    session = fields.pop("session", SESSION)
    values: dict[str, Any] = {
        "session_id": session,
        "run": run,
        "generation": generation,
        "desired": desired,
        "session_class": "gpu" if fields.get("gpu") else "cpu",
        "image": "registry.example/jupyter@sha256:0",
        "apps": (App(name="lab", port=8888),),
        "resources": HostResources(cpu_milli=2000, memory_mib=4096, scratch_gib=10),
        "access": Access(host=f"{session}.example", token_secret=f"{session_name(session)}-access"),
        "deadlines": Deadlines(stop_grace_seconds=GRACE),
        **fields,
    }
    return SessionSpec(**values)


def gpu(node: str = "gpu-01", cards: tuple[str, ...] = ("GPU-1",), **fields: Any) -> GpuShare:
    """A quarter of a card."""
    values: dict[str, Any] = {"mode": "fractional", "vram_mib": 20389, "core_percent": 25, **fields}
    return GpuShare(node=node, cards=cards, **values)


def wants(run: int = 1, generation: int = 1, desired: Desired = Desired.RUNNING, **fields: Any) -> DesiredDocument:
    """A row of the feed."""
    seq = fields.pop("seq", generation)
    document = spec(run, generation, desired, **fields)
    return DesiredDocument(session=document.session_id, seq=seq, spec=document)


def tombstone(run: int | None = None, generation: int | None = None, seq: int = 99) -> DesiredDocument:
    """A row that wants nothing of the session any more."""
    return DesiredDocument(session=SESSION, seq=seq, spec=None, run=run, generation=generation)


def pod(run: int = 1, **fields: Any) -> Pod:
    """A living pod that is not ready yet."""
    values: dict[str, Any] = {
        "session": SESSION,
        "generation": 1,
        "name": f"{session_name(SESSION)}.{run}",
        "node": "gpu-01",
        "alive": True,
        "alive_at": NOW,
        **fields,
    }
    return Pod(run=run, **values)


def after(seconds: float) -> datetime:
    """A moment later than `NOW`."""
    return NOW + timedelta(seconds=seconds)


class MemorySubstrate:
    """Pods as values. A test moves them by `change`; everything else is the substrate's contract."""

    def __init__(self) -> None:
        self.pods: dict[tuple[UUID, int], Pod] = {}
        self.started: list[tuple[UUID, int]] = []
        self.opened: list[tuple[UUID, int]] = []
        self.stubborn = False
        self.made_open = True
        self.removed_volumes: list[str] = []

    async def observe(self, now: datetime) -> Sequence[Pod]:
        return self.look(now)

    def look(self, now: datetime) -> list[Pod]:
        self.pods = {key: replace(pod, alive_at=now) if pod.alive else pod for key, pod in self.pods.items()}
        return list(self.pods.values())

    def take_turn(self, spec: SessionSpec) -> None:
        """Nobody waits."""

    async def start(self, spec: SessionSpec, now: datetime) -> None:
        self.make(spec, now)

    async def open(self, spec: SessionSpec) -> None:
        self.lead_to(spec)

    def lead_to(self, spec: SessionSpec) -> None:
        self.opened.append((spec.session_id, spec.run))
        self.change(spec.session_id, spec.run, is_open=True)

    def make(self, spec: SessionSpec, now: datetime) -> None:
        key = (spec.session_id, spec.run)
        if key in self.pods:
            return
        self.started.append(key)
        self.pods[key] = pod(
            spec.run,
            session=spec.session_id,
            generation=spec.generation,
            alive_at=now,
            node=spec.pinned_node or "n1",
            is_open=self.made_open,
        )

    async def stop(self, session: UUID, run: int, now: datetime) -> None:
        self.ask_to_stop(session, run, now)

    def ask_to_stop(self, session: UUID, run: int, now: datetime) -> None:
        found = self.pods.get((session, run))
        if found is not None:
            since = found.stopping_since or now
            self.pods[(session, run)] = replace(found, stopping_since=since, alive=found.alive and self.stubborn)

    async def kill(self, session: UUID, run: int) -> None:
        self.end(session, run)

    def end(self, session: UUID, run: int) -> None:
        self.change(session, run, alive=False)

    async def remove(self, session: UUID, run: int) -> None:
        self.clear(session, run)

    def clear(self, session: UUID, run: int) -> None:
        found = self.pods.get((session, run))
        if found is not None and not found.alive:
            del self.pods[(session, run)]

    def change(self, session: UUID, run: int, **fields: Any) -> None:
        found = self.pods.get((session, run))
        if found is not None:
            self.pods[(session, run)] = replace(found, **fields)

    async def nodes(self, now: datetime) -> Sequence[NodeRow]:
        return [NodeRow(name="n1", ready=True, cpu_milli=8000, memory_mib=16384, scratch_gib=100)]

    async def volumes(self) -> Sequence[VolumeRow]:
        return []

    async def remove_volume(self, claim: str) -> None:
        self.removed_volumes.append(claim)
