"""What each answer of the web process of `bench pages` took, on the answer itself.

Guarantees: every statement that Django sends for a request counts, those of pipelines too. Refuses to be part of an
installation: nothing but `gshare_site.settings.bench` names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponseBase

HEADER = "X-Bench"


class Statements:
    """How many statements were sent, how long they took, and the slowest of them."""

    def __init__(self) -> None:
        self.count, self.seconds, self.slowest = 0, 0.0, (0.0, "")

    def __call__(self, execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        started = perf_counter()
        try:
            return execute(sql, parameters, many, context)
        finally:
            took = perf_counter() - started
            self.count, self.seconds = self.count + 1, self.seconds + took
            self.slowest = max(self.slowest, (took, sql))


class Measured:
    """The outermost middleware: says on the answer what it took, in milliseconds. A request is one thread's work."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        statements, started, busy = Statements(), perf_counter(), thread_time()
        with connection.execute_wrapper(statements):
            response = self._get_response(request)
        seconds, slowest = statements.slowest
        response.headers[HEADER] = json.dumps(
            {
                "ms": round((perf_counter() - started) * 1000, 2),
                "cpu_ms": round((thread_time() - busy) * 1000, 2),
                "sql_ms": round(statements.seconds * 1000, 2),
                "queries": statements.count,
                "slowest_ms": round(seconds * 1000, 2),
                "slowest": " ".join(slowest.split())[:300],
            }
        )
        return response
