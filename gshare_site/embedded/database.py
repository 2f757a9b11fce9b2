"""Roles and database of the private PostgreSQL, made once and repaired at every start."""

from collections.abc import Mapping

import psycopg

from gshare_site.embedded.postgres import SUPERUSER, PrivatePostgres
from gshare_site.provision import APP_ROLE, OWNER_ROLE, create_database, create_role

DATABASE = "gshare"


def provision(server: PrivatePostgres, kept: Mapping[str, str]) -> None:
    """The two roles with their passwords, and the database that the owner owns."""
    with psycopg.connect(server.conninfo(SUPERUSER, kept["superuser_password"]), autocommit=True) as connection:
        create_role(connection, OWNER_ROLE, kept["owner_password"])
        create_role(connection, APP_ROLE, kept["app_password"])
        create_database(connection, DATABASE, owner=OWNER_ROLE)


def serving_url(server: PrivatePostgres, kept: Mapping[str, str]) -> str:
    return server.url(APP_ROLE, kept["app_password"], DATABASE)


def owner_url(server: PrivatePostgres, kept: Mapping[str, str]) -> str:
    return server.url(OWNER_ROLE, kept["owner_password"], DATABASE)
