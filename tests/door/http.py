"""HTTP for tests that send every header by hand: nothing is remembered between requests, least of all a cookie.

One client for all: making one costs more than most of the requests do.
"""

from __future__ import annotations

from typing import Any

import httpx

_client = httpx.Client(
    verify=False, trust_env=False, timeout=20, limits=httpx.Limits(max_keepalive_connections=0, max_connections=None)
)


def request(method: str, url: str | httpx.URL, **options: Any) -> httpx.Response:
    """One request on a connection of its own."""
    try:
        return _client.request(method, url, **options)
    finally:
        _client.cookies.clear()


def get(url: str | httpx.URL, **options: Any) -> httpx.Response:
    """A GET."""
    return request("GET", url, **options)


def post(url: str | httpx.URL, **options: Any) -> httpx.Response:
    """A POST."""
    return request("POST", url, **options)
