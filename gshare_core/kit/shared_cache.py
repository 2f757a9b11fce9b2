"""Django's Redis cache with one set of connections a process.

Django keeps a cache object for each context, and on ASGI every request has its own: each would connect to Redis anew, which
costs more than what is asked there. The client below it may be shared: it is safe for threads, reconnects what was closed
meanwhile, and begins anew after a fork.

Guarantees: as Django's; connections are as many as are used at the same time.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from django.core.cache.backends.redis import RedisCache, RedisCacheClient


class SharedRedisCache(RedisCache):
    """See the module. Its options are plain values."""

    @cached_property
    def _cache(self) -> Any:
        own: Any = self  # what Django's class knows of itself, its types do not
        return _client(tuple(own._servers), tuple(sorted(own._options.items())))  # noqa: SLF001 -- its own


@lru_cache(maxsize=8)
def _client(servers: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    return RedisCacheClient(list(servers), **dict(options))
