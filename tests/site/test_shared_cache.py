"""Requests share the process's connections to the cache."""

from contextvars import Context

import redis
from django.core.cache import caches
from django.test import override_settings

from gshare_site.settings import base
from tests.services import Addresses


def test_every_request_has_a_context_of_its_own_and_all_share_one_connection(services: Addresses) -> None:
    options = base.CACHES["default"] | {"LOCATION": services.redis, "KEY_PREFIX": "shared-cache-test"}
    with override_settings(CACHES={"default": options}), redis.Redis.from_url(services.redis) as watching:

        def one_request(number: int) -> int:
            caches["default"].set("last", number)
            found: int = caches["default"].get("last")
            return found

        before = watching.info("stats")["total_connections_received"]
        assert [Context().run(one_request, number) for number in range(5)] == list(range(5))
        assert watching.info("stats")["total_connections_received"] <= before + 1


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(services: Addresses) -> None:
    options = base.CACHES["default"] | {"LOCATION": services.redis, "KEY_PREFIX": "closed-cache-test"}
    with override_settings(CACHES={"default": options}), redis.Redis.from_url(services.redis) as watching:
        caches["default"].set("kept", 1)
        for client in watching.client_list():
            if client["name"] == "" and client["cmd"].startswith("set"):
                watching.client_kill(client["addr"])
        assert caches["default"].get("kept") == 1
