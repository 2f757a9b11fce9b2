"""`manage.py grant`: give the serving role exactly its rights on every table. Repeatable."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from gshare_site.owner import owner_alias
from gshare_site.provision import ProvisionError, grant, insert_only_tables


class Command(BaseCommand):
    help = "Grants the serving role (the user of GSHARE_DATABASE_URL) its rights, as the owning role."

    def handle(self, *args: Any, **options: Any) -> None:
        role = settings.DATABASES["default"]["USER"]
        with owner_alias() as alias:
            connection = connections[alias]
            connection.ensure_connection()
            if connection.settings_dict["USER"] == role:
                raise CommandError(
                    "GSHARE_MIGRATION_DATABASE_URL and GSHARE_DATABASE_URL use the same role; the serving role must not own the tables"
                )
            try:
                count = grant(connection.connection, role=role, insert_only=insert_only_tables())
            except ProvisionError as error:
                raise CommandError(str(error)) from error
        if options["verbosity"]:
            self.stdout.write(f"Granted {role} its rights on {count} tables.")
