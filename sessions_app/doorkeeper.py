"""`access.verify` for an event loop: a two-second memory, one question at a time per visitor, few threads.

Guarantees: what the rows said is reused for GSHARE_ACCESS_CACHE_TTL and no longer, and only the rows' part: where a request
comes from, its cookie and its path are judged each time. Rivals for the same visitor wait for one reading instead of making
their own. A "no" is never remembered. Raises `Unavailable` while the database does not answer: nobody is let in by default.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connection
from prometheus_client import Counter
from psycopg_pool import PoolTimeout

from sessions_app import access
from sessions_app.access import Answer
from sessions_app.domain.access import Asked, Grant, Standing, Why, objection

ANSWERS = Counter("gshare_access_answers", "Answers at the doors of sessions, by reason.", ["why"])
THREADS = 4
REMEMBERED_MAX = 20_000

T = TypeVar("T")
Key = tuple[UUID, UUID, int, int]

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="access")
_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Doorkeeper] = WeakKeyDictionary()


class Unavailable(Exception):
    """The rows cannot be read at the moment."""


class Doorkeeper:
    """Asks the rows for one event loop."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Key, tuple[float, Standing]] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Standing | None]] = {}

    async def verify(self, asked: Asked) -> Answer:
        """As `access.verify`, at the present."""
        now = int(time.time())
        grant = access.grant_in(asked, now=now)
        if isinstance(grant, Why):
            answer = Answer(grant)
        else:
            answer = access.answer_with(asked, grant, await self._standing(grant), now=now)
        ANSWERS.labels(answer.why or "yes").inc()
        return answer

    async def _standing(self, grant: Grant) -> Standing | None:
        key = (grant.session, grant.user, grant.run, grant.epoch)
        seen = self._seen.get(key)
        if seen is not None and time.monotonic() - seen[0] < settings.GSHARE.access_cache_ttl.total_seconds():
            return seen[1]
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._read(key, grant))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _read(self, key: Key, grant: Grant) -> Standing | None:
        asked_at = time.monotonic()
        self._seen.pop(key, None)
        standing = await on_rows(access.standing_of, grant)
        if standing is not None and objection(grant, standing) is None:
            self._seen[key] = (asked_at, standing)
            while len(self._seen) > REMEMBERED_MAX:
                self._seen.popitem(last=False)
        return standing


def doorkeeper() -> Doorkeeper:
    """The one of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = Doorkeeper()
    return found


async def on_rows(function: Callable[..., T], *arguments: object) -> T:
    """Run blocking work against the rows on one of the door's threads. Raises Unavailable when they cannot be read."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(_threads, _with_connection, function, *arguments)
    except (DatabaseError, PoolTimeout) as error:
        raise Unavailable(type(error).__name__) from error


def _with_connection(function: Callable[..., T], *arguments: object) -> T:
    """On this thread's own connection, which is kept: taking one from the pool each time costs more than the question.

    One that broke while nobody looked (a restart of PostgreSQL) is replaced, and the work tried once more.
    """
    try:
        return function(*arguments)
    except (OperationalError, InterfaceError):
        connection.close()
        return function(*arguments)
    finally:
        if connection.errors_occurred:
            connection.close()
