"""Two web processes before one database, as behind a load balancer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.concurrency.front import TwoWebs, two_webs
from tests.services import Addresses


@pytest.fixture(scope="session")
def _two_webs(
    services: Addresses, database_name: str, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoWebs]:
    with two_webs(services, database_name, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def webs(_two_webs: TwoWebs, transactional_db: None, redis_url: str) -> TwoWebs:
    """Both processes; the tables are emptied after the test, the cache before it."""
    return _two_webs
