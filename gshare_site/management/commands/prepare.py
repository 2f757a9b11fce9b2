"""`manage.py prepare`: migrate, grant, bootstrap and, for the demo, seed. What `up` runs before anything serves."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "migrate_all, bootstrap and (with --demo) seed_demo, in one process. Repeatable."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="Also run seed_demo.")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate_all", verbosity=0, stdout=self.stdout, stderr=self.stderr)
        if options["demo"]:
            call_command("seed_demo", stdout=self.stdout, stderr=self.stderr)
        else:
            call_command("bootstrap", stdout=self.stdout, stderr=self.stderr)
