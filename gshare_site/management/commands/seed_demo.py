"""`manage.py seed_demo`: bootstrap, catalogue, demo people and credits. Repeatable; for trying, never for production."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from gshare_site.bootstrapping import bootstrap
from gshare_site.demo import Login, Memory, new_password, seed_people
from gshare_site.embedded.places import Places

ADMIN_EMAIL = "admin@gshare.example"


class Command(BaseCommand):
    help = "Two organisations with groups, people and credits, the catalogue. Logins: $GSHARE_HOME/demo-users.json."

    def handle(self, *args: Any, **options: Any) -> None:
        memory = Memory.read(Places(settings.GSHARE.home).demo_users)
        email = settings.GSHARE.bootstrap_admin_email or ADMIN_EMAIL
        known = memory.users.get(email)
        password = settings.GSHARE.bootstrap_admin_password.get_secret_value() or (
            known.password if known else new_password()
        )
        memory.remember(Login(email, password, "super_admin", "Administrator", "administers everything"))
        made = bootstrap(email=email, password=password)
        call_command("seed_catalog", verbosity=0, stdout=self.stdout, stderr=self.stderr)
        seed_people(made.administrator, memory)
        self.stdout.write("Seeded the demo." if made.administrator_is_new else "The demo is seeded.")
