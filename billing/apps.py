"""Django's entry to billing: wallets, ledger, meters, budgets."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class BillingConfig(AppConfig):
    """Tables named in `insert_only_tables` are granted SELECT and INSERT only to the serving role."""

    name = "billing"
    verbose_name = _("Billing")
    insert_only_tables: tuple[str, ...] = (
        "billing_transfer",
        "billing_posting",
        "billing_budgetalert",
        "billing_grantrefill",
        "billing_checkpoint",
    )
