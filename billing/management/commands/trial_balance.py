"""`manage.py trial_balance`: recompute the books; exit 1 on any difference, to the micro-credit."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing import trial
from gshare_core.money import format_credits


class Command(BaseCommand):
    help = "Recomputes wallets, holds, meters and budgets from the ledger. Exits 1 on any difference."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, default=20, help="Most differences that are printed.")

    def handle(self, *args: Any, **options: Any) -> None:
        found = trial.differences()
        for difference in found[: options["limit"]]:
            stored, computed = format_credits(difference.stored), format_credits(difference.computed)
            self.stderr.write(f"{difference.what} {difference.row}: stored {stored}, computed {computed}")
        if found:
            raise CommandError(f"The books do not agree: {len(found)} differences.")
        sums = trial.totals()
        self.stdout.write(
            f"The books agree to the micro-credit: issued {format_credits(sums.issued)},"
            f" earned {format_credits(sums.earned)}, in wallets {format_credits(sums.in_wallets)},"
            f" of it held {format_credits(sums.held)}, {sums.transfers} transfers."
        )
