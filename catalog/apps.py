"""Django's entry to the catalogue: offerings, presets, images."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CatalogConfig(AppConfig):
    """Tables named in `insert_only_tables` are granted SELECT and INSERT only to the serving role."""

    name = "catalog"
    verbose_name = _("Catalogue")
    insert_only_tables: tuple[str, ...] = ("catalog_pricerevision",)
