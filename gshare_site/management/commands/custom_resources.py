"""`manage.py custom_resources`: the definitions of our custom resources, as the chart installs them."""

from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from gshare_core.contract.crds import definitions

FOLDER = "deploy/chart/crds"
_HEAD = "# Made by `make custom-resources` from gshare_core/contract; edit that.\n"


def files() -> dict[str, str]:
    """The text of each definition by its file's name."""
    return {
        f"{each['metadata']['name']}.yaml": _HEAD + yaml.safe_dump(each, sort_keys=False, width=110)
        for each in definitions()
    }


class Command(BaseCommand):
    help = "Prints the custom resource definitions; --write puts them into the chart."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true", help=f"Replace the files in {FOLDER}.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["write"]:
            self.stdout.write("---\n".join(files().values()), ending="")
            return
        folder = Path(settings.BASE_DIR) / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files().items():
            (folder / name).write_text(text, encoding="utf-8")
