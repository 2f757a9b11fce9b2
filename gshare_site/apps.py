"""Django's entry to gshare_site: only its management commands; it has no models and nobody imports it."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SiteConfig(AppConfig):
    """The composition root as a Django app, so that its commands are found."""

    name = "gshare_site"
    verbose_name = _("Site")
