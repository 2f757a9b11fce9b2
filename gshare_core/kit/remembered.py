"""What one request has read already: the frame and the page show the same numbers, and ask for them once.

Guarantees: nothing outlives the request, so money and rights are as fresh as the page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpRequest

T = TypeVar("T")


def remembered(request: HttpRequest, name: str, read: Callable[[], T]) -> T:
    """What `read` answers, asked once a request."""
    memory = _memory(request)
    if name not in memory:
        memory[name] = read()
    found: T = memory[name]
    return found


def is_remembered(request: HttpRequest, name: str) -> bool:
    """Whether it has been read already."""
    return name in _memory(request)


def _memory(request: HttpRequest) -> dict[str, Any]:
    memory: dict[str, Any] = request.__dict__.setdefault("_gshare_remembered", {})
    return memory
