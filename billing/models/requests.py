"""Requests for credits, and how each was decided.

Guarantees by constraint: a request is open or decided once, an approved one has its transfer; one open request per wallet
and parent, and one open forward per request.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from billing.models.ledger import NOTE_LENGTH, Account, Transfer
from gshare_core.kit.fields import Identified, MicroField


class RequestState(models.TextChoices):
    OPEN = "open", _("open")
    APPROVED = "approved", _("approved")
    REJECTED = "rejected", _("rejected")
    WITHDRAWN = "withdrawn", _("withdrawn")


class CreditRequest(Identified):
    """Somebody asks a parent to give a wallet credits. `forwards`: the request below that this one would pay for."""

    wallet = models.ForeignKey(Account, models.PROTECT, related_name="requests", verbose_name=_("wallet"))
    parent = models.ForeignKey(Account, models.PROTECT, related_name="requests_received", verbose_name=_("parent"))
    amount = MicroField(_("amount"))
    reason = models.CharField(_("reason"), max_length=NOTE_LENGTH)
    state = models.CharField(_("state"), max_length=9, choices=RequestState, default=RequestState.OPEN)
    asked_by = models.ForeignKey("accounts.User", models.PROTECT, related_name="+", verbose_name=_("asked by"))
    asked_at = models.DateTimeField(_("asked"))
    decided_by = models.ForeignKey(
        "accounts.User", models.PROTECT, null=True, related_name="+", verbose_name=_("decided by")
    )
    decided_at = models.DateTimeField(_("decided"), null=True)
    decision = models.CharField(_("decision"), max_length=NOTE_LENGTH, blank=True)
    transfer = models.OneToOneField(Transfer, models.PROTECT, null=True, related_name="+", verbose_name=_("transfer"))
    forwards = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="forwarded", verbose_name=_("forwards")
    )

    class Meta:
        verbose_name = _("credit request")
        verbose_name_plural = _("credit requests")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="request_positive"),
            models.CheckConstraint(condition=~Q(wallet=F("parent")), name="request_between_two"),
            models.CheckConstraint(
                condition=Q(state="open", decided_at=None, transfer=None)
                | Q(state="approved", decided_at__isnull=False, transfer__isnull=False)
                | Q(state__in=["rejected", "withdrawn"], decided_at__isnull=False, transfer=None),
                name="request_decided_once",
            ),
            models.UniqueConstraint(
                fields=["wallet", "parent"], condition=Q(state="open", forwards=None), name="request_one_open"
            ),
            models.UniqueConstraint(
                fields=["forwards"],
                condition=Q(state="open", forwards__isnull=False),
                name="request_one_open_forward",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["parent", "id"], condition=Q(state="open"), name="request_inbox")]

    def __str__(self) -> str:
        return f"{self.wallet_id} asks {self.parent_id} for {self.amount}"
