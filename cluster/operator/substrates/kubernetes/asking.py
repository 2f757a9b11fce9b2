"""Questions over HTTP to what runs in pods: applications of sessions, monitors of nodes. Whoever answers may be hostile.

Guarantees: an answer is whole, of status 200 and no larger than was allowed, or none; a question ends within its time, also
when the answer comes in drops. No redirect is followed, nothing is kept from one answer to the next, no proxy is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

SECONDS = 3.0
ANSWER_BYTES = 1 << 20
_AT_ONCE = 64


class Asker:
    """Asks many at once, and no more than a few dozen of them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client, self._room = client, asyncio.Semaphore(_AT_ONCE)

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
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError):
                return None

    async def _answer(self, url: str, headers: Mapping[str, str], most_bytes: int) -> bytes | None:
        # Without compression: a small answer may not become a large one.
        asked = {**headers, "Accept-Encoding": "identity"}
        found = bytearray()
        async with self._client.stream("GET", url, headers=asked) as answer:
            if answer.status_code != 200:
                return None
            async for part in answer.aiter_raw():
                found += part
                if len(found) > most_bytes:
                    return None
        return bytes(found)


@asynccontextmanager
async def asker() -> AsyncIterator[Asker]:
    """For one round of questions."""
    async with httpx.AsyncClient(trust_env=False, timeout=SECONDS, limits=httpx.Limits(max_connections=None)) as client:
        yield Asker(client)
