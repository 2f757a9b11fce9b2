"""Hints: wake a worker after the commit. Losing one costs latency, never truth; the sweeps re-read the rows."""

from __future__ import annotations

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

logger = structlog.get_logger(__name__)

DRAIN = "sessions.drain_queue"
RECONCILE = "sessions.reconcile"


def capacity_came_back() -> None:
    """Somebody in line may fit now."""
    _after_commit(DRAIN)


def wishes_changed() -> None:
    """A session wants something that the reconciler carries out (a resume while pausing)."""
    _after_commit(RECONCILE)


def _after_commit(task: str) -> None:
    transaction.on_commit(lambda: _send(task), robust=True)


def _send(task: str) -> None:
    try:
        current_app.send_task(task, retry=False, expires=30, ignore_result=True)
    except (OperationalError, OSError) as error:
        logger.warning("hint_lost", task=task, error=str(error))
