"""`manage.py prepare`: migrate, grant, bootstrap, local cluster and, for the demo, seed. `up` runs it before anything serves."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from gshare_site.embedded.places import Places
from gshare_site.local_cluster import ensure_local_cluster


class Command(BaseCommand):
    help = "migrate_all, bootstrap or (with --demo) seed_demo, and the local cluster with its token, in one process. Repeatable."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="Also run seed_demo.")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate_all", verbosity=0, stdout=self.stdout, stderr=self.stderr)
        if options["demo"]:
            call_command("seed_demo", stdout=self.stdout, stderr=self.stderr)
        else:
            call_command("bootstrap", stdout=self.stdout, stderr=self.stderr)
        ensure_local_cluster(Places(settings.GSHARE.home).operator_token)
