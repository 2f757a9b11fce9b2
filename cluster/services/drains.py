"""Intents: rights to a volume that were taken away here are ended above, by a sweep that reads these rows.

Guarantees: per volume at most one intent is open; it closes only on a pass that began `GSHARE_INTENT_SETTLE` or more after
the change and found nothing. An intent says only where to look: who has a right is asked anew at each pass, so that a
right that was given back ends nothing.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings

from cluster.models import Volume, VolumeDrain
from gshare_core.kit import wake


def open_volume_drain(volume: Volume, *, at: datetime) -> None:
    """Ask the sweep above to end who mounts this volume without a right; the volume's lock is held."""
    if not VolumeDrain.objects.filter(volume=volume, closed_at=None).update(changed_at=at):
        VolumeDrain.objects.create(volume=volume, changed_at=at)
    wake.after_commit(wake.DRAIN_INTENTS)


def close_volume_drain(intent_id: UUID, *, pass_began_at: datetime) -> bool:
    """Close an intent for which a pass found nothing; False while it is too young."""
    settled = pass_began_at - settings.GSHARE.intent_settle
    rows = VolumeDrain.objects.filter(pk=intent_id, closed_at=None, changed_at__lte=settled)
    return rows.update(closed_at=pass_began_at) == 1
