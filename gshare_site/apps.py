"""Django's entry to gshare_site: only its management commands; it has no models and nobody imports it."""

from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SiteConfig(AppConfig):
    """The composition root as a Django app: its commands are found, and hints leave through our Celery app."""

    name = "gshare_site"
    verbose_name = _("Site")

    def ready(self) -> None:
        import_module("gshare_site.celery")
