"""One request to an application of a session, over its socket or loopback port."""

from __future__ import annotations

import httpx

from cluster.operator.substrates.local.recipes import Probe
from gshare_core.contract import Endpoint, UnixEndpoint

SECONDS = 2.0


async def ask(endpoint: Endpoint, probe: Probe) -> httpx.Response | None:
    """The answer; None when there is none in time."""
    socket = endpoint.path if isinstance(endpoint, UnixEndpoint) else None
    host = "localhost" if socket else str(endpoint)
    transport = httpx.AsyncHTTPTransport(uds=socket)
    async with httpx.AsyncClient(transport=transport, timeout=SECONDS, trust_env=False) as client:
        try:
            return await client.get(f"http://{host}{probe.path}", headers=dict(probe.headers))
        except httpx.HTTPError:
            return None
