"""What others ask of the metal: pools, places, mounts, documents, silence. Reads only, no locks but where it says so."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef
from pydantic import ValidationError

from cluster.domain.told import Told
from cluster.heartbeat import silent_for
from cluster.holdings import held_volumes, volumes_by_id
from cluster.models import (
    Attachment,
    Card,
    Claim,
    Cluster,
    Desired,
    Listing,
    Node,
    NodeDrain,
    Pool,
    PoolGrant,
    Sequence,
    Volume,
    VolumeDrain,
)
from cluster.pools import EligiblePools, KnownPools, PoolRow, known_pools
from cluster.volumes import (
    MountChoice,
    MountFact,
    mount_choices,
    mount_facts,
    mountable_volumes,
    unmountable,
    used_storage,
    used_storages,
    visible_volumes,
)
from gshare_core.contract import DesiredDocument, DesiredFeed, explain

logger = structlog.get_logger(__name__)

__all__ = [
    "ClaimRow",
    "EligiblePools",
    "KnownPools",
    "ListedPods",
    "MountChoice",
    "MountFact",
    "OpenNodeDrain",
    "OpenVolumeDrain",
    "PoolRow",
    "Swept",
    "Told",
    "cards_by_model",
    "cluster_exists",
    "cluster_kinds",
    "cluster_names",
    "cluster_states",
    "clusters_to_sweep",
    "cordoned_nodes",
    "desired_after",
    "documents_of",
    "held_claims",
    "held_volumes",
    "is_behind",
    "is_told",
    "known_pools",
    "lost_nodes",
    "mount_choices",
    "mount_facts",
    "mountable_volumes",
    "node_drain_is_open",
    "node_is_ready",
    "open_node_drains",
    "open_volume_drains",
    "orphaned",
    "pools_fingerprint",
    "refused_sweeps",
    "told",
    "unmountable",
    "used_storage",
    "used_storages",
    "visible_volumes",
    "volumes_by_id",
    "volumes_to_remove",
]

# Clusters, pools, nodes ----------------------------------------------------------------------------------------------


def pools_fingerprint() -> str:
    """Changes whenever a pool comes or goes, is shared or not, or is granted to somebody else."""
    pools = Pool.objects.filter(cluster__removed_at=None).order_by("pk").values_list("pk", "is_shared")
    grants = PoolGrant.objects.order_by("pk").values_list("pool_id", "group_id", "organisation_id")
    return hashlib.sha256(repr((list(pools), list(grants))).encode()).hexdigest()[:16]


def cluster_exists(cluster_id: UUID) -> bool:
    """Whether it is registered and not removed."""
    return Cluster.objects.present().filter(pk=cluster_id).exists()


def cluster_states() -> dict[UUID, str]:
    """The state of every registered cluster."""
    return dict(Cluster.objects.present().values_list("pk", "state"))


def cluster_names() -> dict[UUID, str]:
    """The registered clusters, by name."""
    return dict(Cluster.objects.present().order_by("name").values_list("pk", "name"))


def cluster_kinds() -> dict[UUID, str]:
    """The kind of every registered cluster: `local` or `kube`."""
    return dict(Cluster.objects.present().values_list("pk", "kind"))


def node_is_ready(cluster_id: UUID, node: str) -> bool:
    """Whether a node can be forced: its cluster talks to us and says that it is Ready."""
    nodes = Node.objects.filter(cluster_id=cluster_id, name=node, retired_at=None, is_ready=True)
    return nodes.filter(cluster__state=Cluster.State.CONNECTED).exists()


def lost_nodes(at: datetime) -> set[tuple[UUID, str]]:
    """Nodes of connected clusters that have not been Ready for `node_lost_after`, our own deafness apart."""
    longest = settings.GSHARE.node_lost_after
    quiet = Node.objects.filter(
        retired_at=None, is_ready=False, not_ready_since__lte=at - longest, cluster__state=Cluster.State.CONNECTED
    )
    return {
        (cluster_id, name)
        for cluster_id, name, since in quiet.values_list("cluster_id", "name", "not_ready_since")
        if since is not None and silent_for(since, at) >= longest
    }


def cordoned_nodes(cluster_id: UUID) -> list[str]:
    """The nodes that administrators cordoned here, for the cluster's own operator to cordon too."""
    nodes = Node.objects.filter(cluster_id=cluster_id, retired_at=None, is_cordoned=True)
    return list(nodes.order_by("name").values_list("name", flat=True))


