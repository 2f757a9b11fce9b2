"""Live pokes: "this changed, its version is now n". Hints only; the page re-fetches what it may see.

Guarantees: a poke goes out after the commit and never fails or delays the transaction that sent it; losing one costs
latency, never truth.
"""

from __future__ import annotations

import re
import time

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

logger = structlog.get_logger(__name__)

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


def group_name(topic: str) -> str:
    """The channel layer's group of a topic (ASCII letters, digits, hyphens, underscores, full stops, under 100)."""
    return "live." + _UNFIT.sub("_", topic)[:90]


def poke(topic: str, version: int | None = None) -> None:
    """Tell who watches `topic` that it changed, once the transaction has committed."""
    transaction.on_commit(lambda: _send(topic, version), robust=True)


def _send(topic: str, version: int | None) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    stamp = version if version is not None else time.time_ns() // 1_000_000
    message = {"type": "live.changed", "topic": topic, "version": stamp}
    try:
        async_to_sync(layer.group_send)(group_name(topic), message)
    except (RedisError, OSError) as error:
        logger.warning("live_poke_lost", topic=topic, error=str(error))
