"""Django under ASGI, with all of a request in one thread: middleware, view, and what its end gives back.

Django's own handler walks its middleware on the event loop and goes to a thread and back for every part that may block, in a
thread that is made for each request and has connections of its own to make: on two cores that was a fifth of an admission.
Nothing here is asynchronous before the answer is ready, so the whole request is one piece of work for one thread.

Guarantees: what a request does it does in one thread and one context; the thread's connection is back in the pool before the
answer is sent; nothing of one request (language, time zone, log context) is seen by the next on the same thread.
Refuses: to stop a request whose client has gone: what it changes, it changes; its answer goes nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import IO, Any

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.http import FileResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

# Who waits in front of a bulkhead waits in a thread. That many at once are more than a class; a thread that was never needed
# is never made.
THREADS_MAX = 2_000


class ThreadedHandler(ASGIHandler):
    """See the module."""

    def __init__(self, threads: int = THREADS_MAX) -> None:
        super(ASGIHandler, self).__init__()  # the middleware is loaded as for WSGI, not as that class does
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="request")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request. Raises ValueError for anything but HTTP."""
        if scope["type"] != "http":
            raise ValueError(f"this is for HTTP, not for {scope['type']}")
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop = asyncio.get_running_loop()
        await self.send_response(
            await loop.run_in_executor(self._threads, copy_context().run, self._answered, scope, body), send
        )

    def _answered(self, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        """The answer, complete, with everything given back that the request took."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response: HttpResponseBase
        if request is None:
            assert refusal is not None
            body.close()
            response = refusal
        else:
            response = self.get_response(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]  # noqa: SLF001 -- as Django's handlers do
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if isinstance(response, StreamingHttpResponse):
            # Django under ASGI reads such an answer whole too, but in the one thread that a process has for everybody.
            response.streaming_content = _again(list(response))
        response.close()
        return response


async def _again(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
