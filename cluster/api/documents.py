"""How rows of this room look in the API, and what may be asked of their lists."""

from __future__ import annotations

from typing import Any

import django_filters
from django.conf import settings
from django.db.models import Count, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.api.documents import text, time
from cluster.domain.preflight.findings import Finding
from cluster.models import Card, Claim, Cluster, ModeChange, Node, NodeDrain, Pool, PoolGrant, Volume, VolumeShare
from gshare_core.kit.lists import Listing

_MILLI_PER_PERCENT = 10


def cluster(row: Cluster, *, whole: bool) -> dict[str, Any]:
    """A cluster: for who may use it its name and state, `whole` for who runs it. Never what a kubeconfig says."""
    brief = {"id": str(row.pk), "name": row.name, "kind": row.kind, "state": row.state}
    if not whole:
        return brief
    return {
        **brief,
        "kubeconfig": row.kubeconfig or None,
        "storage_classes": row.storage_classes,
        "created_at": time(row.created_at),
        "last_beat_at": time(row.last_beat_at),
        "sweep": {
            "held_since": time(row.sweep_held_at),
            "would_end": row.sweep_ends,
            "listed": row.sweep_listed,
            "confirmed": row.sweep_confirmed,
            "restored_at": time(row.restored_at),
        },
    }


def finding(found: Finding) -> dict[str, str]:
    """What a pre-flight test found."""
    return {
        "severity": found.severity,
        "code": found.code,
        "where": found.where,
        "words": found.words,
        "remedy": found.remedy,
    }


def nodes() -> QuerySet[Node]:
    """Registered nodes, with what `node` shows of them."""
    held = Claim.objects.holding().filter(node=OuterRef("pk")).order_by().values("node")
    counted = held.annotate(many=Count("session_id", distinct=True)).values("many")
    open_ones = Prefetch("drains", NodeDrain.objects.filter(closed_at=None), to_attr="open_drains")
    rows = Node.objects.filter(retired_at=None).prefetch_related(open_ones)
    return rows.annotate(sessions=Coalesce(Subquery(counted), 0))


def node(row: Any) -> dict[str, Any]:
    """A node as `nodes` reads it: `unschedulable` is what its own cluster says, `sessions` how many hold a part of it."""
    drain = next(iter(row.open_drains), None)
    return {
        "id": str(row.pk),
        "cluster": str(row.cluster_id),
        "pool": str(row.pool_id),
        "name": row.name,
        "labels": row.labels,
        "ready": row.is_ready,
        "not_ready_since": time(row.not_ready_since),
        "cordoned": row.is_cordoned,
        "unschedulable": row.is_unschedulable,
        "drain": drain and {"mode": drain.mode, "reason": drain.reason, "since": time(drain.changed_at)},
        "sessions": row.sessions,
        "missing_since": time(row.missing_since),
        "yield_capable": row.is_yield_capable,
        "cpu_milli": row.cpu_milli,
        "memory_mib": row.memory_mib,
        "scratch_gib": row.scratch_gib,
        "used": {
            "cpu_milli": row.used_cpu_milli,
            "memory_mib": row.used_memory_mib,
            "scratch_gib": row.used_scratch_gib,
        },
    }


def cards() -> QuerySet[Card]:
    """Registered cards, with what `card` shows of them."""
    open_ones = Prefetch("node__mode_changes", ModeChange.objects.filter(closed_at=None), to_attr="open_mode_changes")
    return Card.objects.filter(retired_at=None).select_related("node", "drift").prefetch_related(open_ones)


def mode_change(row: ModeChange) -> dict[str, Any]:
    """A change of how a node's cards are cut; `phase` and `message` are the operator's words."""
    return {
        "id": str(row.pk),
        "target": row.target,
        "state": row.state,
        "phase": row.phase or None,
        "message": row.message,
        "asked_at": time(row.asked_at),
        "since": time(row.stepped_at),
        "called_off": row.calls_off,
    }


