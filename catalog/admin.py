"""Django's admin of the catalogue, for super administrators: rows are edited here, prices only added, nothing deleted.

Every change leaves its audit row in the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from accounts import audit
from catalog import services
from catalog.models import Image, Offering, Preset, PriceRevision
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.money import format_credits

if TYPE_CHECKING:
    from accounts.models import User


def record(request: HttpRequest, act: str, row: Model, after: dict[str, str]) -> None:
    """The audit row of a change that was made here."""
    audit.record(
        by=cast("User", request.user),
        act=f"catalogue.{act}",
        target_kind=str(row._meta.model_name),
        target_id=row.pk,
        target_label=str(row),
        after=after,
        at=clock.now(),
    )


def record_price(request: HttpRequest, price: PriceRevision) -> None:
    """The audit row of a price that was added here."""
    after = {"rate": format_credits(price.rate_micro_per_hour), "starts_at": price.starts_at.isoformat()}
    record(request, "price", price.offering, after)


class Kept(admin.ModelAdmin):
    """What sessions refer to is switched off and stays; only what nothing ever used can be deleted."""

    list_per_page = 50
    actions = ("switch_on", "switch_off", "delete_unused")

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Model, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        after = {name: str(form.cleaned_data[name]) for name in form.changed_data}
        record(request, "change" if change else "add", obj, after)

    @admin.action(description=_("Offer the selected rows"))
    def switch_on(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, active=True)

    @admin.action(description=_("Offer the selected rows no more"))
    def switch_off(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, active=False)

    def _switch(self, request: HttpRequest, rows: QuerySet[Any], *, active: bool) -> None:
        kind, by = str(rows.model._meta.model_name), cast("User", request.user)
        keys = list(rows.order_by("pk").values_list("pk", flat=True))
        changed = sum(services.set_offered(kind=kind, row_id=key, offered=active, by=by) for key in keys)
        self.message_user(request, _("%(count)s changed.") % {"count": changed})

    @admin.action(description=_("Delete the selected rows that nothing uses"))
    def delete_unused(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        kind, by, deleted = str(rows.model._meta.model_name), cast("User", request.user), 0
        for row in rows.order_by("pk"):
            try:
                services.delete_row(kind=kind, row_id=row.pk, by=by)
            except DomainError as refusal:
                self.message_user(request, f"{row}: {refusal.detail} {refusal.remedy}", messages.WARNING)
            else:
                deleted += 1
        self.message_user(request, _("%(count)s deleted.") % {"count": deleted})


class PriceInline(admin.TabularInline):
    """Prices are added; those that exist are history."""

    model = PriceRevision
    extra = 1
    fields = ("rate_micro_per_hour", "starts_at")
    ordering = ("-starts_at", "-id")

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


@admin.register(Offering)
class OfferingAdmin(Kept):
    list_display = ("name", "model", "vram_mib", "min_cuda", "tiers", "yield_allowed", "is_active")
    list_filter = ("is_active", "yield_allowed")
    search_fields = ("name", "model")
    ordering = ("name",)
    inlines = (PriceInline,)

    def save_formset(self, request: HttpRequest, form: ModelForm, formset: Any, change: bool) -> None:
        super().save_formset(request, form, formset, change)
        for price in formset.new_objects:
            record_price(request, price)


@admin.register(PriceRevision)
class PriceAdmin(admin.ModelAdmin):
    list_display = ("offering", "rate_micro_per_hour", "starts_at")
    list_filter = ("offering",)
    list_select_related = ("offering",)
    ordering = ("-starts_at", "-id")

    def save_model(self, request: HttpRequest, obj: PriceRevision, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        record_price(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


@admin.register(Preset)
class PresetAdmin(Kept):
    list_display = ("name", "tier", "cards", "cpu_milli", "memory_mib", "scratch_gib", "position", "is_active")
    list_filter = ("is_active", "tier")
    search_fields = ("name",)
    ordering = ("position", "name")


@admin.register(Image)
class ImageAdmin(Kept):
    list_display = ("name", "reference", "cuda", "apps", "visibility", "organisation", "group", "is_active")
    list_filter = ("is_active", "visibility")
    list_select_related = ("organisation", "group")
    search_fields = ("name", "reference")
    ordering = ("position", "name")
    raw_id_fields = ("organisation", "group")
