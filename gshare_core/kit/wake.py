"""Hints: wake a worker after the commit, by a task's name. Losing one costs latency, never truth: sweeps re-read the rows."""

from __future__ import annotations

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

logger = structlog.get_logger(__name__)

DRAIN_INTENTS = "sessions.drain_intents"  # somebody lost a right that running sessions rely on


def after_commit(task: str) -> None:
    """Send the task once the open transaction has committed; nothing when it rolls back."""
    transaction.on_commit(lambda: _send(task), robust=True)


def _send(task: str) -> None:
    try:
        current_app.send_task(task, retry=False, expires=30, ignore_result=True)
    except (OperationalError, OSError) as error:
        logger.warning("hint_lost", task=task, error=str(error))
