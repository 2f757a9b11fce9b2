"""Django's admin of the metal, for super administrators: everything can be read; what acts, acts through the services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from cluster import services
from cluster.models import (
    Attachment,
    Card,
    CardDrift,
    Claim,
    Cluster,
    Deafness,
    Desired,
    Earmark,
    FleetChange,
    Heartbeat,
    Listing,
    ModeChange,
    Node,
    NodeDrain,
    Pool,
    PoolGrant,
    Sequence,
    Volume,
    VolumeDrain,
    VolumeShare,
)
from gshare_core.errors import DomainError

if TYPE_CHECKING:
    from accounts.models import User


class ReadOnly(admin.ModelAdmin):
    """Rows are looked at here, never edited."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


def _each(admin_: ReadOnly, request: HttpRequest, rows: QuerySet[Any], act: Any) -> None:
    """Do something with every row through a service, and say what was refused."""
    done = 0
    for row in rows:
        try:
            act(cast("User", request.user), row)
        except DomainError as refusal:
            admin_.message_user(request, f"{row}: {refusal.detail}", messages.ERROR)
        else:
            done += 1
    admin_.message_user(request, _("%(count)s done.") % {"count": done})


@admin.register(Cluster)
class ClusterAdmin(ReadOnly):
    list_display = (
        "name",
        "kind",
        "state",
        "last_beat_at",
        "sweep_held_at",
        "sweep_ends",
        "sweep_listed",
        "restored_at",
        "token_epoch",
        "removed_at",
    )
    list_filter = ("kind", "state", ("sweep_held_at", admin.EmptyFieldListFilter))
    search_fields = ("name",)
    ordering = ("name",)
    actions = ("revoke_tokens", "confirm_sweep")

    @admin.action(description=_("End every token of the selected clusters"), permissions=["view"])
    def revoke_tokens(self, request: HttpRequest, rows: QuerySet[Cluster]) -> None:
        _each(self, request, rows, lambda by, row: services.revoke_tokens(by=by, cluster_id=row.pk))

    @admin.action(description=_("Let the sweep end what it refuses to end"), permissions=["view"])
    def confirm_sweep(self, request: HttpRequest, rows: QuerySet[Cluster]) -> None:
        _each(
            self,
            request,
            rows,
            lambda by, row: services.confirm_sweep(by=by, cluster_id=row.pk, ends=row.sweep_ends),
        )


class WithReason(ActionForm):
    """What is done to other people's sessions needs a reason."""

    reason = forms.CharField(label=_("reason"), required=False, max_length=500)


