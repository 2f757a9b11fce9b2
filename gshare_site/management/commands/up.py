"""`manage.py up`: the embedded default, supervised."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gshare_site.embedded import up
from gshare_site.embedded.stack import StackError


class Command(BaseCommand):
    help = up.HELP
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        up.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            up.run(demo=options["demo"])
        except StackError as error:
            raise CommandError(str(error)) from error
