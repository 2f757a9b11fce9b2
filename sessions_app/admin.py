"""Sessions and what belongs to them in Django's admin, for super administrators: to look at, with acts that call services.

Guarantees: nothing is edited here; pause and stop go through the services with the reason that this page names, so that
states, money and audit are those of the consoles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from gshare_core.errors import DomainError
from sessions_app import services
from sessions_app.models import (
    AccessTicket,
    Attempt,
    LaneLook,
    Preemption,
    QueueEntry,
    RecentUse,
    Run,
    RunActivity,
    Session,
    TimelineEntry,
    Usage,
)
from sessions_app.services import Asked

if TYPE_CHECKING:
    from accounts.models import User

    _Admin = admin.ModelAdmin[Any]
    _Inline = admin.TabularInline[Any, Any]
else:
    _Admin, _Inline = admin.ModelAdmin, admin.TabularInline


class Viewed(_Admin):
    """Rows to look at."""

    list_per_page = 50
    show_full_result_count = False
    list_select_related = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class RunInline(_Inline):
    """A session's runs."""

    model = Run
    fields = ("number", "opened_at", "closed_at", "node", "ready_at", "last_alive_at", "gone_at", "phase")
    readonly_fields = fields
    can_delete = False
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Session)
class SessionAdmin(Viewed):
    """The live fleet and the past, with pause and stop."""

    list_display = ("name", "state", "reason", "owner", "group", "mode", "offering", "state_since", "created_at")
    list_filter = ("state", "mode", "offering")
    search_fields = ("name", "owner__email")
    date_hierarchy = "created_at"
    inlines = (RunInline,)
    actions = ("pause_chosen", "stop_chosen")

    @admin.action(description=gettext_lazy("Pause the chosen sessions"), permissions=["view"])
    def pause_chosen(self, request: HttpRequest, rows: QuerySet[Session]) -> None:
        """Each by its own service call."""
        self._ask(request, rows, services.pause_session)

    @admin.action(description=gettext_lazy("Stop the chosen sessions"), permissions=["view"])
    def stop_chosen(self, request: HttpRequest, rows: QuerySet[Session]) -> None:
        """Each by its own service call."""
        self._ask(request, rows, services.stop_session)

    def _ask(self, request: HttpRequest, rows: QuerySet[Session], verb: Callable[[Asked], Session]) -> None:
        actor = cast("User", request.user)
        for session in rows.order_by("pk"):
            try:
                verb(Asked(session.pk, actor, reason=_("by a super administrator, in the site's admin")))
            except DomainError as refusal:
                self.message_user(request, f"{session.name}: {refusal.detail}", messages.WARNING)


@admin.register(Run)
class RunAdmin(Viewed):
    """Every stretch of every session."""

    list_display = ("session", "number", "opened_at", "closed_at", "cluster", "node", "phase", "gone_at")
    list_filter = ("cluster", "phase")
    search_fields = ("session__name", "node", "pod")


@admin.register(QueueEntry)
class QueueEntryAdmin(Viewed):
    """Who waits where, and why."""

    list_display = ("session", "lane", "priority", "enqueued_at", "reason", "detail")
    list_filter = ("reason",)
    search_fields = ("session__name", "session__owner__email")


@admin.register(LaneLook)
class LaneLookAdmin(Viewed):
    """Why a lane and shape found no room when it was last looked at."""

    list_display = ("lane", "shape", "reason", "detail", "looked_at")
    list_filter = ("reason",)
    search_fields = ("lane", "shape")


@admin.register(Preemption)
class PreemptionAdmin(Viewed):
    """Who was chosen to make room for whom, and when he was asked."""

    list_display = ("session", "victim", "victim_run", "chosen_at", "asked_at")
    search_fields = ("session__name", "victim__name", "requester__email")
    date_hierarchy = "chosen_at"


@admin.register(RecentUse)
class RecentUseAdmin(Viewed):
    """What people and groups used lately."""

    list_display = ("scope", "hours", "as_of")
    search_fields = ("scope",)


@admin.register(RunActivity)
class RunActivityAdmin(Viewed):
    """What was judged of each run's use."""

    list_display = ("run", "state", "idle_since", "pause_at", "runtime_ends_at", "sampled_at", "judged_at")
    list_filter = ("state",)
    search_fields = ("run__session__name", "run__session__owner__email")
    exclude = ("memory",)


@admin.register(TimelineEntry)
class TimelineEntryAdmin(Viewed):
    """What happened; never changed."""

    list_display = ("at", "session", "run", "event", "from_state", "to_state", "actor", "reason", "charged")
    list_filter = ("event", "to_state", "reason")
    search_fields = ("session__name", "actor")
    date_hierarchy = "at"


@admin.register(Attempt)
class AttemptAdmin(Viewed):
    """What was refused, so that somebody can be helped."""

    list_display = ("at", "user", "gate", "code", "detail")
    list_filter = ("gate", "code")
    search_fields = ("user__email", "code")
    date_hierarchy = "at"


@admin.register(Usage)
class UsageAdmin(Viewed):
    """The counters of limits."""

    list_display = ("scope", "field", "used")
    list_filter = ("field",)
    search_fields = ("scope",)


@admin.register(AccessTicket)
class AccessTicketAdmin(Viewed):
    """One-time links: who was let in where; the token is not kept, its hash is not shown."""

    list_display = ("session", "user", "app", "host", "expires_at", "redeemed_at")
    search_fields = ("session__name", "user__email")
    exclude = ("token_hash",)
