"""Handing documents to clusters that do not fetch them: what changed since the last time, in the order of the commits.

Guarantees: every document was tried before a later one of its cluster counts as delivered; a cluster that cannot be reached
keeps its place, and delays others by its first time-outs only; a document that a cluster will never take stops none behind
it and is named in the log. Calls are made outside every transaction. Doing it twice changes nothing.
A hint after each commit makes it prompt; this tick, and the sweep that compares everything, make it certain.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog

from cluster.adapters import port_of_cluster
from cluster.models import Cluster
from cluster.port import ClusterPort, PortError, Rejected
from cluster.queries import desired_after
from gshare_core.contract import DesiredDocument

logger = structlog.get_logger(__name__)


def deliver(ports: Callable[[UUID], ClusterPort] = port_of_cluster) -> int:
    """One pass over the clusters that are written to; answers how many documents they were told. A tick."""
    written_to = Cluster.objects.present().filter(kind=Cluster.Kind.KUBE).order_by("pk")
    return sum(_deliver(cluster, after, ports) for cluster, after in written_to.values_list("pk", "delivered_seq"))


def _deliver(cluster_id: UUID, after: int, ports: Callable[[UUID], ClusterPort]) -> int:
    feed = desired_after(cluster_id, after)
    told, reached = 0, after
    try:
        for document in feed.documents:
            told += _apply(ports(cluster_id), document)
            reached = document.seq
        reached = feed.seq
    except PortError as error:
        logger.warning("documents_not_delivered", cluster=str(cluster_id), error=str(error), left_from=reached)
    if reached != after:
        Cluster.objects.filter(pk=cluster_id).update(delivered_seq=reached)
    return told


def _apply(port: ClusterPort, document: DesiredDocument) -> bool:
    try:
        port.apply(document)
    except Rejected as error:
        logger.error("document_refused", session=str(document.session), seq=document.seq, error=str(error))  # noqa: TRY400 -- the refusal says it all
        return False
    return True
