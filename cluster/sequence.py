"""A cluster's counter: the numbers that followers of its documents and of its fleet go by.

Guarantees: numbers are given in the order of commits. The counter's row stays locked until the transaction ends, so
whoever gets n + 1 has waited for n to be visible, and a follower that has seen n never meets a smaller number later (a
sequence would let the late committer be skipped). Numbers of one kind may have gaps; none is used twice.
Refuses to run outside `locks.ordered()`. Only timeline and audit rows may be written after it.
"""

from __future__ import annotations

from uuid import UUID

from cluster.models import FleetChange, Sequence
from gshare_core.ids import uuid7
from gshare_core.kit import live
from gshare_core.kit.locks import Rank, note
from gshare_core.kit.rows import prepared, write

ADVANCE = """
    INSERT INTO cluster_sequence AS counter (cluster_id, last) VALUES (%s, %s)
    ON CONFLICT (cluster_id) DO UPDATE SET last = counter.last + excluded.last
    RETURNING last
"""

_RECORD = f"""
    WITH counter AS ({ADVANCE})
    INSERT INTO cluster_fleetchange (id, cluster_id, seq, node_id, transaction)
    SELECT target.id, %s, counter.last - %s + target.place, target.node_id, pg_current_xact_id()::text::bigint
    FROM counter, unnest(%s::uuid[], %s::uuid[]) WITH ORDINALITY AS target (id, node_id, place)
"""  # noqa: S608 -- no outside text


def advance(cluster_id: UUID, by: int = 1) -> int:
    """Take the next `by` numbers of a cluster and return the last of them."""
    note(Rank.CLUSTER_SEQUENCE, cluster_id)
    with prepared() as cursor:
        cursor.execute(ADVANCE, [cluster_id, by])
        return int(cursor.fetchone()[0])


def record_change(cluster_id: UUID, *node_ids: UUID) -> None:
    """Tell every process to read these nodes again; without any, the whole cluster (pools, grants, state). One statement."""
    targets: list[UUID | None] = [*sorted(set(node_ids))] or [None]
    note(Rank.CLUSTER_SEQUENCE, cluster_id)
    write(_RECORD, [cluster_id, len(targets), cluster_id, len(targets), [uuid7() for _target in targets], targets])


def tell_of_metal(cluster_id: UUID, *node_ids: UUID) -> None:
    """As `record_change`, for what administrators see of the metal itself; their open pages hear of it too.

    What sessions do to cards they hear from the sessions.
    """
    record_change(cluster_id, *node_ids)
    live.poke(f"fleet:{cluster_id}")


def prune_changes(*, older_than: int = 100_000) -> int:
    """Forget changes that lie so far behind a cluster's counter; followers read everything again every few minutes.

    A tick; answers how many rows went.
    """
    pruned = 0
    for cluster_id, last in Sequence.objects.values_list("cluster_id", "last"):
        deleted, _rows = FleetChange.objects.filter(cluster_id=cluster_id, seq__lte=last - older_than).delete()
        pruned += deleted
    return pruned
