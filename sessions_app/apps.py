"""Django's entry to sessions_app: sessions, admission, queue, access."""

from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SessionsAppConfig(AppConfig):
    """Tables named in `insert_only_tables` are granted SELECT and INSERT only to the serving role."""

    name = "sessions_app"
    verbose_name = _("Sessions")
    insert_only_tables: tuple[str, ...] = ("sessions_app_timelineentry",)

    def ready(self) -> None:
        import_module("sessions_app.uses").answer()
