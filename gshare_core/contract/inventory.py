"""What a cluster has: nodes, cards, what is bound, volumes and pods, once per beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, field_validator

from gshare_core.contract.activity import Activity
from gshare_core.contract.names import CONTRACT_VERSION, Phase, accepted_version
from gshare_core.contract.wire import (
    CLAIM_PATTERN,
    BadRow,
    CardMode,
    CardUuid,
    Document,
    Moment,
    Natural,
    NodeName,
    Percent,
    Positive,
    Small,
    Text,
    as_mapping,
    as_rows,
    read_rows,
)


class BoundShare(Document):
    """What one pod holds of a card; `session` is null for a pod that is not GShare's."""

    session: UUID | None
    vram_mib: Natural
    core_percent: Natural


class MigPlacement(Document):
    """Where on a card instances of a profile may start and how much of it one takes."""

    start: Natural
    size: Positive


class MigProfile(Document):
    """A profile that a card in MIG mode offers."""

    name: Text
    vram_mib: Positive
    core_percent: Percent
    placements: tuple[MigPlacement, ...] = ()


class CardRow(Document):
    """A card of a node; `slots` is how many sessions may share it, `core_percent` its whole (usually 100).

    `counted_mib` is what HAMi's scheduler itself counts as given away; None when it was not asked or did not say.
    """

    uuid: CardUuid
    index: Natural
    model: Annotated[Text, Field(min_length=1, max_length=200)]
    vram_mib: Positive
    core_percent: Positive = 100
    slots: Positive
    mode: CardMode = "hami-core"
    healthy: bool = True
    mig_profiles: tuple[MigProfile, ...] = ()
    bound: tuple[BoundShare, ...] = ()
    counted_mib: Natural | None = None


class NodeRow(Document):
    """A node with what it can give and its cards. `unschedulable`: its cluster places nothing new there."""

    name: NodeName
    labels: Mapping[Text, Text] = Field(default_factory=dict)
    ready: bool
    unschedulable: bool = False
    cpu_milli: Natural
    memory_mib: Natural
    scratch_gib: Natural
    yield_capable: bool = False
    cards: tuple[CardRow, ...] = ()


class VolumeRow(Document):
    """A storage claim that exists on the cluster."""

    claim: Annotated[str, Field(pattern=rf"^{CLAIM_PATTERN}$")]
    size_gib: Natural
    phase: Literal["Pending", "Bound", "Lost"] = "Bound"


class SessionRow(Document):
    """A pod that exists, also of an earlier run, with its own proof of life, and (optional) what it does.

    An `activity` that cannot be read is none: it never costs the row, whose proof of life bills and frees.
    """

    id: UUID
    run: Positive
    generation: Small
    phase: Phase
    last_alive_at: Moment | None = None
    activity: Activity | None = None

    @field_validator("activity", mode="wrap")
    @classmethod
    def _unreadable_is_none(cls, value: object, read: ValidatorFunctionWrapHandler) -> Activity | None:
        try:
            found: Activity | None = read(value)
        except ValidationError:
            return None
        return found


class Inventory(Document):
    """Body of `POST /internal/v1/inventory`: everything a cluster has, once per beat."""

    contract_version: int = CONTRACT_VERSION
    observed_at: Moment
    sent_at: Moment
    nodes: tuple[NodeRow, ...] = ()
    volumes: tuple[VolumeRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()

    @field_validator("contract_version")
    @classmethod
    def _version_is_known(cls, version: int) -> int:
        return accepted_version(version)

    @classmethod
    def read(cls, payload: object) -> tuple[Inventory, tuple[BadRow, ...]]:
        """The inventory and the rows that could not be read. Raises ValueError when version or times are wrong.

        A bad card is left out of its node, a bad node, volume or session out of its list.
        """
        body = as_mapping(payload, "inventory")
        bad: list[BadRow] = []
        nodes: list[object] = []
        for index, row in enumerate(as_rows(body.get("nodes", ()))):
            if isinstance(row, Mapping):
                cards, bad_cards = read_rows(CardRow, row.get("cards", ()), f"nodes[{index}].cards")
                bad += bad_cards
                nodes.append({**row, "cards": cards})
            else:
                nodes.append(row)
        good_nodes, bad_nodes = read_rows(NodeRow, nodes, "nodes")
        volumes, bad_volumes = read_rows(VolumeRow, body.get("volumes", ()), "volumes")
        sessions, bad_sessions = read_rows(SessionRow, body.get("sessions", ()), "sessions")
        head = {key: body.get(key) for key in ("contract_version", "observed_at", "sent_at")}
        document = cls.model_validate({**head, "nodes": good_nodes, "volumes": volumes, "sessions": sessions})
        return document, (*bad, *bad_nodes, *bad_volumes, *bad_sessions)
