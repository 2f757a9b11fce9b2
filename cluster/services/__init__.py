"""What may be done to the metal; every function says which locks it takes.

`claims` (reserve, release, carry, orphan), `documents` (what is wanted of sessions), `mounts` (volumes in sessions),
`volumes` and `shares`, `drains` (rights to volumes that were taken away), `clusters`, `nodes`, `modes` (how cards are cut), `pools`.
"""

from cluster.fleets import Passage
from cluster.services.claims import (
    Reserved,
    Wish,
    carry_claims,
    fit_in_turn,
    fits,
    look,
    orphan_claims,
    release_claims,
    reserve,
    reserve_in_turn,
)
from cluster.services.clusters import (
    StateChange,
    change_cluster,
    issue_cluster_token,
    judge_clusters,
    register_cluster,
    remove_cluster,
    revoke_tokens,
)
from cluster.services.documents import (
    accept_desired,
    drop_desired,
    drop_tombstone,
    put_desired,
    write_desired,
    write_tombstone,
)
from cluster.services.drains import close_volume_drain
from cluster.services.earmarks import (
    drop_earmark,
    drop_earmarks_but,
    holdings,
    keep_place,
    keep_this,
    kept_until,
    making_room,
)
from cluster.services.modes import ModeWish, change_mode
from cluster.services.mounts import attach, release_attachments, volume_mounts
from cluster.services.nodes import close_node_drain, cordon_node, drain_node
from cluster.services.pools import change_pool, create_pool, delete_pool, grant_pool, revoke_pool
from cluster.services.shares import ShareWish, end_share, share_volume
from cluster.services.sweeps import confirm_sweep, hold_sweep, note_restored, release_sweep
from cluster.services.volumes import (
    VolumeWish,
    change_volume,
    create_volume,
    delete_volume,
    ensure_home,
    purge_volumes,
    restore_volume,
)

__all__ = [
    "ModeWish",
    "Passage",
    "Reserved",
    "ShareWish",
    "StateChange",
    "VolumeWish",
    "Wish",
    "accept_desired",
    "attach",
    "carry_claims",
    "change_cluster",
    "change_mode",
    "change_pool",
    "change_volume",
    "close_node_drain",
    "close_volume_drain",
    "confirm_sweep",
    "cordon_node",
    "create_pool",
    "create_volume",
    "delete_pool",
    "delete_volume",
    "drain_node",
    "drop_desired",
    "drop_earmark",
    "drop_earmarks_but",
    "drop_tombstone",
    "end_share",
    "ensure_home",
    "fit_in_turn",
    "fits",
    "grant_pool",
    "hold_sweep",
    "holdings",
    "issue_cluster_token",
    "judge_clusters",
    "keep_place",
    "keep_this",
    "kept_until",
    "look",
    "making_room",
    "note_restored",
    "orphan_claims",
    "purge_volumes",
    "put_desired",
    "register_cluster",
    "release_attachments",
    "release_claims",
    "release_sweep",
    "remove_cluster",
    "reserve",
    "reserve_in_turn",
    "restore_volume",
    "revoke_pool",
    "revoke_tokens",
    "share_volume",
    "volume_mounts",
    "write_desired",
    "write_tombstone",
]
