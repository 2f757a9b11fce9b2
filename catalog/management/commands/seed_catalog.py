"""`manage.py seed_catalog`: real GPU models with tiers and rates, sizes, images. Repeatable; changes nothing that is there."""

import json
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from catalog.services import seed


class Command(BaseCommand):
    help = (
        "Adds what is missing in the catalogue. The local cluster runs every image from its own programs; a cluster that"
        " pulls images needs the digests of those that were built (--digests)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--registry", default="registry.gshare.internal", help="Registry of the session images.")
        parser.add_argument(
            "--digests", type=Path, help='JSON file {"sessions/python-3.11": "sha256:…"} of built images.'
        )

    def handle(self, *args: Any, **options: Any) -> None:
        digests = {}
        if options["digests"]:
            try:
                digests = json.loads(options["digests"].read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise CommandError(f"--digests: cannot read {options['digests']} ({error})") from None
        try:
            with transaction.atomic():
                made = seed(registry=options["registry"], digests=digests)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from None
        if options["verbosity"]:
            self.stdout.write(f"Added {made.offerings} offerings, {made.presets} presets, {made.images} images.")
