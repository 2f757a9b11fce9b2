"""A wallet's side of a transfer, as a view: what statements read.

Guarantees: one row for each wallet that a transfer moved, in the order of the wallet's own numbers, which PostgreSQL reads
from both of its indexes side by side: a page of a wallet costs the same whether it has fifty entries or a million. It is a
view, so nothing is kept twice and nothing can be written. Refuses mint and revenue, whose transfers are not numbered.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from billing.models.ledger import KEY_LENGTH, LABEL_LENGTH, NOTE_LENGTH, Account, TransferKind
from billing.models.meter import Posting
from gshare_core.kit.fields import MicroField


class Entry(models.Model):
    """One transfer as one of its wallets sees it; `id` is the transfer's. `posting` is None where it is no charge."""

    id = models.UUIDField(primary_key=True)
    wallet = models.ForeignKey(Account, models.PROTECT, related_name="+", verbose_name=_("wallet"))
    entry_number = models.BigIntegerField()
    balance_after = MicroField()
    change = MicroField()
    at = models.DateTimeField(_("at"))
    kind = models.CharField(_("kind"), max_length=8, choices=TransferKind)
    debit = models.ForeignKey(Account, models.PROTECT, related_name="+", verbose_name=_("from"))
    credit = models.ForeignKey(Account, models.PROTECT, related_name="+", verbose_name=_("to"))
    amount = MicroField(_("amount"))
    reference = models.UUIDField(_("reference"), null=True)
    label = models.CharField(_("label"), max_length=LABEL_LENGTH, blank=True)
    note = models.CharField(_("note"), max_length=NOTE_LENGTH, blank=True)
    actor = models.ForeignKey("accounts.User", models.PROTECT, null=True, related_name="+", verbose_name=_("actor"))
    key = models.CharField(_("key"), max_length=KEY_LENGTH)
    posting = models.ForeignKey(Posting, models.PROTECT, null=True, related_name="+")

    class Meta:
        managed = False
        db_table = "billing_entry"
        verbose_name = _("entry")
        verbose_name_plural = _("entries")

    def __str__(self) -> str:
        return f"{self.kind} {self.change}"
