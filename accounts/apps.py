"""Django's entry to accounts: users, organisations, groups, roles, policies, audit."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    """Tables named in `insert_only_tables` are granted SELECT and INSERT only to the serving role."""

    name = "accounts"
    verbose_name = _("Accounts")
    insert_only_tables: tuple[str, ...] = ("accounts_auditentry", "accounts_auditseal")
