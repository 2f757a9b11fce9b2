"""Django's Redis cache with one set of connections a process.

Django keeps a cache object for each context, and on ASGI every request has its own: each would connect to Redis anew, which
costs more than what is asked there. The client below it may be shared: it is safe for threads, reconnects what was closed
meanwhile, and begins anew after a fork.

Guarantees: as Django's; connections are as many as are used at the same time.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache, RedisCacheClient


class SharedRedisCache(RedisCache):
    """See the module. Its options are plain values."""

    @cached_property
    def _cache(self) -> Any:
        own: Any = self  # what Django's class knows of itself, its types do not
        return _client(tuple(own._servers), tuple(sorted(own._options.items())))  # noqa: SLF001 -- its own

    def count(self, key: str, *, timeout: int) -> int:
        """One more of `key`, which lasts `timeout` seconds from its first; answers how many. One round trip, exact between processes."""
        name = self.make_and_validate_key(key)
        pipeline = self._cache.get_client(name, write=True).pipeline(transaction=False)
        pipeline.incr(name)
        pipeline.expire(name, timeout, nx=True)
        counted: int = pipeline.execute()[0]
        return counted


def count(key: str, *, timeout: int) -> int:
    """One more of `key` in the default cache, whatever keeps it (as above where Redis does)."""
    store: Any = caches["default"]
    if isinstance(store, SharedRedisCache):
        return store.count(key, timeout=timeout)
    store.add(key, 0, timeout)
    counted: int = store.incr(key)
    return counted


@lru_cache(maxsize=8)
def _client(servers: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    return RedisCacheClient(list(servers), **dict(options))
