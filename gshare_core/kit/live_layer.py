"""The channel layer of live pokes: channels_redis' publish and subscribe, with many messages in one round trip.

Guarantees: `group_send_all` reaches whom `group_send` would have reached, in its order for each group. Every change of a
session pokes eight groups, and a round trip for each was a tenth of the processor time of an admission (`bench admission`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer  # type: ignore[import-untyped]


class LiveLayer(RedisPubSubChannelLayer):  # type: ignore[misc]  # the library tells no types
    """See the module. Its own parts are the library's of the pinned version; `tests/web/test_live_layer.py` holds them to it."""

    async def group_send_all(self, messages: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Send each message to all subscribers of its group. Raises RedisError, OSError; then some may have arrived."""
        layer = self._get_layer()
        of_shard: dict[Any, list[tuple[str, bytes]]] = {}
        for group, message in messages:
            channel = layer._get_group_channel_name(group)  # noqa: SLF001 -- see the class
            of_shard.setdefault(layer._get_shard(channel), []).append((channel, self.serialize(message)))  # noqa: SLF001
        for shard, publications in of_shard.items():
            async with shard._lock:  # noqa: SLF001 -- as its own `publish` does
                shard._ensure_redis()  # noqa: SLF001
                pipeline = shard._redis.pipeline(transaction=False)  # noqa: SLF001
                for channel, data in publications:
                    pipeline.publish(channel, data)
                await pipeline.execute()
