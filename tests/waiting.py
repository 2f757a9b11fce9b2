"""Waiting in tests without sleeping: poll a condition until it holds or its deadline passes."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


def until(condition: Callable[[], T], *, within: float = 10, what: str = "the condition") -> T:
    """The first truthy value of `condition()`; AssertionError with `what` and the last value after `within` seconds.

    Errors of the condition are not swallowed: a condition that may fail at first says so itself.
    """
    deadline = time.monotonic() + within
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within} s (last: {value!r})")
        pause.wait(POLL_SECONDS)


async def until_async(condition: Callable[[], Awaitable[T]], *, within: float = 10, what: str = "the condition") -> T:
    """The same for a coroutine function."""
    deadline = time.monotonic() + within
    while True:
        value = await condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within} s (last: {value!r})")
        await asyncio.sleep(POLL_SECONDS)
