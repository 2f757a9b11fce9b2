"""A request is one piece of work for one thread, and leaves nothing behind."""

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import connection
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from django.utils import translation

from gshare_site.threaded import ThreadedHandler

threads: list[str] = []


def _note(*_arguments: Any, **_named: Any) -> None:
    threads.append(threading.current_thread().name)


class Noting:
    """Middleware that notes its thread on both ways."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        _note()
        response = self.get_response(request)
        _note()
        return response


def ask_the_database(_request: HttpRequest) -> HttpResponse:
    _note()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse(translation.get_language())


def speak(_request: HttpRequest) -> HttpResponse:
    translation.activate("ko")
    return HttpResponse(translation.get_language())


def body(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.body[::-1], headers={"X-Method": request.method or ""})


def stream(_request: HttpRequest) -> FileResponse:
    return FileResponse(io.BytesIO(b"x" * 200_000))


def told_in_parts(_request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[str]:
        for part in ("one ", "two"):
            _note()
            yield part

    return StreamingHttpResponse(parts())


def fault(_request: HttpRequest) -> HttpResponse:
    raise RuntimeError("a fault")


urlpatterns = [
    path(f"{view.__name__}/", view) for view in (ask_the_database, speak, body, stream, told_in_parts, fault)
]


@pytest.fixture
def handler(settings: Any) -> Iterator[ThreadedHandler]:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = [f"{__name__}.Noting", "django.middleware.common.CommonMiddleware", f"{__name__}.Noting"]
    settings.ALLOWED_HOSTS = ["localhost"]
    threads.clear()
    for signal in (request_started, request_finished):
        signal.connect(_note)
    yield ThreadedHandler(threads=1)
    for signal in (request_started, request_finished):
        signal.disconnect(_note)


def ask(handler: ThreadedHandler, *views: str, body: bytes = b"") -> list[tuple[int, bytes]]:
    """Status and body of requests, one after the other."""

    async def one(view: str) -> tuple[int, bytes]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": f"/{view}/", "headers": [(b"host", b"localhost")]}
        await handler(scope, receive, send)
        assert not sent[-1].get("more_body")
        return sent[0]["status"], b"".join(part["body"] for part in sent[1:] if "body" in part)

    async def all_of_them() -> list[tuple[int, bytes]]:
        return [await one(view) for view in views]

    return asyncio.run(all_of_them())


@pytest.mark.django_db(transaction=True)
def test_signals_middleware_and_view_share_one_thread_that_is_not_the_loops(handler: ThreadedHandler) -> None:
    assert ask(handler, "ask_the_database")[0][0] == 200
    assert len(threads) == 7, "started, twice in, view, twice out, finished"
    assert len(set(threads)) == 1
    assert threads[0] != threading.current_thread().name


@pytest.mark.django_db(transaction=True)
def test_the_connection_is_given_back_before_the_answer_is_sent(handler: ThreadedHandler) -> None:
    open_at_the_end: list[bool] = []

    def look(**_named: Any) -> None:
        open_at_the_end.append(connection.connection is not None)

    request_finished.connect(look)  # after Django's own receiver, in the request's thread
    try:
        ask(handler, "ask_the_database", "ask_the_database")
    finally:
        request_finished.disconnect(look)
    assert open_at_the_end == [False, False]


@pytest.mark.django_db(transaction=True)
def test_a_thread_is_used_again_and_remembers_nothing_of_the_request_before(handler: ThreadedHandler) -> None:
    with translation.override("en"):
        answers = ask(handler, "speak", "ask_the_database")
    assert [text for _status, text in answers] == [b"ko", b"en"]
    assert len(set(threads)) == 1, "or there was nothing to remember"


def test_a_body_arrives_and_a_long_answer_leaves_whole(handler: ThreadedHandler) -> None:
    assert ask(handler, "body", body=b"abc") == [(200, b"cba")]
    assert ask(handler, "stream") == [(200, b"x" * 200_000)]


@pytest.mark.filterwarnings("error")
def test_a_long_answer_is_read_and_closed_in_the_thread_that_made_it(handler: ThreadedHandler) -> None:
    assert ask(handler, "told_in_parts") == [(200, b"one two")]
    assert len(set(threads)) == 1, "the view, each part, the end"


def test_a_fault_is_an_answer_and_the_next_request_is_served(handler: ThreadedHandler, settings: Any) -> None:
    settings.DEBUG_PROPAGATE_EXCEPTIONS = False
    settings.TEMPLATES = []
    assert [status for status, _text in ask(handler, "fault", "body", body=b"x")] == [500, 200]


async def test_what_is_not_http_is_refused(handler: ThreadedHandler) -> None:
    with pytest.raises(ValueError, match="websocket"):
        await handler({"type": "websocket"}, None, None)