def card(row: Any) -> dict[str, Any]:
    """A card as `cards` reads it; a drift is shown once it has lasted long enough to be alarmed."""
    drift = getattr(row, "drift", None)
    drift = drift if drift is not None and drift.alarmed_at is not None else None
    change = next(iter(row.node.open_mode_changes), None)
    return {
        "id": str(row.pk),
        "node": {"id": str(row.node_id), "name": row.node.name},
        "uuid": row.uuid,
        "index": row.index,
        "model": row.model,
        "vram_mib": row.vram_mib,
        "core_percent": row.core_milli // _MILLI_PER_PERCENT,
        "slots": row.slots,
        "mode": row.mode,
        "healthy": row.is_healthy,
        "draining": row.is_draining,
        "mode_change": change and mode_change(change),
        "missing_since": time(row.missing_since),
        "used": {"vram_mib": row.used_vram_mib, "core_milli": row.used_milli, "slots": row.used_slots},
        "foreign": {"vram_mib": row.foreign_vram_mib, "core_milli": row.foreign_milli, "slots": row.foreign_slots},
        "drift": drift and {"words": drift.words, "since": time(drift.since)},
    }


def pool(row: Pool, grants: list[PoolGrant], nodes: list[str]) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "cluster": str(row.cluster_id),
        "name": row.name,
        "shared": row.is_shared,
        "nodes": nodes,
        "grants": [grant(each) for each in grants],
    }


def grant(row: PoolGrant) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "pool": str(row.pool_id),
        "organisation": text(row.organisation_id),
        "group": text(row.group_id),
    }


def volume(row: Volume, *, mode: str | None, in_use: bool) -> dict[str, Any]:
    """A volume; `mode` is how the caller may mount it, None when he may only look after it."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "kind": row.kind,
        "access": row.access,
        "size_gib": row.size_gib,
        "cluster": str(row.cluster_id),
        "owner": {"id": str(row.owner_id), "email": row.owner.email} if row.owner else None,
        "group": text(row.group_id),
        "mode": mode,
        "in_use": in_use,
        "created_at": time(row.created_at),
        "deleted_at": time(row.deleted_at),
        "restorable_until": time(row.deleted_at + settings.GSHARE.volume_undo) if row.deleted_at else None,
    }


def share(row: VolumeShare) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "volume": str(row.volume_id),
        "user": {"id": str(row.user_id), "email": row.user.email, "name": row.user.name} if row.user else None,
        "group": text(row.group_id),
        "mode": row.mode,
        "created_at": time(row.created_at),
    }


# Lists ---------------------------------------------------------------------------------------------------------------


class ClusterFilters(django_filters.FilterSet):
    kind = django_filters.CharFilter()
    state = django_filters.CharFilter()


class NodeFilters(django_filters.FilterSet):
    pool = django_filters.UUIDFilter(field_name="pool_id")
    ready = django_filters.BooleanFilter(field_name="is_ready")
    cordoned = django_filters.BooleanFilter(field_name="is_cordoned")


class CardFilters(django_filters.FilterSet):
    node = django_filters.UUIDFilter(field_name="node_id")
    model = django_filters.CharFilter()
    healthy = django_filters.BooleanFilter(field_name="is_healthy")


class PoolFilters(django_filters.FilterSet):
    cluster = django_filters.UUIDFilter(field_name="cluster_id")
    shared = django_filters.BooleanFilter(field_name="is_shared")


class VolumeFilters(django_filters.FilterSet):
    kind = django_filters.CharFilter()
    access = django_filters.CharFilter()
    cluster = django_filters.UUIDFilter(field_name="cluster_id")
    group = django_filters.UUIDFilter(field_name="group_id")
    owner = django_filters.UUIDFilter(field_name="owner_id")


def volumes_asked_for(rows: QuerySet[Volume], deleted: bool) -> QuerySet[Volume]:
    """Live volumes, or those whose deletion can still be taken back."""
    return rows.filter(purged_at=None, deleted_at__isnull=not deleted)


CLUSTERS = Listing({"name": "name"}, "name", filters=ClusterFilters)
NODES = Listing({"name": "name"}, "name", filters=NodeFilters)
CARDS = Listing({"uuid": "uuid"}, "uuid", filters=CardFilters)
POOLS = Listing({"name": "name"}, "name", filters=PoolFilters)
VOLUMES = Listing({"name": "name", "created_at": "created_at"}, "-created_at", search=("name",), filters=VolumeFilters)
