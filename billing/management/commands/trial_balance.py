"""`manage.py trial_balance [--full]`: compare the books to the micro-credit; exit 1 on any difference."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing import trial
from gshare_core.money import format_credits


class Command(BaseCommand):
    help = (
        "Recomputes wallets, holds, meters and budgets from what the ledger got since the last trial balance that agreed,"
        " or from all of it. Exits 1 on any difference."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--full", action="store_true", help="Read the whole ledger.")
        parser.add_argument("--limit", type=int, default=trial.TOLD, help="Most differences that are printed.")

    def handle(self, *args: Any, **options: Any) -> None:
        checked = trial.check(full=options["full"])
        for what, row, stored, computed in checked.found[: options["limit"]]:
            self.stderr.write(f"{what} {row}: stored {format_credits(stored)}, computed {format_credits(computed)}")
        if not checked.agrees:
            raise CommandError(f"The books do not agree: {checked.differences} differences.")
        sums = trial.totals_of(checked)
        read = "all of them read" if checked.is_full else f"{checked.read} entries read"
        self.stdout.write(
            f"The books agree to the micro-credit: issued {format_credits(sums.issued)},"
            f" earned {format_credits(sums.earned)}, in wallets {format_credits(sums.in_wallets)},"
            f" of it held {format_credits(sums.held)}, {sums.transfers} transfers ({read})."
        )