@dataclass(frozen=True, slots=True)
class OpenNodeDrain:
    """A node that is being emptied: `stops` says how, `reason` is for the owners, `asked_by` for their timelines."""

    id: UUID
    cluster_id: UUID
    node: str
    stops: bool
    reason: str
    asked_by: str


def open_node_drains() -> list[OpenNodeDrain]:
    """The nodes that still have to be emptied, oldest asking first. `services.close_node_drain` closes one that is empty."""
    rows = NodeDrain.objects.filter(closed_at=None, node__retired_at=None).select_related("node").order_by("id")
    return [
        OpenNodeDrain(
            row.pk, row.node.cluster_id, row.node.name, row.mode == NodeDrain.Mode.STOP, row.reason, row.asked_by
        )
        for row in rows
    ]


def node_drain_is_open(intent_id: UUID) -> bool:
    """Whether the node still has to be emptied: one that is used again is not."""
    return NodeDrain.objects.filter(pk=intent_id, closed_at=None).exists()


def is_being_emptied(cluster_id: UUID, node: str) -> bool:
    """Whether somebody asked that what runs on a node leave it, and something may still be there."""
    return NodeDrain.objects.filter(closed_at=None, node__cluster=cluster_id, node__name=node).exists()


# Claims --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """What a run holds of one card, or of a node only."""

    run_id: UUID
    session_id: UUID
    cluster_id: UUID
    node: str
    card: str | None
    kind: str
    state: str
    vram_mib: int
    milli: int


def held_claims(run_ids: Iterable[UUID]) -> dict[UUID, list[ClaimRow]]:
    """What runs hold now, orphaned claims included."""
    claims = Claim.objects.holding().filter(run_id__in=list(run_ids)).select_related("node", "card")
    found: dict[UUID, list[ClaimRow]] = {}
    for claim in claims.order_by("run_id", "id"):
        row = ClaimRow(
            claim.run_id,
            claim.session_id,
            claim.node.cluster_id,
            claim.node.name,
            claim.card.uuid if claim.card else None,
            claim.kind,
            claim.state,
            claim.vram_mib,
            claim.milli,
        )
        found.setdefault(claim.run_id, []).append(row)
    return found


# Documents -----------------------------------------------------------------------------------------------------------


def desired_after(cluster_id: UUID, after: int) -> DesiredFeed:
    """A cluster's documents that changed after a number, oldest change first; all when the counter is behind it.

    The counter is read before the rows: every change up to it is committed, so a follower may go on from there.
    """
    last = Sequence.objects.filter(pk=cluster_id).values_list("last", flat=True).first() or 0
    rows = Desired.objects.filter(cluster_id=cluster_id).order_by("seq")
    if 0 < after <= last:
        rows = rows.filter(seq__gt=after)
    documents = tuple(document for row in rows if (document := _document(row)) is not None)
    newest = documents[-1].seq if documents else 0
    return DesiredFeed(seq=max(last, newest), documents=documents)


def is_behind(cluster_id: UUID, seen: int) -> bool:
    """Whether somebody has seen a number that the cluster's counter has not reached: this database was restored."""
    return seen > 0 and not Sequence.objects.filter(pk=cluster_id, last__gte=seen).exists()


def documents_of(cluster_id: UUID) -> list[DesiredDocument]:
    """Every document for a cluster that can be read."""
    rows = Desired.objects.filter(cluster_id=cluster_id).order_by("seq")
    return [document for row in rows if (document := _document(row)) is not None]


# What the sweep compares -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedPods:
    """The pods of a cluster's newest inventory, as (session, run, generation)."""

    observed_at: datetime
    is_complete: bool
    pods: tuple[tuple[UUID, int, int], ...]


@dataclass(frozen=True, slots=True)
class Swept:
    """A connected cluster as the sweep meets it. `confirmed` ends are meant; `restored_at`: the database may be older."""

    cluster_id: UUID
    restored_at: datetime | None
    confirmed: int
    listing: ListedPods | None


