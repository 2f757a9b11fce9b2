"""What the control plane wants: the spec of a session, the feed of changed documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, field_validator, model_validator

from gshare_core.contract.names import CONTRACT_VERSION, Desired, accepted_version
from gshare_core.contract.wire import (
    CLAIM_PATTERN,
    PATH_PATTERN,
    AccessMode,
    AppName,
    BadRow,
    CardUuid,
    Document,
    Natural,
    NodeName,
    Percent,
    Positive,
    Resource,
    as_mapping,
    as_rows,
    read_rows,
)

APPS_MAX, CARDS_MAX, MOUNTS_MAX = 3, 16, 16


class App(Resource):
    """An application that the image serves and the port it listens on inside a pod."""

    name: AppName
    port: Annotated[int, Field(ge=1, le=65535)]


class HostResources(Resource):
    """What the run may use of its node beside cards."""

    cpu_milli: Positive
    memory_mib: Positive
    scratch_gib: Natural


class MigSlice(Resource):
    """A MIG instance: its profile, such as ``1g.10gb``, and where it starts on the card."""

    profile: Annotated[str, Field(min_length=1, max_length=63)]
    start: Natural


class GpuShare(Resource):
    """The pinned part of one card, or whole cards of one node."""

    mode: Literal["fractional", "exclusive"]
    node: NodeName
    cards: Annotated[tuple[CardUuid, ...], Field(min_length=1, max_length=CARDS_MAX)]
    vram_mib: Positive
    core_percent: Percent
    mig: MigSlice | None = None
    borrowed: bool = False

    @model_validator(mode="after")
    def _cards_fit_mode(self) -> Self:
        if len(set(self.cards)) != len(self.cards):
            raise ValueError("cards: each card once")
        if self.mode == "fractional" and len(self.cards) != 1:
            raise ValueError("cards: a fractional share is of one card")
        return self


class Mount(Resource):
    """A volume's claim at a path of the session."""

    claim: Annotated[str, Field(pattern=rf"^{CLAIM_PATTERN}$")]
    mount_path: Annotated[str, Field(max_length=255, pattern=rf"^{PATH_PATTERN}$")]
    read_only: bool = False
    size_gib: Positive
    storage_class: Annotated[str, Field(max_length=253)] = ""
    access_mode: AccessMode = "ReadWriteOnce"

    @field_validator("mount_path")
    @classmethod
    def _path_is_plain(cls, path: str) -> str:
        # The gate checks more (which roots are allowed); this is the operator's own guard against climbing out.
        if {".", ".."} & set(path.split("/")):
            raise ValueError("an absolute path of plain segments is needed")
        return path


class Access(Resource):
    """The host name of the session's own origin and the secret with its app token."""

    host: Annotated[str, Field(min_length=1, max_length=253)]
    token_secret: Annotated[str, Field(min_length=1, max_length=253)]


class Deadlines(Resource):
    """How long starting, pulling an image and ending in peace may take."""

    start_seconds: Positive = 600
    pull_seconds: Positive = 1800
    stop_grace_seconds: Natural = 120


