"""This room's rows in Django's admin, for super administrators.

Guarantees: everything is read only but names, and those, like every action, go through the services, so rights, audit and
intents are the same as in the consoles. Refuses adding and deleting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts import services
from accounts.models import (
    AuditEntry,
    AuditSeal,
    DrainIntent,
    Group,
    IdempotencyKey,
    Lease,
    Membership,
    Notification,
    Organisation,
    Policy,
    PolicyValue,
    SignIn,
    User,
)
from gshare_core.errors import DomainError

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
    _Inline = admin.TabularInline[Any, Any]
else:
    _Admin, _Inline = admin.ModelAdmin, admin.TabularInline


class Viewed(_Admin):
    """Rows to look at. `renamed_by`, where given, is the service that the one editable column `name` goes through."""

    list_per_page = 50
    show_full_result_count = False
    list_select_related = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.renames() is not None

    def renames(self) -> Callable[..., Any] | None:
        """The service that gives a row another name; None where there is nothing to edit."""
        return None

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [field.name for field in self.opts.fields if field.name != "name" or self.renames() is None]

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool) -> None:
        rename = self.renames()
        if rename is not None and "name" in form.changed_data:
            rename(**{f"{self.opts.model_name}_id": obj.pk}, name=form.cleaned_data["name"], by=_actor(request))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except DomainError as refusal:
            self.message_user(request, refusal.detail, messages.ERROR)
            request.method = "GET"
            return super().changeform_view(request, object_id, form_url, extra_context)

    def each(self, request: HttpRequest, rows: QuerySet[Any], act: Callable[[Any], object]) -> None:
        """Do a service to every selected row, and say how many it was done to and what was refused."""
        done = 0
        for row in rows:
            try:
                act(row)
            except DomainError as refusal:
                self.message_user(request, f"{row}: {refusal.detail}", messages.ERROR)
            else:
                done += 1
        self.message_user(request, _("Done for %(n)s rows.") % {"n": done})


class Switched(Viewed):
    """Rows that are switched off and on; `switch` is the service."""

    actions: tuple[str, ...] = ("switch_off", "switch_on")

    def switch(self, row: Any, *, active: bool, by: User) -> None:
        raise NotImplementedError

    @admin.action(description=gettext_lazy("Deactivate"))
    def switch_off(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self.each(request, rows, lambda row: self.switch(row, active=False, by=_actor(request)))

    @admin.action(description=gettext_lazy("Activate"))
    def switch_on(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self.each(request, rows, lambda row: self.switch(row, active=True, by=_actor(request)))


@admin.register(Organisation)
class OrganisationAdmin(Switched):
    list_display = ("name", "is_active", "created_at")
    list_filter = ("is_active",)
    search_fields = ("name",)
    ordering = ("name", "id")

    def renames(self) -> Callable[..., Any]:
        return services.rename_organisation

    def switch(self, row: Organisation, *, active: bool, by: User) -> None:
        services.set_organisation_active(organisation_id=row.pk, active=active, by=by)


@admin.register(Group)
class GroupAdmin(Switched):
    list_display = ("name", "organisation", "is_active", "created_at")
    list_filter = ("is_active", "organisation")
    search_fields = ("name", "organisation__name")
    ordering = ("name", "id")

    def renames(self) -> Callable[..., Any]:
        return services.rename_group

    def switch(self, row: Group, *, active: bool, by: User) -> None:
        services.set_group_active(group_id=row.pk, active=active, by=by)


class ViewedInline(_Inline):
    """Rows of another row, to look at."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class SeatInline(ViewedInline):
    """A person's seats."""

    model = Membership
    fields = readonly_fields = ("role", "group", "organisation", "created_at")


