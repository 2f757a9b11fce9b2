"""Tables of the metal: `metal`, `claims`, `earmarks`, `desired`, `drift`, `modes`, `storage`, `listening`. Private to this application."""

from cluster.models.claims import Claim, FleetChange, Sequence
from cluster.models.desired import Desired, Listing
from cluster.models.drift import CardDrift
from cluster.models.earmarks import Earmark
from cluster.models.listening import Deafness, Heartbeat
from cluster.models.metal import Card, Cluster, Node, NodeDrain, Pool, PoolGrant
from cluster.models.modes import ModeChange
from cluster.models.storage import Attachment, Volume, VolumeDrain, VolumeShare

__all__ = [
    "Attachment",
    "Card",
    "CardDrift",
    "Claim",
    "Cluster",
    "Deafness",
    "Desired",
    "Earmark",
    "FleetChange",
    "Heartbeat",
    "Listing",
    "ModeChange",
    "Node",
    "NodeDrain",
    "Pool",
    "PoolGrant",
    "Sequence",
    "Volume",
    "VolumeDrain",
    "VolumeShare",
]
