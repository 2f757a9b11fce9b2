"""Django's admin of the catalogue, for super administrators: rows are edited here, prices only added, nothing deleted."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from catalog.models import Image, Offering, Preset, PriceRevision


class Kept(admin.ModelAdmin):
    """What sessions may refer to is switched off, never deleted."""

    list_per_page = 50
    actions = ("switch_on", "switch_off")

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    @admin.action(description=_("Offer the selected rows"))
    def switch_on(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, active=True)

    @admin.action(description=_("Offer the selected rows no more"))
    def switch_off(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, active=False)

    def _switch(self, request: HttpRequest, rows: QuerySet[Any], *, active: bool) -> None:
        changed = rows.update(is_active=active)
        self.message_user(request, _("%(count)s changed.") % {"count": changed})


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


@admin.register(PriceRevision)
class PriceAdmin(admin.ModelAdmin):
    list_display = ("offering", "rate_micro_per_hour", "starts_at")
    list_filter = ("offering",)
    list_select_related = ("offering",)
    ordering = ("-starts_at", "-id")

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
