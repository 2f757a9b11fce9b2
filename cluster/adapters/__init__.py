"""Adapters of `cluster.port`: one for each kind of cluster, found by `port_of`."""

from __future__ import annotations

from cluster.adapters.local import LocalCluster
from cluster.models import Cluster
from cluster.port import ClusterPort, Rejected


def port_of(cluster: Cluster) -> ClusterPort:
    """The port of a cluster. Raises Rejected for a kind that this installation cannot move."""
    if cluster.kind == Cluster.Kind.LOCAL:
        return LocalCluster(cluster)
    raise Rejected(f"clusters of kind {cluster.kind!r} cannot be moved by this installation")
