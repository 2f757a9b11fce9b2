"""`manage.py migrate_all`: bring the schema up to date as its owner, then grant the serving role its rights.

Runs no system checks: it must work while a newer release's configuration is still being put right; `manage.py check` does.
"""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from gshare_site.owner import owner_alias


class Command(BaseCommand):
    help = "Migrates as the owning role (GSHARE_MIGRATION_DATABASE_URL), then runs `grant`."

    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Exit 1 when migrations are missing; change nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        with owner_alias() as alias:
            call_command(
                "migrate",
                database=alias,
                interactive=False,
                skip_checks=True,
                check_unapplied=options["check"],
                verbosity=options["verbosity"],
                stdout=self.stdout,
                stderr=self.stderr,
            )
        if not options["check"]:
            call_command("grant", verbosity=options["verbosity"], stdout=self.stdout, stderr=self.stderr)
