"""Requests share the process's connections to the cache."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from uuid import uuid4

import redis
from django.core.cache import caches
from django.test import override_settings

from gshare_core.kit.shared_cache import count
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


def test_a_count_is_one_round_trip_exact_between_processes_and_ends_with_its_time(services: Addresses) -> None:
    options = base.CACHES["default"] | {"LOCATION": services.redis, "KEY_PREFIX": "count-test"}
    key = uuid4().hex
    with override_settings(CACHES={"default": options}), redis.Redis.from_url(services.redis) as watching:
        with ThreadPoolExecutor(8) as pool:
            counted = sorted(pool.map(lambda _: count(key, timeout=60), range(40)))
        assert counted == list(range(1, 41))
        assert count(f"{key}-other", timeout=60) == 1
        kept = watching.ttl(caches["default"].make_key(key))
        assert 0 < kept <= 60
