"""Hints: wake a worker after the commit, by a task's name. Losing one costs latency, never truth: sweeps re-read the rows.

A broker that hangs costs whoever sends the first hint one time-out; those of the next seconds are dropped at once.
"""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

import structlog
from celery import Celery, current_app
from django.db import transaction
from kombu.exceptions import OperationalError

logger = structlog.get_logger(__name__)

AWAY_SECONDS = 5.0  # nobody is tried again so soon after a failure

DRAIN_INTENTS = "sessions.drain_intents"  # somebody lost a right that running sessions rely on
MODE_CHANGES = "cluster.modes"  # cards shall be cut another way


def after_commit(task: str) -> None:
    """Send the task once the open transaction has committed; nothing when it rolls back."""
    transaction.on_commit(lambda: _send(task), robust=True)


_away_until: WeakKeyDictionary[Celery, float] = WeakKeyDictionary()  # by broker; on the monotonic clock


def _send(task: str) -> None:
    app: Celery = current_app._get_current_object()  # noqa: SLF001 -- the documented way behind the proxy
    if time.monotonic() < _away_until.get(app, 0.0):
        return
    try:
        app.send_task(task, retry=False, expires=30, ignore_result=True)
    except (OperationalError, OSError) as error:
        _away_until[app] = time.monotonic() + AWAY_SECONDS
        logger.warning("hint_lost", task=task, error=str(error))
