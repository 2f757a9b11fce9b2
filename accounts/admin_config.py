"""Puts `ConsoleAdminSite` in the place of Django's: INSTALLED_APPS names this instead of `django.contrib.admin`."""

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.apps import AdminConfig


class ConsoleAdminConfig(AdminConfig):
    """Django's admin with the console's door."""

    default_site = "accounts.admin_site.ConsoleAdminSite"

    def ready(self) -> None:
        """Everything that the applications register; Django's own groups and permissions mean nothing here."""
        super().ready()
        admin.site.unregister(apps.get_model("auth", "Group"))
