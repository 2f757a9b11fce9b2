"""With whom a volume is shared: the list, a new share, the end of one. For who looks after the volume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.permissions import visible_groups
from accounts.standings import standing_of
from cluster import services as cluster
from cluster.queries import visible_volumes
from cluster.services import ShareWish
from cluster.volumes import may_manage, shares_of
from gshare_core.errors import DomainError
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer, go_to
from sessions_app.views.acts import signed_in
from sessions_app.views.volumes import to_form

if TYPE_CHECKING:
    from accounts.models import User

MODES = (("ro", gettext_lazy("read only")), ("rw", gettext_lazy("read and write")))


class ShareForm(forms.Form):
    """With whom, and how: a person's e-mail address or a group."""

    email = forms.EmailField(
        label=gettext_lazy("E-mail"), required=False, help_text=gettext_lazy("A person of the same organisation")
    )
    group = forms.ChoiceField(label=gettext_lazy("Or a group"), required=False)
    mode = forms.ChoiceField(choices=MODES, label=gettext_lazy("Access"))

    def __init__(self, *args: Any, groups: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["group"].choices = [("", _("none")), *groups]  # type: ignore[attr-defined]  # -- a ChoiceField

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if not self.errors and bool(data.get("email")) == bool(data.get("group")):
            self.add_error("email", _("Name one person or one group."))
        return data


@login_required
@require_http_methods(["GET", "POST"])
def volume_shares(request: HttpRequest, volume_id: UUID) -> HttpResponse:
    """The page; a new share, or another mode for one that there is."""
    user = signed_in(request)
    volume = _managed(user, volume_id)
    form = ShareForm(request.POST or None, groups=_groups(user, volume))
    if request.method == "POST" and form.is_valid():
        try:
            cluster.share_volume(by=user, volume_id=volume.pk, wish=_wish(form.cleaned_data))
        except DomainError as refusal:
            to_form(form, refusal, {"user": "email"})
        else:
            messages.success(request, _("%(name)s is shared.") % {"name": volume.name})
            return go_to(request, reverse("volume_shares", args=[volume.pk]))
    context = {
        "volume": volume,
        "form": form,
        "shares": [_row(volume, share) for share in shares_of(volume.pk)],
        "back": [{"name": _("Volumes"), "url": reverse("volume_list")}],
    }
    status = 422 if request.method == "POST" else 200
    return answer(request, "sessions_app/volume_shares.html", context, fragments=(), status=status)


@login_required
@require_POST
def end_share(request: HttpRequest, volume_id: UUID, share_id: UUID) -> HttpResponse:
    """End a share; what runs with the volume by it is paused."""
    user = signed_in(request)
    volume = _managed(user, volume_id)
    try:
        cluster.end_share(by=user, volume_id=volume.pk, share_id=share_id)
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
    else:
        messages.success(request, _("The share has ended; sessions that mounted the volume by it are paused."))
    return go_to(request, reverse("volume_shares", args=[volume.pk]))


def _managed(user: User, volume_id: UUID) -> Any:
    """A live volume that somebody looks after; 404 for who does not see it, 403 for who may only mount it."""
    rows = visible_volumes(user).live().select_related("owner", "group", "cluster")
    volume = get_object_or_404(rows, pk=volume_id)
    if not may_manage(standing_of(user.pk), volume):
        raise PermissionDenied
    return volume


def _groups(user: User, volume: Any) -> list[tuple[str, str]]:
    """The groups of the volume's organisation that somebody sees, without the one that it belongs to."""
    organisation = volume.group.organisation_id if volume.group else volume.owner.organisation_id
    rows = visible_groups(user).filter(organisation_id=organisation, is_active=True).exclude(pk=volume.group_id)
    return [(str(key), name) for key, name in rows.order_by("name", "pk").values_list("pk", "name")]


def _wish(data: dict[str, Any]) -> ShareWish:
    group = UUID(data["group"]) if data["group"] else None
    return ShareWish(mode=data["mode"], email="" if group else data["email"], group_id=group)


def _row(volume: Any, share: Any) -> dict[str, Any]:
    whom = share.group.name if share.group is not None else share.user.email
    return {
        "id": share.pk,
        "name": whom,
        "kind_text": _("group") if share.group is not None else (share.user.name or _("person")),
        "mode_text": share.get_mode_display(),
        "end_url": reverse("volume_share_end", args=[volume.pk, share.pk]),
    }
