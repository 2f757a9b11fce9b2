"""`manage.py up`: the embedded default, supervised."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gshare_site.embedded.stack import Stack, StackError
from gshare_site.environment import default_env_file, load


class Command(BaseCommand):
    help = "Runs everything on this machine: private PostgreSQL and Valkey, web, worker, beat, a local cluster. Ctrl-C ends it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--demo", action="store_true", help="Also make the demo's people, credits, catalogue, cluster."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        config = load(env_file=default_env_file())
        os.chdir(Path(__file__).anchor)
        try:
            Stack(config=config, demo=options["demo"], say=self._say).run()
        except StackError as error:
            raise CommandError(str(error)) from error

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
