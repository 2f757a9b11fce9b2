"""What sessions use of the rooms below: asked before an offering, a size, an image or a cluster is taken away."""

from __future__ import annotations

from uuid import UUID

from gshare_core.kit.uses import ask_before_removal
from sessions_app.domain.lifecycle import LIVE
from sessions_app.models import Session


def answer() -> None:
    """Have the rooms below ask here; called when the application is ready."""
    for kind in ("offering", "preset", "image"):
        ask_before_removal(kind, lambda row_id, kind=kind: _of_catalogue(kind, row_id))  # type: ignore[misc]  # -- bound now
    ask_before_removal("cluster", _of_cluster)


def _of_catalogue(kind: str, row_id: UUID) -> dict[str, int]:
    """Sessions that live, and those that have ended and are history."""
    rows = Session.objects.filter(**{kind: row_id})
    live = rows.live().count()
    return {"sessions": live, "ended": rows.exclude(state__in=LIVE).count()}


def _of_cluster(cluster_id: UUID) -> dict[str, int]:
    """Live sessions that asked for just this cluster: paused and waiting ones, which hold nothing there, among them."""
    return {"bound": Session.objects.live().filter(cluster=cluster_id).count()}
