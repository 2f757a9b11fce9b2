"""Nodes.

Guarantees: a cordoned node takes nothing new and keeps what it has. What changes here is told to all processes in the
same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from accounts import audit
from accounts.permissions import Act
from cluster.models import Node
from cluster.sequence import record_change
from cluster.services.authority import authorise
from gshare_core.errors import not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, lock_row, ordered

if TYPE_CHECKING:
    from accounts.models import User


def cordon_node(*, by: User | None, node_id: UUID, cordoned: bool) -> Node:
    """Take a node out of placement, or put it back. Idempotent. Raises `forbidden`, `not_found`."""
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        node = lock_row(Rank.NODE, Node.objects.filter(pk=node_id, retired_at=None))
        if node is None:
            raise not_found("node")
        if node.is_cordoned != cordoned:
            node.is_cordoned = cordoned
            node.save(update_fields=["is_cordoned"])
            record_change(node.cluster_id, node.pk)
            audit.record(
                by=by,
                act="node.cordon" if cordoned else "node.uncordon",
                target_kind="node",
                target_id=node.pk,
                target_label=node.name,
                after={"is_cordoned": cordoned},
                at=clock.now(),
            )
    return node
