"""Django's entry to cluster: clusters, nodes, cards, claims, volumes."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClusterConfig(AppConfig):
    """Tables named in `insert_only_tables` are granted SELECT and INSERT only to the serving role."""

    name = "cluster"
    verbose_name = _("Clusters")
    insert_only_tables: tuple[str, ...] = ()
