"""Django's Redis cache with one set of connections a process.

Django keeps a cache object for each context, and on ASGI every request has its own: each would connect to Redis anew, which
costs more than what is asked there. The client below it may be shared: it is safe for threads, reconnects what was closed
meanwhile, and begins anew after a fork.

Guarantees: as Django's; connections are as many as are used at the same time.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property, lru_cache
from typing import Any

from django.core.cache.backends.redis import RedisCache, RedisCacheClient


class SharedRedisCache(RedisCache):
    """See the module. Its options are plain values."""

    @cached_property
    def _cache(self) -> Any:
        options: dict[str, Any] = self._options
        return _client(tuple(self._servers), tuple(sorted(options.items())))


@lru_cache(maxsize=8)
def _client(servers: tuple[str, ...], options: tuple[tuple[str, Hashable], ...]) -> Any:
    return RedisCacheClient(list(servers), **dict(options))
