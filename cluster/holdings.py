"""Who holds which volume now, for screens. Reads only; for callers that have checked what may be seen."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from cluster.models import Attachment, Volume


def held_volumes(volume_ids: Iterable[UUID]) -> dict[UUID, list[UUID]]:
    """The sessions that hold each volume, an orphaned run's included. One statement."""
    found: dict[UUID, list[UUID]] = {}
    held = Attachment.objects.filter(volume_id__in=list(volume_ids), released_at=None).order_by("volume_id", "id")
    for volume_id, session_id in held.values_list("volume_id", "session_id"):
        found.setdefault(volume_id, []).append(session_id)
    return found


def volumes_by_id(volume_ids: Iterable[UUID]) -> dict[UUID, Volume]:
    """Volumes that a session names, deleted ones included. One statement."""
    return Volume.objects.in_bulk(list(volume_ids))
