"""What every test can use.

Database: a test asks by `pytestmark = pytest.mark.django_db` (or the fixture `db`): it runs in a transaction as the role
`gshare_app` and is rolled back. Whoever needs real commits, threads or other processes says
`pytest.mark.django_db(transaction=True)` (or `transactional_db`): the tables are emptied as the owner afterwards.

    gshare(**fields)         settings.GSHARE with other values for this test: `gshare(hold_window=timedelta(minutes=5))`
    owner_connection         psycopg connection as gshare_owner to this worker's database (autocommit), with transactional tests
    app_connect()            function: a new psycopg connection as gshare_app; closed at the end of the test
    redis_url                address of this worker's own Valkey; flushed before the test
    service_environment      environment for a GShare subprocess (manage.py, web, worker) on this worker's database
    fresh_database(name)     function: another migrated database, returns its environment (for tests that run whole processes)

Waiting: `tests.waiting.until(condition, within=…, what=…)`. Time: `gshare_core.kit.clock`.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import django.test
import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from psycopg import sql

from gshare_site.provision import OWNER_ROLE
from gshare_site.services import database_settings, redis_urls
from gshare_site.settings.test import GIVEN
from tests.cleaning import Cleaner
from tests.services import TEMPLATE, Addresses, environment, running_services, running_valkey, with_database

# How long an example takes says how busy the machine is; benches are for speed.
hypothesis_settings.register_profile("gshare", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("gshare")

_stack = ExitStack()
_ADDRESSES = pytest.StashKey[Addresses]()


def _addresses(config: pytest.Config) -> Addresses:
    """The run's services: handed down by the controller under xdist, else started at the first need."""
    if _ADDRESSES not in config.stash:
        worker_input = getattr(config, "workerinput", None)
        config.stash[_ADDRESSES] = (
            Addresses(**worker_input["gshare_services"])
            if worker_input is not None
            else _stack.enter_context(running_services(GIVEN))
        )
    return config.stash[_ADDRESSES]


class _HandDown:
    """Gives xdist's workers the addresses, and what was given: the controller's environment has lost it by then."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["gshare_services"] = _addresses(node.config).as_dict()
        node.workerinput["gshare_given"] = GIVEN


def pytest_configure(config: pytest.Config) -> None:
    GIVEN.update(getattr(config, "workerinput", {}).get("gshare_given", {}))
    config.pluginmanager.register(_HandDown())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with many tests first, so that workers end together; the browser stories last.

    Their browser serves all of a worker's stories and its event loop stays in the worker's thread, where no test of another
    kind could run after them.
    """
    many = Counter(item.path for item in items)
    items.sort(key=lambda item: ("e2e" in item.path.parts, -many[item.path]))


def pytest_unconfigure(config: pytest.Config) -> None:
    connections.close_all()
    _stack.close()


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Iterator[Addresses]:
    found = _addresses(request.config)
    with nullcontext(found.redis) if found.redis else running_valkey() as redis_url:
        yield replace(found, redis=redis_url)


@pytest.fixture(scope="session")
def database_name(services: Addresses) -> str:
    """A copy of the migrated template for this worker."""
    name = f"gshare_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    copy_template(services, name)
    return name


def copy_template(services: Addresses, name: str) -> None:
    """Make the database `name` anew from the migrated template."""
    with psycopg.connect(with_database(services.superuser, "postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(TEMPLATE), sql.Identifier(OWNER_ROLE)
            )
        )


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, services: Addresses, database_name: str) -> Iterator[None]:
    """In place of pytest-django's: our server, our template, our roles, our way of cleaning up."""
    serving = database_settings(with_database(services.app, database_name))
    connections.settings["default"].update(serving)
    settings.DATABASES["default"].update(serving)
    cleaner = Cleaner(with_database(services.owner, database_name))
    patch = pytest.MonkeyPatch()
    patch.setattr(django.test.TransactionTestCase, "_fixture_teardown", lambda self: cleaner.clean())
    yield
    patch.undo()
    connections.close_all()
    cleaner.close()


@pytest.fixture
def gshare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces fields of settings.GSHARE for this test."""

    def with_fields(**fields: Any) -> None:
        unknown = set(fields) - set(type(settings.GSHARE).model_fields)
        assert not unknown, f"no such settings: {sorted(unknown)}"
        monkeypatch.setattr(settings, "GSHARE", settings.GSHARE.model_copy(update=fields))

    return with_fields


@pytest.fixture
def owner_connection(services: Addresses, database_name: str, django_db_setup: None) -> Iterator[psycopg.Connection]:
    with psycopg.connect(with_database(services.owner, database_name), autocommit=True) as connection:
        yield connection


@pytest.fixture
def app_connect(
    services: Addresses, database_name: str, django_db_setup: None
) -> Iterator[Callable[[], psycopg.Connection]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(psycopg.connect(with_database(services.app, database_name)))


@pytest.fixture
def redis_url(services: Addresses, monkeypatch: pytest.MonkeyPatch) -> str:
    client = redis.Redis.from_url(services.redis)
    client.flushall()
    client.close()
    monkeypatch.setattr(settings, "REDIS", redis_urls(services.redis))
    return services.redis


@pytest.fixture
def service_environment(services: Addresses, database_name: str, django_db_setup: None) -> dict[str, str]:
    return environment(services, database_name)


@pytest.fixture
def fresh_database(services: Addresses) -> Iterator[Callable[[str], dict[str, str]]]:
    made: list[str] = []

    def make(name: str) -> dict[str, str]:
        full = f"gshare_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{name}"
        copy_template(services, full)
        made.append(full)
        return environment(services, full)

    yield make
    with psycopg.connect(with_database(services.superuser, "postgres"), autocommit=True) as connection:
        for name in made:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
