"""The two database roles and what each may do.

`gshare_owner` owns and migrates; `gshare_app` serves and may neither change the schema nor rewrite history: on tables that an
app lists in `AppConfig.insert_only_tables` it has SELECT and INSERT, on all others SELECT, INSERT, UPDATE, DELETE, and
TRUNCATE on none. Granting is repeatable and runs after every migration (`manage.py migrate_all`).
"""

from collections.abc import Iterable

import psycopg
from django.apps import apps
from psycopg import sql

OWNER_ROLE = "gshare_owner"
APP_ROLE = "gshare_app"
READ_ONLY_TABLES = frozenset({"django_migrations"})


class ProvisionError(Exception):
    """What was asked does not fit the schema; the message names the table or role."""


def create_role(connection: psycopg.Connection, role: str, password: str) -> None:
    """Make the role or renew its password. For a superuser's connection."""
    exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    verb = sql.SQL("ALTER" if exists else "CREATE")
    connection.execute(
        sql.SQL("{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}").format(
            verb, sql.Identifier(role), sql.Literal(password)
        )
    )


def create_database(connection: psycopg.Connection, name: str, *, owner: str, template: str = "template1") -> None:
    """Make the database unless it is there. For a superuser's autocommit connection."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
        return
    connection.execute(
        sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(owner), sql.Identifier(template)
        )
    )


def insert_only_tables() -> frozenset[str]:
    """What the installed apps declare."""
    return frozenset(table for app in apps.get_app_configs() for table in getattr(app, "insert_only_tables", ()))


def grant(connection: psycopg.Connection, *, role: str, insert_only: Iterable[str]) -> int:
    """Give `role` exactly its rights on every table of the schema; returns the number of tables. For the owner's connection."""
    insert_only = frozenset(insert_only)
    tables = [
        row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    ]
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        raise ProvisionError(f"the database has no role {role}; create it first (docs/getting-started.md)")
    grantee = sql.Identifier(role)
    with connection.transaction():
        connection.execute(sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(grantee))
        for table in tables:
            name = sql.Identifier(table)
            if table in READ_ONLY_TABLES:
                rights = sql.SQL("SELECT")
            elif table in insert_only:
                rights = sql.SQL("SELECT, INSERT")
            else:
                rights = sql.SQL("SELECT, INSERT, UPDATE, DELETE")
            connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM {}, PUBLIC").format(name, grantee))
            connection.execute(sql.SQL("GRANT {} ON TABLE {} TO {}").format(rights, name, grantee))
        for (view,) in connection.execute(
            "SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1"
        ).fetchall():
            name = sql.Identifier(view)
            connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM {}, PUBLIC").format(name, grantee))
            connection.execute(sql.SQL("GRANT SELECT ON TABLE {} TO {}").format(name, grantee))
        connection.execute(sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}").format(grantee))
    return len(tables)
