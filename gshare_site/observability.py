"""Metrics of requests, and the id under which the logs know each: the answer's X-Request-ID, a problem's `request_id`."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from prometheus_client import Counter, Gauge, Histogram

from gshare_core.kit.problem import request_id

REQUESTS = Counter("gshare_requests", "Answered requests.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "gshare_request_seconds",
    "Time to answer a request.",
    ["method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
OPEN_SOCKETS = Gauge(
    "gshare_live_connections",
    "Open websockets: pages of the console (live), apps of sessions (session).",
    ["kind"],
    multiprocess_mode="livesum",
)


def _observe(request: HttpRequest, response: HttpResponseBase, started: float) -> None:
    route = getattr(request.resolver_match, "route", None) or "(none)"
    method = request.method or ""
    REQUESTS.labels(method, route, str(response.status_code)).inc()
    REQUEST_SECONDS.labels(method, route).observe(time.perf_counter() - started)


class RequestMetrics:
    """Middleware: counts and times each request under its route, never under its path (ids would make endless series).

    Puts the request's id on the answer, under which the logs know it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = self.get_response(request)
        _observe(request, response, started)
        response.headers["X-Request-ID"] = request_id()
        return response
