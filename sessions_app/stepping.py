"""One step of a pass over many sessions.

Guarantees: whatever one session's rows do not allow is logged with the step's name and stops no other; the next pass finds it
again. A step judges its session again under its own lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import structlog

from gshare_core.kit import locks

logger = structlog.get_logger(__name__)


def stepped(step: Callable[..., bool], session_id: UUID, *arguments: Any) -> bool:
    """Whether the step did something; False when it failed."""
    try:
        return bool(step(session_id, *arguments))
    except Exception as error:
        # Named in the module: the pass goes on.
        name = getattr(step, "__name__", repr(step)).strip("_")
        logger.exception("step_failed", session=str(session_id), step=name, error=str(error))
        return False


def stepped_in_order(step: Callable[..., bool], session_id: UUID, *arguments: Any) -> bool:
    """The same in a transaction that takes its locks in order."""

    def within(session: UUID, *more: Any) -> bool:
        with locks.ordered():
            return step(session, *more)

    within.__name__ = getattr(step, "__name__", repr(step))
    return stepped(within, session_id, *arguments)
