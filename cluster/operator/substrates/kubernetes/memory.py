"""The operator's memory on Kubernetes: in the status of each session's resource, so that whoever leads next has it.

Guarantees: after `saved` returns, the memory survives this process and its node; only the lead writes it. What cannot be
written now raises `Unavailable`, and nothing is done that relies on it. The rest of the status says to people what the
latest report said to the control plane.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from cluster.operator.state import Memory, Unavailable
from cluster.operator.store import Known
from cluster.operator.substrates.kubernetes.api import SESSIONS, Api, Document, Refused
from cluster.operator.substrates.kubernetes.reflector import Reflector
from gshare_core.contract import FINALIZER, Phase, ResourcePhase, session_name
from gshare_core.contract.resources import Condition, SessionStatus, wire

log = logging.getLogger(__name__)

_PHASES = {
    Phase.PULLING: ResourcePhase.PULLING,
    Phase.STARTING: ResourcePhase.STARTING,
    Phase.RUNNING: ResourcePhase.RUNNING,
    Phase.TERMINATING: ResourcePhase.TERMINATING,
    Phase.GONE: ResourcePhase.GONE,
    Phase.FAILED: ResourcePhase.FAILED,
    Phase.EXITED: ResourcePhase.FAILED,
}


class ResourceStore(Known):
    """All memories; the same verbs as `Store`. `load` once the resources have been listed."""

    def __init__(self, api: Api, namespace: str, resources: Reflector) -> None:
        super().__init__()
        self._api, self._namespace, self._resources = api, namespace, resources

    def load(self) -> None:
        """Take in what the resources' statuses remember."""
        for name, item in self._resources.objects.items():
            notes = (item.get("status") or {}).get("memory")
            if notes is None:
                continue
            try:
                memory = Memory.model_validate_json(notes)
            except ValidationError:
                log.exception("the memory of %s cannot be read; what runs is looked at afresh", name)
                continue
            if memory.session not in self._memories:
                self._keep(memory)

    def put(self, memory: Memory) -> None:
        """Remember; durable once `saved` has returned.

        A proof of life, and that a report was taken, are written with the next change: a report that is sent again changes nothing.
        """
        known = self._memories.get(memory.session)
        self._keep(memory)
        if known is None or _deciding(known) != _deciding(memory):
            self._unwritten.add(memory.session)

    def forget(self, session: UUID) -> None:
        """Nothing of the session is left to know."""
        self._drop(session)

    def flush(self) -> None:
        """Proof of life is written with the next change: the control plane has it by the inventory."""

    def is_unsaved(self, session: UUID) -> bool:
        """Whether something that matters is not durable yet."""
        return session in self._unwritten

    async def saved(self, session: UUID) -> None:
        """Returns once the session's memory is in the cluster. Raises `Unavailable`.

        What has no resource (it was deleted by hand, with its finalizer) is remembered by this process alone.
        """
        if session not in self._unwritten:
            return
        name, memory = session_name(session), self._memories[session]
        if name not in self._resources.objects or not memory.records:
            return
        try:
            written = await self._api.merge(
                SESSIONS, self._namespace, name, {"status": _status(memory)}, subresource="status"
            )
        except Refused as refusal:
            if refusal.status != 404:
                raise Unavailable(f"the status of {name} is refused: {refusal}") from refusal
            return
        self._resources.wrote(written)
        if self._memories.get(session) is memory:
            self._unwritten.discard(session)

    async def let_go(self, session: UUID) -> None:
        """Nothing of the session is left here: the resource may go, if its end was asked for. Raises `Unavailable`."""
        name = session_name(session)
        item = self._resources.objects.get(name)
        if item is None or not item["metadata"].get("deletionTimestamp"):
            return
        await self._finalize(item, keep=False)

    async def hold(self, session: UUID) -> None:
        """The resource shall not go before what runs for it has. Raises `Unavailable`."""
        item = self._resources.objects.get(session_name(session))
        if item is not None and FINALIZER not in _finalizers(item) and not item["metadata"].get("deletionTimestamp"):
            await self._finalize(item, keep=True)

    async def _finalize(self, item: Document, *, keep: bool) -> None:
        metadata = item["metadata"]
        others = [name for name in _finalizers(item) if name != FINALIZER]
        wanted = [*others, FINALIZER] if keep else others
        changes = {"metadata": {"finalizers": wanted, "resourceVersion": metadata["resourceVersion"]}}
        try:
            written = await self._api.merge(SESSIONS, self._namespace, metadata["name"], changes)
        except Refused as refusal:
            if refusal.status == 404:
                return
            raise Unavailable(f"the finalizer of {metadata['name']}: {refusal}") from refusal
        if keep:
            self._resources.wrote(written)


def _deciding(memory: Memory) -> list[dict[str, Any]]:
    """What of a memory decides what is done: that has to be durable first."""
    return [record.but_proof() | {"acknowledged": 0} for record in memory.records]


def _finalizers(item: Document) -> list[str]:
    return list(item["metadata"].get("finalizers") or ())


def _status(memory: Memory) -> dict[str, Any]:
    """The newest run for people; everything, for the next operator, as notes. None takes a field away."""
    notes = {"memory": memory.model_dump_json()}
    newest = max(memory.records, key=lambda record: record.run)
    report = newest.report
    status = SessionStatus(
        observed_generation=newest.generation,
        run=newest.run,
        phase=_PHASES[report.phase] if report else ResourcePhase.PENDING,
        reason=str(report.reason or "") if report else "",
        message=report.message[:500] if report else "",
        pod=newest.pod,
        node=newest.node,
        cards=newest.cards,
        mig=newest.mig,
        ready_at=newest.ready_at,
        last_alive_at=newest.last_alive_at,
        sequence=report.sequence if report else 0,
        acknowledged=max(newest.acknowledged, 0),
        conditions=(_condition("PodReady", report is not None and report.phase is Phase.RUNNING),),
    )
    absent = dict.fromkeys(("pod", "node", "mig", "readyAt", "lastAliveAt"))
    return absent | wire(status) | notes


def _condition(kind: str, holds: bool) -> Condition:
    return Condition(type=kind, status="True" if holds else "False")
