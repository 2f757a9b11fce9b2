"""What is wrong with the metal, for administrators' pages. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from cluster.models import Cluster, Earmark


@dataclass(frozen=True, slots=True)
class ClusterAlarm:
    """A registered cluster that does not talk to us, or whose sweep refuses to act."""

    id: UUID
    name: str
    state: str
    silent_since: datetime | None
    sweep_ends: int | None

    @property
    def is_silent(self) -> bool:
        """Whether it was heard once and is not heard now."""
        return self.state in (Cluster.State.SUSPECT, Cluster.State.LOST)


def cluster_alarms() -> list[ClusterAlarm]:
    """The clusters that need somebody, by name. One statement."""
    rows = Cluster.objects.present().order_by("name")
    found = (
        ClusterAlarm(
            row.pk, row.name, row.state, row.last_beat_at, row.sweep_ends if row.sweep_held_at is not None else None
        )
        for row in rows
    )
    return [alarm for alarm in found if alarm.is_silent or alarm.sweep_ends is not None]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept on cards for a waiting session, per card."""

    session_id: UUID
    cards: tuple[UUID, ...]
    is_whole: bool
    vram_mib: int
    milli: int
    ready_at: datetime | None


def kept_on_cards() -> list[Kept]:
    """Every earmark that keeps cards. One statement; there is at most one a lane."""
    return [
        Kept(
            row.session_id, tuple(UUID(card) for card in row.cards), row.is_whole, row.vram_mib, row.milli, row.ready_at
        )
        for row in Earmark.objects.order_by("made_at", "session_id")
        if row.cards
    ]
