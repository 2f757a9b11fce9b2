"""Django's admin of money: everything is shown, nothing is edited. Credits move through the console's acts only."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from billing.models import (
    Account,
    Allocation,
    Budget,
    BudgetAlert,
    BudgetPeriod,
    Checkpoint,
    CreditRequest,
    GrantRefill,
    LowBalance,
    Meter,
    MeterInterval,
    MonthlyGrant,
    Posting,
    Transfer,
    VerifiedAllocation,
    VerifiedMeter,
    VerifiedPeriod,
    VerifiedWallet,
)
from gshare_core.money import format_credits


class ReadOnly(admin.ModelAdmin):
    """Rows to look at."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


@admin.register(Account)
class AccountAdmin(ReadOnly):
    list_display = ("owner", "kind", "balance_credits", "held_credits", "entries")
    list_filter = ("kind",)
    list_select_related = ("organisation", "group", "user")
    search_fields = ("organisation__name", "group__name", "user__email", "user__name")

    @admin.display(description=_("owner"))
    def owner(self, row: Account) -> str:
        return row.owner_name

    @admin.display(description=_("balance"), ordering="balance")
    def balance_credits(self, row: Account) -> str:
        return "" if row.balance is None else format_credits(row.balance)

    @admin.display(description=_("held"), ordering="held")
    def held_credits(self, row: Account) -> str:
        return format_credits(row.held)


@admin.register(Transfer)
class TransferAdmin(ReadOnly):
    list_display = ("at", "kind", "debit", "credit", "amount_credits", "label", "note", "actor")
    list_filter = ("kind",)
    list_select_related = ("debit", "credit", "actor")
    search_fields = ("=key", "=reference", "label", "note")
    date_hierarchy = "at"
    ordering = ("-at", "-id")

    @admin.display(description=_("amount"), ordering="amount")
    def amount_credits(self, row: Transfer) -> str:
        return format_credits(row.amount)


@admin.register(Allocation)
class AllocationAdmin(ReadOnly):
    list_display = ("wallet", "parent", "net_credits")
    list_select_related = ("wallet", "parent")

    @admin.display(description=_("net"), ordering="net")
    def net_credits(self, row: Allocation) -> str:
        return format_credits(row.net)


@admin.register(MonthlyGrant)
class MonthlyGrantAdmin(ReadOnly):
    list_display = ("wallet", "parent", "amount_credits", "since")
    list_select_related = ("wallet", "parent")

    @admin.display(description=_("amount"), ordering="amount")
    def amount_credits(self, row: MonthlyGrant) -> str:
        return format_credits(row.amount)


@admin.register(CreditRequest)
class CreditRequestAdmin(ReadOnly):
    list_display = ("asked_at", "wallet", "parent", "amount_credits", "state", "asked_by", "decided_by")
    list_filter = ("state",)
    list_select_related = ("wallet", "parent", "asked_by", "decided_by")
    ordering = ("-id",)

    @admin.display(description=_("amount"), ordering="amount")
    def amount_credits(self, row: CreditRequest) -> str:
        return format_credits(row.amount)


@admin.register(LowBalance)
class LowBalanceAdmin(ReadOnly):
    list_display = ("wallet", "at")
    list_select_related = ("wallet",)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnly):
    list_display = ("number", "at", "differences", "is_full", "read", "transfers")
    list_filter = ("is_full",)
    ordering = ("-number",)


@admin.register(VerifiedWallet)
class VerifiedWalletAdmin(ReadOnly):
    list_display = ("wallet_id", "entries", "balance")


@admin.register(VerifiedAllocation)
class VerifiedAllocationAdmin(ReadOnly):
    list_display = ("wallet_id", "parent_id", "net")


@admin.register(VerifiedMeter)
class VerifiedMeterAdmin(ReadOnly):
    list_display = ("run_id", "charged")


@admin.register(VerifiedPeriod)
class VerifiedPeriodAdmin(ReadOnly):
    list_display = ("period_id", "spent")


@admin.register(GrantRefill)
class GrantRefillAdmin(ReadOnly):
    list_display = ("month", "wallet", "parent", "moved_credits", "shortfall_credits", "at")
    list_filter = ("month",)
    list_select_related = ("wallet", "parent")
    ordering = ("-month", "-id")

    @admin.display(description=_("moved"), ordering="moved")
    def moved_credits(self, row: GrantRefill) -> str:
        return format_credits(row.moved)

    @admin.display(description=_("shortfall"), ordering="shortfall")
    def shortfall_credits(self, row: GrantRefill) -> str:
        return format_credits(row.shortfall)


class IntervalInline(admin.TabularInline):
    model = MeterInterval
    can_delete = False
    extra = 0
    ordering = ("starts_at",)


class PostingInline(admin.TabularInline):
    model = Posting
    can_delete = False
    extra = 0
    ordering = ("billed_from",)


@admin.register(Meter)
class MeterAdmin(ReadOnly):
    list_display = (
        "label",
        "number",
        "user",
        "group",
        "charged_credits",
        "held_credits",
        "hold_ends_at",
        "short",
        "settled_at",
    )
    list_filter = ("short", ("settled_at", admin.EmptyFieldListFilter))
    list_select_related = ("user", "group")
    search_fields = ("=run_id", "=reference", "label", "user__email")
    ordering = ("-opened_at",)
    inlines = (IntervalInline, PostingInline)

    @admin.display(description=_("charged"), ordering="charged")
    def charged_credits(self, row: Meter) -> str:
        return format_credits(row.charged)

    @admin.display(description=_("held"), ordering="held")
    def held_credits(self, row: Meter) -> str:
        return format_credits(row.held)


class PeriodInline(admin.TabularInline):
    model = BudgetPeriod
    can_delete = False
    extra = 0
    ordering = ("-starts_at",)


class AlertInline(admin.TabularInline):
    model = BudgetAlert
    can_delete = False
    extra = 0
    ordering = ("-at",)


@admin.register(Budget)
class BudgetAdmin(ReadOnly):
    list_display = ("scope", "limit_credits", "held_credits", "mode", "time_zone", "first_day", "last_day", "is_active")
    list_filter = ("is_active", "mode")
    search_fields = ("organisation__name", "group__name", "user__email")
    inlines = (PeriodInline, AlertInline)

    @admin.display(description=_("limit"), ordering="limit")
    def limit_credits(self, row: Budget) -> str:
        return format_credits(row.limit)

    @admin.display(description=_("held"), ordering="held")
    def held_credits(self, row: Budget) -> str:
        return format_credits(row.held)
