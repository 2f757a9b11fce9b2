"""Adapters of `cluster.port`: one for each kind of cluster, found by `port_of`."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from cluster.adapters.kube import kube_cluster
from cluster.adapters.local import LocalCluster
from cluster.domain.preflight import Expected, Finding, preflight
from cluster.models import Cluster, Volume
from cluster.port import ClusterPort, Rejected


def port_of(cluster: Cluster) -> ClusterPort:
    """The port of a cluster. Raises Rejected when it cannot be moved (its kind, its kubeconfig), Unavailable."""
    if cluster.kind == Cluster.Kind.LOCAL:
        return LocalCluster(cluster)
    if cluster.kind == Cluster.Kind.KUBE:
        return kube_cluster(cluster)
    raise Rejected(f"clusters of kind {cluster.kind!r} cannot be moved by this installation")


def examine(cluster: Cluster, *, now: datetime) -> tuple[Finding, ...]:
    """What keeps sessions from running on a cluster, in words, the gravest first; asked now, nothing is changed.

    Nothing of a local one: its operator looks after itself. Raises Rejected and Unavailable.
    """
    if cluster.kind != Cluster.Kind.KUBE:
        return ()
    classes = frozenset(cluster.storage_classes.get(kind, "") for kind in Volume.Kind.values)
    return preflight(kube_cluster(cluster).facts(now=now), Expected(storage_classes=classes))


def port_of_cluster(cluster_id: UUID) -> ClusterPort:
    """The port of a registered cluster by its id. Raises Rejected."""
    cluster = Cluster.objects.present().filter(pk=cluster_id).first()
    if cluster is None:
        raise Rejected(f"there is no cluster {cluster_id}")
    return port_of(cluster)
