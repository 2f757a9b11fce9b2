"""Hints of this application: which task to wake when its rows changed. Losing one costs latency, never truth."""

from __future__ import annotations

from gshare_core.kit import wake

DRAIN = "sessions.drain_queue"
RECONCILE = "sessions.reconcile"
OUTLOOK = "sessions.outlook"


def capacity_came_back() -> None:
    """Somebody in line may fit now."""
    wake.after_commit(DRAIN)


def line_moved() -> None:
    """Somebody left the line: others have other places, and other estimates."""
    wake.after_commit(OUTLOOK)


def wishes_changed() -> None:
    """A session wants something that the reconciler carries out (a resume while pausing)."""
    wake.after_commit(RECONCILE)