class SessionSpec(Resource):
    """The desired document of a session: `spec` of the custom resource.

    `node` pins a run without a card; with a card `gpu.node` says it. Newer means greater (run, generation). `group` and
    `organisation` become labels of the custom resource.
    """

    contract_version: int = CONTRACT_VERSION
    session_id: UUID
    run: Positive
    generation: Positive
    desired: Desired
    session_class: Annotated[Literal["gpu", "cpu"], Field(alias="class")]
    image: Annotated[str, Field(min_length=1, max_length=512)]
    apps: Annotated[tuple[App, ...], Field(min_length=1, max_length=APPS_MAX)]
    resources: HostResources
    gpu: GpuShare | None = None
    node: NodeName | None = None
    volumes: Annotated[tuple[Mount, ...], Field(max_length=MOUNTS_MAX)] = ()
    access: Access
    privileged: bool = False
    deadlines: Deadlines = Deadlines()
    group: UUID | None = None
    organisation: UUID | None = None

    @field_validator("contract_version")
    @classmethod
    def _version_is_known(cls, version: int) -> int:
        return accepted_version(version)

    @model_validator(mode="after")
    def _class_fits_gpu(self) -> Self:
        if (self.session_class == "gpu") != (self.gpu is not None):
            raise ValueError("class gpu needs gpu, class cpu has none")
        if self.privileged and self.gpu is not None:
            raise ValueError("privileged: a privileged session has no gpu")
        return self

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        for what, names in (
            ("apps", [app.name for app in self.apps]),
            ("volumes", [mount.mount_path for mount in self.volumes]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"{what}: each once")
        return self

    @property
    def order(self) -> tuple[int, int]:
        """What makes one document newer than another."""
        return (self.run, self.generation)

    @property
    def pinned_node(self) -> str | None:
        """The node that the run must be on, if it was chosen."""
        return self.gpu.node if self.gpu else self.node


class DesiredDocument(Document):
    """One row of the feed; without `spec` it is a tombstone: nothing of the session is wanted.

    A tombstone may name the `run` and `generation` that it ends, so that an operator that knows nothing of it (its
    state was lost) can still report them gone. `confirmed`: an administrator has said that so many ends are meant.
    """

    session: UUID
    seq: Natural
    spec: SessionSpec | None
    run: Positive | None = None
    generation: Positive | None = None
    confirmed: bool = False

    @model_validator(mode="after")
    def _spec_is_of_this_session(self) -> Self:
        if self.spec is not None and self.spec.session_id != self.session:
            raise ValueError("the spec is of another session")
        return self

    def to_wire(self) -> dict[str, Any]:
        """The JSON row of `GET /internal/v1/desired`."""
        row: dict[str, Any] = {"session": str(self.session), "seq": self.seq}
        row["spec"] = self.spec.to_wire() if self.spec else None
        if self.spec is None and self.run is not None:
            row |= {"run": self.run, "generation": self.generation}
        if self.spec is None and self.confirmed:
            row["confirmed"] = True
        return row


class RemovedVolume(Document):
    """A claim whose volume was given up for good."""

    claim: Annotated[str, Field(pattern=rf"^{CLAIM_PATTERN}$")]


class DesiredFeed(Document):
    """Answer of `GET /internal/v1/desired`: changed documents in the order of `seq`, and the newest `seq` there is.

    `removed_volumes`: every claim that was given up and that the cluster still had when it last said what it has.
    `cordoned_nodes`: the nodes that administrators cordoned over here; None says nothing about them.
    """

    seq: Natural
    documents: tuple[DesiredDocument, ...] = ()
    removed_volumes: tuple[str, ...] = ()
    cordoned_nodes: tuple[str, ...] | None = None

    @classmethod
    def read(cls, payload: object) -> tuple[DesiredFeed, tuple[BadRow, ...]]:
        """The feed and the rows that could not be read. Raises ValueError when it is no feed at all."""
        body = as_mapping(payload, "feed")
        documents, bad = read_rows(DesiredDocument, body.get("documents", ()), "documents")
        claims = [{"claim": claim} for claim in as_rows(body.get("removed_volumes", ()))]
        nodes = body.get("cordoned_nodes")
        removed, bad_claims = read_rows(RemovedVolume, claims, "removed_volumes")
        feed = cls(
            seq=body.get("seq", -1),
            documents=documents,
            removed_volumes=tuple(row.claim for row in removed),
            cordoned_nodes=tuple(name for name in nodes if isinstance(name, str)) if isinstance(nodes, list) else None,
        )
        return feed, (*bad, *bad_claims)

    def to_wire(self) -> dict[str, Any]:
        """The JSON answer."""
        return {
            "seq": self.seq,
            "documents": [document.to_wire() for document in self.documents],
            "removed_volumes": list(self.removed_volumes),
        } | ({} if self.cordoned_nodes is None else {"cordoned_nodes": list(self.cordoned_nodes)})
