"""The owning role's connection, opened only by the few commands that migrate and grant; a serving process never has it."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections

from gshare_site.services import database_settings

ALIAS = "owner"


@contextmanager
def owner_alias() -> Iterator[str]:
    """A database alias of GSHARE_MIGRATION_DATABASE_URL for the duration of the block. Raises CommandError without it."""
    url = settings.GSHARE.migration_database_url.get_secret_value()
    if not url:
        raise CommandError("GSHARE_MIGRATION_DATABASE_URL is not set: it names the role that owns the tables")
    known = ALIAS in connections.settings
    if not known:
        entry = database_settings(url, variable="GSHARE_MIGRATION_DATABASE_URL")
        connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: entry})[ALIAS]
    try:
        yield ALIAS
    finally:
        connections[ALIAS].close()
        if not known:
            del connections.settings[ALIAS]
            del connections[ALIAS]
