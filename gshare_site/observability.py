"""Logs and request metrics.

Guarantees: every log line of a request carries its request id, which is also the answer's X-Request-ID and the problem's
`request_id`; nothing logs bodies, cookies, passwords or tokens.
"""

import logging.config
import time
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponseBase
from prometheus_client import Counter, Histogram

REQUESTS = Counter("gshare_requests", "Answered requests.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "gshare_request_seconds",
    "Time to answer a request.",
    ["method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)


def configure_logging(*, level: str, log_format: str) -> None:
    """structlog for us, the same renderer for everybody else's loggers; to standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: structlog.typing.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
        shared.append(structlog.processors.format_exc_info)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "structlog": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
                    "foreign_pre_chain": shared,
                }
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structlog"}},
            "root": {"handlers": ["stderr"], "level": level},
            "loggers": {
                "uvicorn": {"level": "WARNING"},
                "httpx": {"level": "WARNING"},
                "django.server": {"level": "WARNING"},
            },
        }
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _observe(request: HttpRequest, response: HttpResponseBase, started: float) -> None:
    route = getattr(request.resolver_match, "route", None) or "(none)"
    method = request.method or ""
    REQUESTS.labels(method, route, str(response.status_code)).inc()
    REQUEST_SECONDS.labels(method, route).observe(time.perf_counter() - started)


class RequestMetrics:
    """Middleware: counts and times each request under its route, never under its path (ids would make endless series)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = self.get_response(request)
        _observe(request, response, started)
        return response
