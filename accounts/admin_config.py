"""Puts `ConsoleAdminSite` in the place of Django's: INSTALLED_APPS names this instead of `django.contrib.admin`."""

from django.contrib.admin.apps import AdminConfig


class ConsoleAdminConfig(AdminConfig):
    """Django's admin with the console's door."""

    default_site = "accounts.admin_site.ConsoleAdminSite"
