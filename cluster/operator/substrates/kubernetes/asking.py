"""Questions over HTTP to what runs in pods: applications of sessions, monitors of nodes. Whoever answers may be hostile.

Guarantees: an answer is whole, of status 200 and no larger than was allowed, or none; a question ends within its time, also
when the answer comes in drops. No redirect is followed, nothing is kept from one answer to the next, no proxy is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

SECONDS = 3.0
ANSWER_BYTES = 1 << 20
_AT_ONCE = 64

K = TypeVar("K")
A = TypeVar("A")


class Asker:
    """Asks many at once, and no more than a few dozen of them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session, self._room = session, asyncio.Semaphore(_AT_ONCE)

    async def ask(
        self, host: str, port: int, path: str, *, token: str = "", most_bytes: int = ANSWER_BYTES
    ) -> bytes | None:
        """The answer; None when there is none that counts."""
        headers = {"Authorization": f"token {token}"} if token else {}
        address = f"[{host}]" if ":" in host else host
        async with self._room:
            try:
                async with asyncio.timeout(SECONDS):
                    return await self._answer(f"http://{address}:{port}{path}", headers, most_bytes)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                return None

    async def _answer(self, url: str, headers: dict[str, str], most_bytes: int) -> bytes | None:
        found = bytearray()
        async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
            if answer.status != 200:
                return None
            async for part in answer.content.iter_any():
                found += part
                if len(found) > most_bytes:
                    return None
        return bytes(found)


async def all_within(seconds: float, questions: Mapping[K, Coroutine[Any, Any, A]]) -> dict[K, asyncio.Task[A]]:
    """All asked at once; those without an answer in time are cancelled. None goes on, however this ends."""
    tasks = {key: asyncio.create_task(question) for key, question in questions.items()}
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return tasks


@asynccontextmanager
async def asker() -> AsyncIterator[Asker]:
    """For one round of questions."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(),  # `Asker.ask` has its own: one timer a question, not four
        auto_decompress=False,  # a small answer may not become a large one
        trust_env=False,
    ) as session:
        yield Asker(session)
