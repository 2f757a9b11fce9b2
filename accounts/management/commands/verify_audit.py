"""`manage.py verify_audit`: recompute the audit chain; exit 1 on any difference."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts import audit


class Command(BaseCommand):
    help = (
        "Recomputes the whole audit chain and counts entries without a seal. Exits 1 when a seal does not fit, when an entry"
        " should have been sealed long ago, or when a head noted earlier (--head) is no link of the chain any more."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--head", default="", help="seq:hash as an earlier run printed it; finds a cut-off end")

    def handle(self, *_arguments: Any, head: str, **_options: Any) -> None:
        found = audit.verify()
        self.stdout.write(f"{found.sealed} sealed, {found.unsealed} not sealed yet; head {found.head}")
        wrong = [f"seal {fault.seq}: {fault.what}" for fault in found.faults]
        if found.late:
            wrong.append(f"{found.late} entries should have been sealed long ago: is the worker running?")
        if head and not audit.holds(head):
            wrong.append(f"the head {head} is not part of this chain: its end was cut off or replaced")
        if wrong:
            raise CommandError("\n".join(wrong))