@admin.register(User)
class UserAdmin(Switched):
    list_display = (
        "email",
        "name",
        "organisation",
        "is_active",
        "is_super_admin",
        "must_change_password",
        "last_login",
    )
    list_filter = ("is_active", "is_super_admin", "must_change_password", "organisation")
    search_fields = ("email", "name")
    ordering = ("email", "id")
    exclude = ("password",)
    inlines = (SeatInline,)
    actions = (*Switched.actions, "reset", "sign_out")

    def renames(self) -> Callable[..., Any]:
        return services.rename_user

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [name for name in super().get_readonly_fields(request, obj) if name != "password"]

    def switch(self, row: User, *, active: bool, by: User) -> None:
        if active:
            services.reactivate_user(user_id=row.pk, by=by)
        else:
            services.deactivate_user(user_id=row.pk, by=by)

    @admin.action(description=gettext_lazy("Give a new initial password (shown once)"))
    def reset(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        def act(row: User) -> None:
            password = services.reset_password(user_id=row.pk, by=_actor(request))
            self.message_user(request, f"{row.email}: {password}", messages.WARNING)

        self.each(request, rows, act)

    @admin.action(description=gettext_lazy("Sign out everywhere"))
    def sign_out(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        self.each(request, rows, lambda row: services.sign_out_everywhere(user_id=row.pk, by=_actor(request)))


@admin.register(Membership)
class MembershipAdmin(Viewed):
    list_display = ("user", "role", "group", "organisation", "created_at")
    list_filter = ("role", "organisation")
    search_fields = ("user__email", "user__name", "group__name")
    ordering = ("-created_at", "-id")
    actions = ("remove",)

    @admin.action(description=gettext_lazy("Take the seat away (stops the person's sessions of the group)"))
    def remove(self, request: HttpRequest, rows: QuerySet[Membership]) -> None:
        self.each(request, rows, lambda row: services.remove_membership(membership_id=row.pk, by=_actor(request)))


class ValueInline(ViewedInline):
    """The numbers of a policy."""

    model = PolicyValue
    fields = readonly_fields = ("kind", "field", "value")


@admin.register(Policy)
class PolicyAdmin(Viewed):
    list_display = ("scope_kind", "organisation", "group", "user", "created_at")
    list_filter = ("scope_kind",)
    search_fields = ("organisation__name", "group__name", "user__email")
    ordering = ("created_at", "id")
    inlines = (ValueInline,)


@admin.register(AuditEntry)
class AuditEntryAdmin(Viewed):
    list_display = ("at", "actor_label", "act", "target_kind", "target_label", "group_label", "organisation_label")
    list_filter = ("act", "target_kind")
    search_fields = ("actor_label", "target_label", "reason")
    ordering = ("-at", "-id")


@admin.register(AuditSeal)
class AuditSealAdmin(Viewed):
    list_display = ("seq", "entry", "hash", "sealed_at")
    ordering = ("-seq",)


@admin.register(Notification)
class NotificationAdmin(Viewed):
    list_display = ("at", "user", "kind", "title", "read_at")
    list_filter = ("kind",)
    search_fields = ("user__email", "title")
    ordering = ("-at", "-id")


@admin.register(SignIn)
class SignInAdmin(Viewed):
    list_display = ("at", "user", "browser", "system", "address", "ended_at")
    search_fields = ("user__email",)
    ordering = ("-at", "-id")


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(Viewed):
    list_display = ("at", "user", "method", "path", "status")
    list_filter = ("method",)
    search_fields = ("user__email", "path")
    ordering = ("-at", "-id")


@admin.register(Lease)
class LeaseAdmin(Viewed):
    list_display = ("name", "until", "holder")
    search_fields = ("name",)
    ordering = ("name",)


@admin.register(DrainIntent)
class DrainIntentAdmin(Viewed):
    list_display = ("changed_at", "kind", "user", "group", "organisation", "reason", "closed_at")
    list_filter = ("kind",)
    ordering = ("-changed_at", "-id")


def _actor(request: HttpRequest) -> User:
    return cast("User", request.user)
