"""The way to the control plane over the HTTP client that Kubernetes' own brings along, as a transport of httpx.

A start is two reports, and httpx' own transport takes four times the processor for each: it asks every idle connection of its pool
whether it still stands, at every call. Guarantees: an answer is whole; what goes wrong on the way is httpx' `TransportError`; no
redirect is followed, no proxy is used, nothing is repeated here.
"""

from __future__ import annotations

import aiohttp
import httpx


class Connections(httpx.AsyncBaseTransport):
    """Connections that are kept between calls; used by one event loop."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One call, within the times that the request says."""
        times = request.extensions.get("timeout", {})
        within = aiohttp.ClientTimeout(sock_connect=times.get("connect"), sock_read=times.get("read"))
        calls = self._opened()
        try:
            async with calls.request(
                request.method,
                str(request.url),
                data=request.content or None,
                headers=dict(request.headers),
                allow_redirects=False,
                timeout=within,
            ) as answer:
                content = await answer.read()
                return httpx.Response(answer.status, headers=list(answer.raw_headers), content=content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise httpx.TransportError(f"{type(error).__name__} {error}".rstrip(), request=request) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=httpx.create_ssl_context(trust_env=False)),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    async def aclose(self) -> None:
        """No more calls."""
        if self._session is not None:
            await self._session.close()
