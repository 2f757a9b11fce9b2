"""`manage.py bench SUBJECT`: measure one subject and compare it with its bars.

Prints one line a figure (JSON lines with `--json`, the machine first). Exits 1 when an answer was wrong, and with
`--strict` also when a bar was missed.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gshare_site.benches import Figure, WrongAnswer, benches, machine


class Command(BaseCommand):
    """Hands over to a module of `gshare_site.benches`."""

    help = "Measure the figures of docs/figures.md."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
        for name, bench in benches().items():
            subject = subjects.add_parser(name, help=bench.HELP, description=bench.HELP)
            subject.add_argument("--json", action="store_true", help="One JSON document a line.")
            subject.add_argument("--strict", action="store_true", help="Exit 1 when a bar is missed.")
            bench.add_arguments(subject)

    def handle(self, **options: Any) -> None:
        bench = benches()[options["subject"]]
        self._say(options, {"machine": machine()}, f"machine: {machine()}")
        missed: list[Figure] = []
        verified = ""
        try:
            for figure in bench.run(options):
                self._say(options, {"bench": options["subject"], **figure.as_dict()}, figure.as_text())
                if figure.verified != verified and not options["json"]:
                    self.stdout.write(f"    verified: {figure.verified}")
                verified = figure.verified
                if not figure.meets_bar:
                    missed.append(figure)
        except (WrongAnswer, ValueError) as refusal:
            raise CommandError(str(refusal)) from refusal
        if missed and options["strict"]:
            raise CommandError(f"below the bar: {', '.join(figure.name for figure in missed)}")

    def _say(self, options: dict[str, Any], document: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(document) if options["json"] else text)
        self.stdout.flush()
