"""`manage.py reconcile [--check]`: recount what limits count and who stands in line; with `--check` exit 1 on any difference."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app import recounting


class Command(BaseCommand):
    help = (
        "Recounts the counters of limits and the line from the sessions, and repairs them. With --check it only looks."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Change nothing; exit 1 on any difference.")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        found = recounting.differences() if check else recounting.repair()
        for difference in found:
            self.stderr.write(
                f"{difference.what} {difference.scope} {difference.field}:"
                f" stored {_number(difference.stored)}, counted {_number(difference.counted)}"
            )
        if found and check:
            raise CommandError(f"Counters and line do not agree: {len(found)} differences.")
        self.stdout.write(f"{len(found)} repaired." if found else "Counters and line agree with the sessions.")


def _number(value: int | None) -> str:
    return "none" if value is None else str(value)
