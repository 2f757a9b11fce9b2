"""Hints of this room: which task to wake when its rows changed. Losing one costs latency, never truth."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from django.db import transaction

from cluster.models import Cluster
from gshare_core.kit import wake

DELIVER = "cluster.deliver"


def document_written(cluster_id: UUID) -> None:
    """What is wanted of a session changed: a cluster that does not fetch its documents is told after the commit."""
    transaction.on_commit(lambda: _wake_deliverer(cluster_id), robust=True)


def _wake_deliverer(cluster_id: UUID) -> None:
    if _is_written_to(cluster_id):
        wake.after_commit(DELIVER)


@lru_cache(maxsize=1024)
def _is_written_to(cluster_id: UUID) -> bool:
    """Whether documents are handed to this cluster. A cluster's kind never changes."""
    return Cluster.objects.filter(pk=cluster_id, kind=Cluster.Kind.KUBE).exists()
