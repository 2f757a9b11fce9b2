"""Accounts, the transfers between them, and what each parent gave net.

Guarantees by constraint and trigger: a wallet's `balance` and `held` keep 0 <= held <= balance; mint and revenue store no
balance, so they are no hot rows; each wallet numbers its transfers without a gap and each transfer says what the wallet
had afterwards; a transfer is never changed; a transaction that moves a balance by anything but the transfers it wrote
fails at its commit (the tripwire). Only `billing.ledger` writes transfers and balances.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from gshare_core.kit.fields import Identified, MicroField

MINT_ID = UUID("00000000-0000-7000-8000-000000000001")
REVENUE_ID = UUID("00000000-0000-7000-8000-000000000002")
SYSTEM_ID = UUID("00000000-0000-7000-8000-000000000003")
KEY_LENGTH = 200
NOTE_LENGTH = 500
LABEL_LENGTH = 120


class AccountKind(models.TextChoices):
    MINT = "mint", _("mint")
    REVENUE = "revenue", _("revenue")
    SYSTEM = "system", _("system")
    ORGANISATION = "organisation", _("organisation")
    GROUP = "group", _("group")
    USER = "user", _("user")


WALLET_KINDS = (AccountKind.SYSTEM, AccountKind.ORGANISATION, AccountKind.GROUP, AccountKind.USER)
_OWNED: dict[str, Q] = {
    "organisation": Q(organisation__isnull=False, group=None, user=None),
    "group": Q(organisation=None, group__isnull=False, user=None),
    "user": Q(organisation=None, group=None, user__isnull=False),
}


def owners_of(*ends: str) -> tuple[str, ...]:
    """What `select_related` takes for the owners of these accounts of a row, whom their names are read from."""
    return tuple(f"{end}__{owner}" for end in ends for owner in ("organisation", "group", "user"))


class AccountQuerySet(models.QuerySet["Account"]):
    """Filters that more than one place uses."""

    def wallets(self) -> AccountQuerySet:
        """The accounts that store a balance."""
        return self.filter(kind__in=WALLET_KINDS)


class Account(Identified):
    """Where credits are. A wallet is an account of the system, an organisation, a group or a user."""

    kind = models.CharField(_("kind"), max_length=12, choices=AccountKind)
    organisation = models.OneToOneField("accounts.Organisation", models.PROTECT, null=True, related_name="+")
    group = models.OneToOneField("accounts.Group", models.PROTECT, null=True, related_name="+")
    user = models.OneToOneField("accounts.User", models.PROTECT, null=True, related_name="+")
    balance = MicroField(_("balance"), null=True)
    held = MicroField(_("held"), default=0)
    entries = models.BigIntegerField(_("entries"), default=0, help_text=_("Transfers in and out of it so far."))

    objects = AccountQuerySet.as_manager()

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(kind__in=["mint", "revenue", "system"], organisation=None, group=None, user=None)
                | (Q(kind="organisation") & _OWNED["organisation"])
                | (Q(kind="group") & _OWNED["group"])
                | (Q(kind="user") & _OWNED["user"]),
                name="account_of_one_owner",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["mint", "revenue"], balance=None, held=0, entries=0)
                | (Q(kind__in=[kind.value for kind in WALLET_KINDS]) & Q(balance__isnull=False)),
                name="account_balance_of_wallets_only",
            ),
            models.CheckConstraint(
                condition=Q(balance=None) | Q(held__gte=0, balance__gte=F("held")), name="account_held_within_balance"
            ),
            models.CheckConstraint(condition=Q(entries__gte=0), name="account_entries_count_up"),
            models.UniqueConstraint(
                fields=["kind"], condition=Q(kind__in=["mint", "revenue", "system"]), name="account_singleton"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.organisation_id or self.group_id or self.user_id or ''}".strip()

    @property
    def owner_id(self) -> UUID | None:
        """Whose it is; None for the system's, mint and revenue."""
        return self.organisation_id or self.group_id or self.user_id

    @property
    def owner_name(self) -> str:
        """Whose it is in words; reads the owner."""
        owner = self.organisation or self.group
        if owner is not None:
            return owner.name
        return self.user.email if self.user is not None else self.kind

    @property
    def available(self) -> int:
        """What is neither spent nor held; 0 for mint and revenue."""
        return 0 if self.balance is None else self.balance - self.held


