"""What the trial balance has verified: each check as a row that is never changed, and how far each figure was verified.

Guarantees: a checkpoint says when somebody looked and what he found; the verified figures are those of the last check that
found nothing, all of one snapshot, for they are written in its transaction. Wallets are known by their own numbers of
entries, which a wallet's lock hands out without a gap: whatever commits later has a higher one, whenever its id was made.
Keys are plain ids: a foreign key would lock rows that traffic changes, and a check must not wait for traffic.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from gshare_core.kit.fields import Identified, MicroField


class Checkpoint(models.Model):
    """One trial balance: of everything (`is_full`), or of what came after the last one that agreed."""

    number = models.BigIntegerField(_("number"), primary_key=True)
    at = models.DateTimeField(_("at"))
    is_full = models.BooleanField(_("everything was read"))
    differences = models.PositiveIntegerField(_("differences"))
    found = models.JSONField(_("first differences"), default=list, help_text=_("What, of which row, stored, computed."))
    issued = MicroField(_("issued"))
    earned = MicroField(_("earned"))
    transfers = models.BigIntegerField(_("transfers"))
    read = models.BigIntegerField(_("entries read"))

    class Meta:
        verbose_name = _("trial balance")
        verbose_name_plural = _("trial balances")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(number__gte=1, transfers__gte=0, read__gte=0), name="checkpoint_counts_up"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["number"], condition=Q(differences=0), name="checkpoint_that_agreed"),
            models.Index(fields=["number"], condition=Q(is_full=True), name="checkpoint_of_everything"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.differences}"

    @property
    def agrees(self) -> bool:
        """Did everything agree to the micro-credit?"""
        return self.differences == 0


class VerifiedWallet(models.Model):
    """Up to which of its entries a wallet was verified, and what it had then."""

    wallet_id = models.UUIDField(_("wallet"), primary_key=True)
    entries = models.BigIntegerField(_("entries"))
    balance = MicroField(_("balance"))

    class Meta:
        verbose_name = _("verified wallet")
        verbose_name_plural = _("verified wallets")

    def __str__(self) -> str:
        return f"{self.wallet_id}: {self.balance}"


class VerifiedAllocation(Identified):
    """What a parent had given a wallet net, as it was verified; the id is the allocation's."""

    wallet_id = models.UUIDField(_("wallet"))
    parent_id = models.UUIDField(_("parent"))
    net = MicroField(_("net"))

    class Meta:
        verbose_name = _("verified allocation")
        verbose_name_plural = _("verified allocations")

    def __str__(self) -> str:
        return f"{self.wallet_id} from {self.parent_id}: {self.net}"


class VerifiedMeter(models.Model):
    """What an open meter had charged, as it was verified. A settled one is charged no more and needs no row."""

    run_id = models.UUIDField(_("run"), primary_key=True)
    charged = MicroField(_("charged"))

    class Meta:
        verbose_name = _("verified meter")
        verbose_name_plural = _("verified meters")

    def __str__(self) -> str:
        return f"{self.run_id}: {self.charged}"


class VerifiedPeriod(models.Model):
    """What was spent in a period of an active budget, as it was verified."""

    period_id = models.UUIDField(_("period"), primary_key=True)
    spent = MicroField(_("spent"))

    class Meta:
        verbose_name = _("verified period")
        verbose_name_plural = _("verified periods")

    def __str__(self) -> str:
        return f"{self.period_id}: {self.spent}"