@admin.register(Node)
class NodeAdmin(ReadOnly):
    list_display = (
        "name",
        "cluster",
        "pool",
        "is_ready",
        "is_cordoned",
        "is_unschedulable",
        "cpu_milli",
        "used_cpu_milli",
        "memory_mib",
    )
    list_filter = ("cluster", "is_ready", "is_cordoned", "is_unschedulable")
    action_form = WithReason
    list_select_related = ("cluster", "pool")
    search_fields = ("name",)
    ordering = ("cluster__name", "name")
    actions = ("cordon", "uncordon", "drain", "drain_by_stopping")

    @admin.action(description=_("Place nothing new on the selected nodes"), permissions=["view"])
    def cordon(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        _each(self, request, rows, lambda by, row: services.cordon_node(by=by, node_id=row.pk, cordoned=True))

    @admin.action(description=_("Use the selected nodes again"), permissions=["view"])
    def uncordon(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        _each(self, request, rows, lambda by, row: services.cordon_node(by=by, node_id=row.pk, cordoned=False))

    @admin.action(description=_("Empty the selected nodes: sessions start elsewhere"), permissions=["view"])
    def drain(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        self._drain(request, rows, NodeDrain.Mode.RESCHEDULE)

    @admin.action(description=_("Empty the selected nodes: sessions are stopped"), permissions=["view"])
    def drain_by_stopping(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        self._drain(request, rows, NodeDrain.Mode.STOP)

    def _drain(self, request: HttpRequest, rows: QuerySet[Node], mode: str) -> None:
        reason = request.POST.get("reason", "")
        drain = services.drain_node
        _each(self, request, rows, lambda by, row: drain(by=by, node_id=row.pk, mode=mode, reason=reason))


@admin.register(NodeDrain)
class NodeDrainAdmin(ReadOnly):
    list_display = ("node", "mode", "reason", "asked_by", "changed_at", "closed_at")
    list_filter = ("mode", ("closed_at", admin.EmptyFieldListFilter))
    list_select_related = ("node",)
    search_fields = ("node__name", "reason")
    ordering = ("-id",)


@admin.register(ModeChange)
class ModeChangeAdmin(ReadOnly):
    list_display = ("node", "target", "state", "phase", "message", "asked_by", "asked_at", "stepped_at", "closed_at")
    list_filter = ("state", "target", ("closed_at", admin.EmptyFieldListFilter))
    list_select_related = ("node",)
    search_fields = ("node__name", "message")
    ordering = ("-id",)


@admin.register(Card)
class CardAdmin(ReadOnly):
    list_display = ("uuid", "node", "index", "model", "mode", "is_healthy", "used_vram_mib", "used_milli", "used_slots")
    list_filter = ("model", "mode", "is_healthy", "node__cluster")
    list_select_related = ("node",)
    search_fields = ("uuid", "node__name")
    ordering = ("node__name", "index")


@admin.register(CardDrift)
class CardDriftAdmin(ReadOnly):
    """Where pods, HAMi and claims disagree about a card."""

    list_display = ("card", "words", "since", "alarmed_at")
    list_filter = ("card__node__cluster", ("alarmed_at", admin.EmptyFieldListFilter))
    list_select_related = ("card",)
    search_fields = ("card__uuid", "card__node__name")
    ordering = ("-since",)


@admin.register(Pool)
class PoolAdmin(ReadOnly):
    list_display = ("name", "cluster", "is_shared")
    list_filter = ("cluster", "is_shared")
    list_select_related = ("cluster",)
    search_fields = ("name",)
    ordering = ("cluster__name", "name")


@admin.register(PoolGrant)
class PoolGrantAdmin(ReadOnly):
    list_display = ("pool", "organisation", "group")
    list_select_related = ("pool", "organisation", "group")
    search_fields = ("pool__name", "organisation__name", "group__name")


@admin.register(Claim)
class ClaimAdmin(ReadOnly):
    list_display = (
        "session_id",
        "run",
        "node",
        "card",
        "state",
        "kind",
        "vram_mib",
        "milli",
        "claimed_at",
        "released_at",
    )
    list_filter = ("state", "kind", "is_exclusive")
    list_select_related = ("node", "card")
    search_fields = ("=session_id", "=run_id", "card__uuid")
    ordering = ("-id",)


@admin.register(Desired)
class DesiredAdmin(ReadOnly):
    list_display = ("session_id", "cluster", "seq", "run", "generation", "written_at", "accepted_at")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    search_fields = ("=session_id",)
    ordering = ("-seq",)


@admin.register(Listing)
class ListingAdmin(ReadOnly):
    list_display = ("cluster", "observed_at", "is_complete")
    list_select_related = ("cluster",)
    ordering = ("cluster__name",)


@admin.register(Volume)
class VolumeAdmin(ReadOnly):
    list_display = ("name", "kind", "access", "size_gib", "owner", "group", "cluster", "created_at", "deleted_at")
    list_filter = ("kind", "access", "cluster")
    list_select_related = ("owner", "group", "cluster")
    search_fields = ("name", "owner__email", "group__name", "claim")
    ordering = ("-id",)


@admin.register(VolumeShare)
class VolumeShareAdmin(ReadOnly):
    list_display = ("volume", "user", "group", "mode", "created_at")
    list_select_related = ("volume", "user", "group")
    search_fields = ("volume__name", "user__email", "group__name")
    ordering = ("-id",)


@admin.register(VolumeDrain)
class VolumeDrainAdmin(ReadOnly):
    list_display = ("volume", "changed_at", "closed_at")
    list_select_related = ("volume",)
    search_fields = ("volume__name",)
    ordering = ("-id",)


@admin.register(Attachment)
class AttachmentAdmin(ReadOnly):
    list_display = ("volume", "session_id", "path", "mode", "is_sole", "attached_at", "released_at")
    list_filter = ("is_sole", "mode")
    list_select_related = ("volume",)
    search_fields = ("volume__name", "=session_id")
    ordering = ("-id",)


@admin.register(Earmark)
class EarmarkAdmin(ReadOnly):
    """Places that are kept for sessions that have waited long."""

    list_display = ("session_id", "node", "is_whole", "vram_mib", "made_at", "ready_at")
    list_filter = ("node__cluster",)
    search_fields = ("session_id", "node__name")


@admin.register(FleetChange)
class FleetChangeAdmin(ReadOnly):
    list_display = ("cluster", "seq", "node")
    list_filter = ("cluster",)
    list_select_related = ("cluster", "node")
    search_fields = ("node__name",)
    ordering = ("-id",)


@admin.register(Sequence)
class SequenceAdmin(ReadOnly):
    list_display = ("cluster", "last")
    list_select_related = ("cluster",)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnly):
    list_display = ("name", "stamped_at")


@admin.register(Deafness)
class DeafnessAdmin(ReadOnly):
    list_display = ("since", "until")
    ordering = ("-until",)