def clusters_to_sweep() -> list[Swept]:
    """The clusters that talk to us, by id, with what they last listed."""
    connected = Cluster.objects.present().filter(state=Cluster.State.CONNECTED).select_related("listing").order_by("pk")
    return [
        Swept(cluster.pk, cluster.restored_at, cluster.sweep_confirmed, _listed(getattr(cluster, "listing", None)))
        for cluster in connected
    ]


def _listed(row: Listing | None) -> ListedPods | None:
    if row is None:
        return None
    pods = tuple((UUID(session), run, generation) for session, run, generation in row.pods)
    return ListedPods(row.observed_at, row.is_complete, pods)


def told(cluster_id: UUID, *, session_id: UUID | None = None) -> dict[UUID, Told]:
    """What a cluster is told, by session; of one session, if given."""
    rows = Desired.objects.filter(cluster_id=cluster_id).order_by("session_id")
    if session_id is not None:
        rows = rows.filter(session_id=session_id)
    return {
        row.session_id: Told(row.run, row.generation, row.ends, row.written_at, row.spec is None, row.is_confirmed)
        for row in rows
    }


def is_told(session_id: UUID, cluster_id: UUID) -> bool:
    """Whether a cluster is told anything of a session, which makes the session its own."""
    return Desired.objects.filter(session_id=session_id, cluster_id=cluster_id).exists()


def orphaned(cluster_id: UUID) -> dict[UUID, tuple[int, int]]:
    """Of sessions with orphaned claims on a cluster the newest such run and its ending generation."""
    rows = Claim.objects.filter(state=Claim.State.ORPHANED, node__cluster_id=cluster_id)
    found: dict[UUID, tuple[int, int]] = {}
    for session_id, run, generation in rows.values_list("session_id", "run", "ending_generation"):
        found[session_id] = max(found.get(session_id, (0, 0)), (run, generation or 1))
    return found


def refused_sweeps() -> dict[str, int]:
    """The clusters, by name, whose sweep refuses to act, and how many pods it would end."""
    held = Cluster.objects.present().exclude(sweep_held_at=None).order_by("name")
    return dict(held.values_list("name", "sweep_ends"))


def _document(row: Desired) -> DesiredDocument | None:
    """The row as a document; one that this version cannot read is passed over, loudly, and stops no other."""
    tombstone = row.spec is None
    try:
        return DesiredDocument(
            session=row.session_id,
            seq=row.seq,
            spec=row.spec,
            run=row.run if tombstone else None,
            generation=row.generation if tombstone else None,
            confirmed=row.is_confirmed,
        )
    except ValidationError as error:
        logger.error("desired_document_unreadable", session=str(row.session_id), error=explain(error))  # noqa: TRY400 -- the values of a document are not for logs
        return None


def volumes_to_remove(cluster_id: UUID) -> list[str]:
    """Claims of volumes that were given up for good and that the cluster still has; none that a run still holds."""
    held = Attachment.objects.filter(volume=OuterRef("pk"), released_at=None)
    pending = Volume.objects.filter(~Exists(held), cluster_id=cluster_id, purged_at__isnull=False, removed_at=None)
    return list(pending.order_by("claim").values_list("claim", flat=True))


@dataclass(frozen=True, slots=True)
class OpenVolumeDrain:
    """A volume to which somebody lost a right; what mounts it without one must still be ended above."""

    id: UUID
    volume_id: UUID
    changed_at: datetime


def open_volume_drains(*, limit: int = 100) -> list[OpenVolumeDrain]:
    """What still has to be drained, oldest first. `services.close_volume_drain` closes one that a pass found nothing for."""
    rows = VolumeDrain.objects.filter(closed_at=None).order_by("id")[:limit]
    return [OpenVolumeDrain(row.pk, row.volume_id, row.changed_at) for row in rows]


# Capacity ------------------------------------------------------------------------------------------------------------


def cards_by_model() -> Mapping[str, int]:
    """Registered healthy cards per model string, for the catalogue's screens."""
    found: dict[str, int] = {}
    cards = Card.objects.filter(retired_at=None, is_healthy=True, node__cluster__removed_at=None)
    for model in cards.values_list("model", flat=True):
        found[model] = found.get(model, 0) + 1
    return found
