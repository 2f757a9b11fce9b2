"""What a cluster is told of a session, as the sweep compares it with what the cluster has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Told:
    """A document's run and generation, since when it stands there, and whether it ends them."""

    run: int
    generation: int
    ends: bool
    written_at: datetime
    is_tombstone: bool = False
    is_confirmed: bool = False
