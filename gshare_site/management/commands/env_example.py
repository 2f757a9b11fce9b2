"""`manage.py env_example`: write every setting with its meaning and default as a `.env` to copy."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from gshare_site.settings_reference import env_example


class Command(BaseCommand):
    help = "Prints .env.example as the settings describe it; --write puts it into the checkout."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true", help="Replace .env.example.")

    def handle(self, *args: Any, **options: Any) -> None:
        text = env_example()
        if options["write"]:
            (Path(settings.BASE_DIR) / ".env.example").write_text(text, encoding="utf-8")
        else:
            self.stdout.write(text, ending="")
