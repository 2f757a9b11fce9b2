"""Two roles: one owns, one serves; the one that serves cannot rewrite history nor change the schema."""

from collections.abc import Callable

import psycopg
import pytest
from django.db import connection

from gshare_site.provision import insert_only_tables

pytestmark = pytest.mark.django_db


def _one(statement: str, *parameters: object) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()[0]


def test_tests_and_servers_speak_as_the_serving_role_which_owns_nothing() -> None:
    assert _one("SELECT current_user") == "gshare_app"
    assert _one("SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tableowner <> 'gshare_owner'") == 0


def test_the_serving_role_may_truncate_no_table() -> None:
    tables = connection.introspection.table_names()
    assert "django_migrations" in tables
    assert [t for t in tables if _one("SELECT has_table_privilege('gshare_app', %s, 'TRUNCATE')", t)] == []


def test_every_table_that_is_declared_insert_only_exists() -> None:
    assert sorted(insert_only_tables() - set(connection.introspection.table_names())) == []


def test_the_serving_role_may_neither_update_nor_delete_history() -> None:
    for table in insert_only_tables():
        for right in ("UPDATE", "DELETE", "TRUNCATE"):
            assert _one("SELECT has_table_privilege('gshare_app', %s, %s)", table, right) is False, (table, right)
        assert _one("SELECT has_table_privilege('gshare_app', %s, 'INSERT')", table) is True


def test_the_serving_role_cannot_make_tables(app_connect: Callable[[], psycopg.Connection]) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_connect().execute("CREATE TABLE public.sneaky (id int)")
