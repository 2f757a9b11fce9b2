"""The periodic work of this room, as the table of ticks calls it: without arguments, answering how many rows it changed."""

from __future__ import annotations

from cluster.sequence import prune_changes
from cluster.services import judge_clusters, purge_volumes
from gshare_core.kit import clock


def judge() -> int:
    """Call silent clusters suspect and lost."""
    return len(judge_clusters(at=clock.now()))


def purge() -> int:
    """Give up volumes whose deletion can no longer be taken back."""
    return purge_volumes(at=clock.now())


def prune() -> int:
    """Forget old changes of the fleet."""
    return prune_changes()
