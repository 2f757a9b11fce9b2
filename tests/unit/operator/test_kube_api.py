"""What the operator's calls of Kubernetes send, and what they make of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient

from cluster.operator.state import Unavailable
from cluster.operator.substrates.kubernetes.api import SECRETS, Api, Refused, plain_configuration

SECRET: dict[str, Any] = {"kind": "Secret", "metadata": {"name": "a b", "labels": {"x": None}}, "data": {"grün": "1"}}


class Server:
    """Answers every call with the same; remembers what was asked."""

    def __init__(self) -> None:
        self.status, self.answer = 200, "{}"
        self.asked: list[web.Request] = []
        self.bodies: list[Any] = []

    async def take(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        self.bodies.append(await request.json() if request.can_read_body else None)
        return web.Response(status=self.status, text=self.answer, content_type="application/json")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.take)
    async with TestServer(application) as listening:
        configuration = plain_configuration()
        configuration.host = str(listening.make_url("")).rstrip("/")
        configuration.api_key = {"BearerToken": "secret"}
        configuration.api_key_prefix = {"BearerToken": "Bearer"}
        async with ApiClient(configuration) as client:
            yield Api(client)


async def test_a_document_is_sent_as_it_is_with_the_token_and_the_manager(api: Api, server: Server) -> None:
    await api.apply(SECRETS, "sessions", SECRET)
    [asked], [body] = server.asked, server.bodies
    assert (asked.method, asked.raw_path.partition("?")[0]) == ("PATCH", "/api/v1/namespaces/sessions/secrets/a%20b")
    assert dict(asked.query) == {"fieldManager": "gshare-operator", "force": "true"}
    assert asked.headers["Authorization"] == "Bearer secret"
    assert asked.headers["Content-Type"] == "application/apply-patch+yaml"
    assert body == SECRET


async def test_labels_are_asked_for_in_the_address(api: Api, server: Server) -> None:
    await api.list(SECRETS, None, labels="gshare.io/session,a in (b, c)")
    [asked] = server.asked
    assert dict(asked.query) == {"labelSelector": "gshare.io/session,a in (b, c)"} and server.bodies == [None]


async def test_what_is_made_is_posted_and_the_answer_left_unread(api: Api, server: Server) -> None:
    server.answer = "no JSON"
    await api.make(SECRETS, "sessions", SECRET)
    [asked] = server.asked
    assert (asked.method, asked.path, dict(asked.query)) == (
        "POST",
        "/api/v1/namespaces/sessions/secrets",
        {"fieldManager": "gshare-operator"},
    )
    assert server.bodies == [SECRET]
    with pytest.raises(Unavailable, match="no JSON"):
        await api.apply(SECRETS, "sessions", SECRET)


async def test_what_is_made_and_turned_down_is_refused(api: Api, server: Server) -> None:
    server.status, server.answer = 409, '{"reason": "AlreadyExists", "message": "it is there"}'
    with pytest.raises(Refused, match="it is there"):
        await api.make(SECRETS, "sessions", SECRET)
