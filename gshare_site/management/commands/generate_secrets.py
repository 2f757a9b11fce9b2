"""`manage.py generate_secrets`: fresh secrets as lines for a `.env` or a secret store. Writes nothing anywhere else."""

import secrets
from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Prints a new GSHARE_SECRET_KEY and a password for the first administrator."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"GSHARE_SECRET_KEY={secrets.token_urlsafe(48)}")
        self.stdout.write(f"GSHARE_BOOTSTRAP_ADMIN_PASSWORD={secrets.token_urlsafe(18)}")
