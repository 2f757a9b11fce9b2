"""The custom resources as documents: `GShareSession` and `GpuModeChange`, to and from what Kubernetes keeps.

Guarantees: `session_resource` and `document_of` are each other's inverse (apart from `seq`, which is the feed's); fields
without a value are left out, since Kubernetes has no nulls here. A tombstone is a resource that keeps nothing but its order
(`run`, `generation`), `desired: Stopped` and `tombstone`.
Refuses: a resource whose name is not its session's, and what `SessionSpec` refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, ValidationError, model_validator

from gshare_core.contract.desired import CARDS_MAX, DesiredDocument, MigSlice, SessionSpec
from gshare_core.contract.names import (
    API_VERSION,
    CONTRACT_VERSION,
    FINALIZER,
    KIND_MODE_CHANGE,
    KIND_SESSION,
    LABEL_GROUP,
    LABEL_ORGANISATION,
    LABEL_SESSION,
    MESSAGE_BYTES,
    Desired,
    ModeChangePhase,
    ResourcePhase,
    accepted_version,
    session_name,
)
from gshare_core.contract.wire import CardUuid, Moment, Natural, NodeName, Positive, Resource, as_mapping, explain


class Tombstone(Resource):
    """Nothing of the session is wanted. `confirmed`: an administrator has said that so many ends are meant."""

    confirmed: bool = False


class Ended(Resource):
    """`spec` of a session's resource that is a tombstone: the order that it ends, and nothing to run."""

    contract_version: int = CONTRACT_VERSION
    session_id: UUID
    run: Positive
    generation: Positive
    desired: Literal[Desired.STOPPED] = Desired.STOPPED
    tombstone: Tombstone

    @model_validator(mode="after")
    def _version_is_known(self) -> Ended:
        accepted_version(self.contract_version)
        return self


class Condition(Resource):
    """One condition, in Kubernetes' own form."""

    type: Annotated[str, Field(min_length=1, max_length=63)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=1024)] = ""
    message: Annotated[str, Field(max_length=MESSAGE_BYTES)] = ""
    last_transition_time: Moment | None = None


class SessionStatus(Resource):
    """`status` of a session's resource, written by the operator only: its current run as it was last seen.

    `sequence` is that of the latest report of the run, `acknowledged` the latest that the control plane has accepted.
    `memory` is what the operator notes for whoever leads after it; nobody else reads it.
    """

    observed_generation: Positive
    run: Positive
    phase: ResourcePhase
    reason: Annotated[str, Field(max_length=63)] = ""
    message: Annotated[str, Field(max_length=MESSAGE_BYTES)] = ""
    pod: Annotated[str, Field(max_length=253)] | None = None
    node: Annotated[str, Field(max_length=253)] | None = None
    cards: Annotated[tuple[CardUuid, ...], Field(max_length=CARDS_MAX)] = ()
    mig: MigSlice | None = None
    ready_at: Moment | None = None
    last_alive_at: Moment | None = None
    sequence: Natural = 0
    acknowledged: Natural = 0
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    memory: Annotated[str, Field(max_length=65_536)] | None = None


class ModeChange(Resource):
    """`spec` of a mode change: these cards of this node shall be cut by MIG, or shared by HAMi's core again."""

    node: NodeName
    card_uuids: Annotated[tuple[CardUuid, ...], Field(min_length=1, max_length=CARDS_MAX)]
    target_mode: Literal["mig", "hami-core"]

    @model_validator(mode="after")
    def _cards_are_distinct(self) -> ModeChange:
        if len(set(self.card_uuids)) != len(self.card_uuids):
            raise ValueError("cardUuids: each card once")
        return self


class ModeChangeStatus(Resource):
    """`status` of a mode change, written by the operator only.

    `begun`: something on the node was changed, so it can no longer be withdrawn. `since` is when the phase began, `plugin`
    the uid of the device plugin's pod that has to go: both are for whoever leads after this operator.
    """

    phase: ModeChangePhase
    message: Annotated[str, Field(max_length=MESSAGE_BYTES)] = ""
    begun: bool = False
    since: Moment | None = None
    plugin: Annotated[str, Field(max_length=63)] | None = None


def session_resource(document: DesiredDocument) -> dict[str, Any]:
    """The resource that says this document. Raises ValueError for a tombstone that does not say what it ends.

    It is born with the operator's finalizer, so that no instant is left in which it could go while something runs for it,
    and no start has to write it.
    """
    labels = {LABEL_SESSION: str(document.session)}
    if document.spec is not None:
        spec = wire(document.spec)
        owners = {LABEL_GROUP: document.spec.group, LABEL_ORGANISATION: document.spec.organisation}
        labels |= {label: str(owner) for label, owner in owners.items() if owner is not None}
    elif document.run is None or document.generation is None:
        raise ValueError("a tombstone must say which run and generation it ends")
    else:
        tombstone = Tombstone(confirmed=document.confirmed)
        spec = wire(
            Ended(session_id=document.session, run=document.run, generation=document.generation, tombstone=tombstone)
        )
    metadata = {"name": session_name(document.session), "labels": labels, "finalizers": [FINALIZER]}
    return {"apiVersion": API_VERSION, "kind": KIND_SESSION, "metadata": metadata, "spec": spec}


def mode_change_resource(name: str, change: ModeChange) -> dict[str, Any]:
    """The resource of a mode change."""
    return {"apiVersion": API_VERSION, "kind": KIND_MODE_CHANGE, "metadata": {"name": name}, "spec": wire(change)}


def mode_change_of(resource: Mapping[str, Any]) -> tuple[ModeChange, ModeChangeStatus | None]:
    """What a mode change wants, and what the operator has written of it. Raises ValueError naming the field."""
    body = as_mapping(resource, "resource")
    try:
        change = ModeChange.model_validate(body.get("spec"))
        status = ModeChangeStatus.model_validate(body["status"]) if body.get("status") else None
    except ValidationError as error:
        raise ValueError(explain(error)) from None
    return change, status


def document_of(resource: object) -> DesiredDocument:
    """What a session's resource says, read from the cluster. Raises ValueError naming the field, never its content."""
    body = as_mapping(resource, "resource")
    metadata, spec = as_mapping(body.get("metadata"), "metadata"), as_mapping(body.get("spec"), "spec")
    try:
        if "tombstone" in spec:
            ended = Ended.model_validate(spec)
            document = DesiredDocument(
                session=ended.session_id,
                seq=0,
                spec=None,
                run=ended.run,
                generation=ended.generation,
                confirmed=ended.tombstone.confirmed,
            )
        else:
            read = SessionSpec.model_validate(spec)
            document = DesiredDocument(session=read.session_id, seq=0, spec=read)
    except ValidationError as error:
        raise ValueError(explain(error)) from None
    if metadata.get("name") != session_name(document.session):
        raise ValueError("metadata.name: not the name of the session")
    return document


def status_of(resource: Mapping[str, Any]) -> SessionStatus | None:
    """What the operator has written of a session, if anything that can be read."""
    try:
        return SessionStatus.model_validate(resource.get("status"))
    except ValidationError:
        return None


def wire(part: Resource) -> dict[str, Any]:
    """A part of a resource as Kubernetes keeps it: camelCase, without fields that have no value."""
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)
