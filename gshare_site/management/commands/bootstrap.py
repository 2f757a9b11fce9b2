"""`manage.py bootstrap`: the first super administrator, global policy, system wallet, signing key. Repeatable."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from gshare_core.errors import DomainError
from gshare_site.bootstrapping import bootstrap


class Command(BaseCommand):
    help = (
        "Makes the first super administrator from GSHARE_BOOTSTRAP_ADMIN_EMAIL and GSHARE_BOOTSTRAP_ADMIN_PASSWORD, the "
        "global policy, the system wallet and the signing key, unless they are there."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        email = settings.GSHARE.bootstrap_admin_email
        password = settings.GSHARE.bootstrap_admin_password.get_secret_value()
        missing = [
            name
            for name, value in (
                ("GSHARE_BOOTSTRAP_ADMIN_EMAIL", email),
                ("GSHARE_BOOTSTRAP_ADMIN_PASSWORD", password),
            )
            if not value
        ]
        if missing:
            raise CommandError(f"{' and '.join(missing)} must be set, in the environment or in .env")
        try:
            made = bootstrap(email=email, password=password)
        except DomainError as error:
            raise CommandError(
                f"GSHARE_BOOTSTRAP_ADMIN_EMAIL, GSHARE_BOOTSTRAP_ADMIN_PASSWORD: {_in_words(error)}"
            ) from error
        new = [
            text
            for text, is_new in (
                ("the first administrator", made.administrator_is_new),
                ("the global policy", made.policy_is_new),
                ("a signing key", made.signing_key_is_new),
            )
            if is_new
        ]
        self.stdout.write(f"Made {', '.join(new)}." if new else "Nothing was missing.")


def _in_words(error: DomainError) -> str:
    fields = "; ".join(" ".join(messages) for messages in error.errors.values())
    return " ".join(part for part in (error.detail, fields) if part)
