"""What parents give monthly, and what became of it each month.

Guarantees by constraint: one grant per wallet and parent; one refill per wallet, parent and month, never changed; what a
refill moved and fell short of adds up to its share.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from billing.models.ledger import Account, Transfer
from gshare_core.kit.fields import Identified, MicroField


class MonthlyGrant(Identified):
    """At the start of each month, from `since` on, `parent` raises `wallet` by up to `amount` towards its target.

    A wallet's target is the sum of its grants.
    """

    wallet = models.ForeignKey(Account, models.PROTECT, related_name="grants", verbose_name=_("wallet"))
    parent = models.ForeignKey(Account, models.PROTECT, related_name="grants_given", verbose_name=_("parent"))
    amount = MicroField(_("amount"))
    since = models.DateField(_("first month"))

    class Meta:
        verbose_name = _("monthly grant")
        verbose_name_plural = _("monthly grants")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["wallet", "parent"], name="grant_once"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="grant_positive"),
            models.CheckConstraint(condition=~Q(wallet=F("parent")), name="grant_between_two"),
            models.CheckConstraint(condition=Q(since__day=1), name="grant_since_first_of_month"),
        ]

    def __str__(self) -> str:
        return f"{self.wallet_id} from {self.parent_id}: {self.amount}"


class GrantRefill(Identified):
    """What one parent gave one wallet in one month: its share of what the wallet lacked, moved as far as it was there."""

    wallet = models.ForeignKey(Account, models.PROTECT, related_name="refills", verbose_name=_("wallet"))
    parent = models.ForeignKey(Account, models.PROTECT, related_name="refills_given", verbose_name=_("parent"))
    month = models.DateField(_("month"))
    amount = MicroField(_("grant"))
    moved = MicroField(_("moved"))
    shortfall = MicroField(_("shortfall"))
    transfer = models.OneToOneField(Transfer, models.PROTECT, null=True, related_name="+", verbose_name=_("transfer"))
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("grant refill")
        verbose_name_plural = _("grant refills")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["wallet", "parent", "month"], name="refill_once"),
            models.CheckConstraint(
                condition=Q(moved__gte=0, shortfall__gte=0, amount__gte=F("moved") + F("shortfall")),
                name="refill_within_grant",
            ),
            models.CheckConstraint(
                condition=Q(moved=0, transfer=None) | Q(moved__gt=0, transfer__isnull=False),
                name="refill_moved_by_transfer",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["parent", "month"], name="refill_of_parent")]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}: {self.moved}"