class TransferKind(models.TextChoices):
    ISSUE = "issue", _("issue")
    ALLOCATE = "allocate", _("allocate")
    RECLAIM = "reclaim", _("reclaim")
    CHARGE = "charge", _("charge")
    GRANT = "grant", _("grant")
    ADJUST = "adjust", _("adjust")


class Transfer(Identified):
    """One movement of credits from `debit` to `credit`. Never changed; a mistake is corrected by another transfer.

    `debit_number` counts the debit account's transfers and `debit_balance` is what it had afterwards (both null for mint
    and revenue); the same for `credit`.
    """

    at = models.DateTimeField(_("at"))
    kind = models.CharField(_("kind"), max_length=8, choices=TransferKind)
    debit = models.ForeignKey(Account, models.PROTECT, related_name="+", verbose_name=_("from"))
    credit = models.ForeignKey(Account, models.PROTECT, related_name="+", verbose_name=_("to"))
    amount = MicroField(_("amount"))
    debit_number = models.BigIntegerField(null=True)
    debit_balance = MicroField(null=True)
    credit_number = models.BigIntegerField(null=True)
    credit_balance = MicroField(null=True)
    reference = models.UUIDField(_("reference"), null=True, help_text=_("What it was for: a session, a request."))
    label = models.CharField(_("label"), max_length=LABEL_LENGTH, blank=True)
    note = models.CharField(_("note"), max_length=NOTE_LENGTH, blank=True)
    actor = models.ForeignKey("accounts.User", models.PROTECT, null=True, related_name="+", verbose_name=_("actor"))
    key = models.CharField(_("key"), max_length=KEY_LENGTH, unique=True)

    class Meta:
        verbose_name = _("transfer")
        verbose_name_plural = _("transfers")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="transfer_amount_positive"),
            models.CheckConstraint(condition=~Q(debit=F("credit")), name="transfer_between_two"),
            models.CheckConstraint(
                condition=Q(kind__in=[kind.value for kind in TransferKind]), name="transfer_kind_known"
            ),
            models.CheckConstraint(
                condition=(
                    Q(debit_number=None, debit_balance=None)
                    | Q(debit_number__gte=1, debit_balance__isnull=False, debit_balance__gte=0)
                )
                & (
                    Q(credit_number=None, credit_balance=None)
                    | Q(credit_number__gte=1, credit_balance__isnull=False, credit_balance__gte=0)
                ),
                name="transfer_numbered_with_balance",
            ),
            models.CheckConstraint(
                condition=(
                    Q(debit__in=[MINT_ID, REVENUE_ID], debit_number=None)
                    | (~Q(debit__in=[MINT_ID, REVENUE_ID]) & Q(debit_number__isnull=False))
                )
                & (
                    Q(credit__in=[MINT_ID, REVENUE_ID], credit_number=None)
                    | (~Q(credit__in=[MINT_ID, REVENUE_ID]) & Q(credit_number__isnull=False))
                )
                & (Q(debit_number__isnull=False) | Q(credit_number__isnull=False)),
                name="transfer_numbered_by_its_wallets",
            ),
            models.UniqueConstraint(
                fields=["debit", "debit_number"],
                condition=Q(debit_number__isnull=False),
                include=["amount"],
                name="transfer_debit_number_once",
            ),
            models.UniqueConstraint(
                fields=["credit", "credit_number"],
                condition=Q(credit_number__isnull=False),
                include=["amount"],
                name="transfer_credit_number_once",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["at", "id"], name="transfer_by_time"),
            models.Index(fields=["reference"], condition=Q(reference__isnull=False), name="transfer_by_reference"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"


class Allocation(Identified):
    """What a parent has given a wallet net: allocations and grants less what was reclaimed. Moves with the transfer."""

    wallet = models.ForeignKey(Account, models.PROTECT, related_name="received", verbose_name=_("wallet"))
    parent = models.ForeignKey(Account, models.PROTECT, related_name="given", verbose_name=_("parent"))
    net = MicroField(_("net"), default=0)

    class Meta:
        verbose_name = _("allocation")
        verbose_name_plural = _("allocations")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["wallet", "parent"], name="allocation_once"),
            models.CheckConstraint(condition=Q(net__gte=0), name="allocation_never_negative"),
            models.CheckConstraint(condition=~Q(wallet=F("parent")), name="allocation_between_two"),
        ]

    def __str__(self) -> str:
        return f"{self.wallet_id} from {self.parent_id}: {self.net}"
