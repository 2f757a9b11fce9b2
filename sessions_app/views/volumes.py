"""Volumes: list with quota, create, share, make larger, delete with 24 hours to undo. They live here because they show sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.domain.rights import Standing
from accounts.permissions import administered_groups
from accounts.queries import frame_of
from cluster import services as cluster
from cluster.queries import cluster_names, held_volumes, used_storage, visible_volumes
from cluster.services import VolumeWish
from cluster.services.volumes import MAX_GIB, storage_limits
from cluster.volumes import may_manage, mount_modes, own_volumes, share_counts
from gshare_core.errors import DomainError
from gshare_core.kit import clock, names
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer, go_to
from sessions_app import queries
from sessions_app.views.acts import signed_in

if TYPE_CHECKING:
    from accounts.models import User

Choices = list[tuple[str, str]]

KINDS = (("home", gettext_lazy("home")), ("data", gettext_lazy("data")), ("scratch", gettext_lazy("scratch")))
ACCESS = (
    ("rwo", gettext_lazy("one session writes")),
    ("rwx", gettext_lazy("several sessions write")),
    ("rox", gettext_lazy("read only")),
)
SIZE_MAX_GIB = MAX_GIB


class VolumeForm(forms.Form):
    """A new volume, one's own or, for its administrators, a group's."""

    name = forms.RegexField(
        names.PATTERN,
        error_messages={"invalid": names.WORDS},
        label=gettext_lazy("Name"),
        widget=forms.TextInput({"maxlength": names.LENGTH, "autocomplete": "off"}),
    )
    group = forms.ChoiceField(label=gettext_lazy("Belongs to"), required=False)
    kind = forms.ChoiceField(choices=KINDS, label=gettext_lazy("Kind"))
    access = forms.ChoiceField(choices=ACCESS, label=gettext_lazy("Access"))
    size_gib = forms.IntegerField(min_value=1, max_value=SIZE_MAX_GIB, initial=10, label=gettext_lazy("Size"))
    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"))

    def __init__(self, *args: Any, clusters: Choices, groups: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["cluster"].choices = clusters  # type: ignore[attr-defined]  # -- a ChoiceField
        if groups:
            self.fields["group"].choices = [("", _("me")), *groups]  # type: ignore[attr-defined]  # a choice field, declared above
        else:
            del self.fields["group"]


class SizeForm(forms.Form):
    """A larger size."""

    size_gib = forms.IntegerField(min_value=1, max_value=SIZE_MAX_GIB, label=gettext_lazy("New size, GiB"))


@login_required
@require_http_methods(["GET", "POST"])
def volume_list(request: HttpRequest) -> HttpResponse:
    """The page, its list, or a new volume."""
    user = signed_in(request)
    standing = frame_of(user, request).standing
    clusters = [(str(key), name) for key, name in cluster_names().items()]
    form = VolumeForm(request.POST or None, clusters=clusters, groups=_groups(user))
    if request.method == "POST" and form.is_valid():
        try:
            cluster.create_volume(by=user, wish=_wish(form.cleaned_data))
        except DomainError as refusal:
            to_form(form, refusal)
        else:
            messages.success(request, _("%(name)s is made.") % {"name": form.cleaned_data["name"]})
            return HttpResponseRedirect(reverse("volume_list"))
    context = {
        "now": clock.now(),
        "quota": _quota(standing),
        "form": form if clusters else None,
        "form_open": request.method == "POST",
        "volumes": _rows(user, standing),
    }
    status = 422 if request.method == "POST" else 200
    return answer(request, "sessions_app/volumes.html", context, fragments=("volume-list",), status=status)


@login_required
@require_http_methods(["GET", "POST"])
def resize(request: HttpRequest, volume_id: UUID) -> HttpResponse:
    """Asks for the new size; volumes only grow."""
    user = signed_in(request)
    volume = get_object_or_404(visible_volumes(user), pk=volume_id)
    if request.method == "POST":
        form = SizeForm(request.POST)
        problem = "" if form.is_valid() else _("Give the new size in GiB, as a whole number.")
        if not problem:
            problem = _try(
                request,
                lambda: cluster.change_volume(by=user, volume_id=volume.pk, size_gib=form.cleaned_data["size_gib"]),
                tell=False,
            )
        if not problem:
            return go_to(request, reverse("volume_list"))
        return _ask_size(request, volume, problem)
    return _ask_size(request, volume, "")


def _ask_size(request: HttpRequest, volume: Any, problem: str) -> HttpResponse:
    question = {
        "title": _("Make %(name)s larger") % {"name": volume.name},
        "effects": [
            _("It has %(size)d GiB now") % {"size": volume.size_gib},
            _("It can only grow, and counts in your storage limit"),
        ],
        "url": reverse("volume_resize", args=[volume.pk]),
        "submit": _("Make it larger"),
        "cancel_url": reverse("volume_list"),
        "cancel": _("Leave it"),
        "number": {
            "name": "size_gib",
            "label": _("New size, GiB"),
            "least": volume.size_gib + 1,
            "most": SIZE_MAX_GIB,
            "value": request.POST.get("size_gib", ""),
        },
        "error": problem,
    }
    back = [{"name": _("Volumes"), "url": reverse("volume_list")}]
    context = {"question": question, "back": back}
    return answer(request, "layouts/ask.html", context, fragments=("dialog",), status=422 if problem else 200)


@login_required
@require_POST
def delete(request: HttpRequest, volume_id: UUID) -> HttpResponse:
    """Soft for 24 hours; offers undo."""
    user = signed_in(request)
    volume = get_object_or_404(visible_volumes(user), pk=volume_id)
    if not _try(request, lambda: cluster.delete_volume(by=user, volume_id=volume.pk)):
        undo = f"undo {reverse('volume_restore', args=[volume.pk])}"
        messages.success(request, _("%(name)s goes in 24 h") % {"name": volume.name}, extra_tags=undo)
    return go_to(request, reverse("volume_list"))


@login_required
@require_POST
def restore(request: HttpRequest, volume_id: UUID) -> HttpResponse:
    """Takes a delete back."""
    user = signed_in(request)
    volume = get_object_or_404(visible_volumes(user), pk=volume_id)
    if not _try(request, lambda: cluster.restore_volume(by=user, volume_id=volume.pk)):
        messages.success(request, _("%(name)s is back.") % {"name": volume.name})
    return go_to(request, reverse("volume_list"))


def _try(request: HttpRequest, act: Any, *, tell: bool = True) -> str:
    """Do it, or say why not; answers the words of a refusal."""
    try:
        act()
    except DomainError as refusal:
        said = refusal_text(refusal)
        if tell:
            messages.error(request, said)
        return said
    return ""


def _wish(data: dict[str, Any]) -> VolumeWish:
    return VolumeWish(
        name=data["name"],
        kind=data["kind"],
        access=data["access"],
        size_gib=data["size_gib"],
        cluster_id=UUID(data["cluster"]),
        group_id=UUID(data["group"]) if data.get("group") else None,
    )


def _groups(user: User) -> Choices:
    """The groups for which somebody makes volumes."""
    found = administered_groups(user).filter(is_active=True).order_by("name", "pk").values_list("pk", "name")
    return [(str(key), name) for key, name in found]


def to_form(form: forms.Form, refusal: DomainError, called: Mapping[str, str] | None = None) -> None:
    """Put a refusal on the form: at its fields, which may be `called` otherwise here, else above them."""
    for field, problems in (refusal.errors or {"": [refusal.detail]}).items():
        name = (called or {}).get(field, field)
        said = " ".join(filter(None, (*problems, refusal.remedy)))
        form.add_error(name if name in form.fields else None, said)


def _quota(person: Standing) -> dict[str, Any]:
    bounds = storage_limits(person.user_id, None, organisation_id=person.home_id)
    limit = min((bound.limit for bound in bounds), default=None)
    used = used_storage(f"user:{person.user_id}")
    text = _("%(used)d of %(limit)d GiB") % {"used": used, "limit": limit} if limit is not None else f"{used} GiB"
    tone = "full" if limit is not None and used >= limit else ""
    return {"used_gib": used, "limit_gib": limit, "text": text, "tone": tone}


def _rows(user: User, standing: Standing) -> list[dict[str, Any]]:
    """His own volumes, those of his groups, and those shared with him; a deleted one for who can take that back."""
    found = own_volumes(user.pk, standing).stored().select_related("cluster", "owner", "group").order_by("name", "pk")
    managed = {volume.pk for volume in found if may_manage(standing, volume)}
    volumes = [volume for volume in found if volume.deleted_at is None or volume.pk in managed]
    modes, shares = mount_modes(standing, volumes), share_counts(managed)
    holders = held_volumes([volume.pk for volume in volumes])
    held_by = {session_id for sessions in holders.values() for session_id in sessions}
    sessions = {s.pk: s for s in queries.visible_sessions(user, standing).filter(pk__in=held_by)}
    rows = []
    for volume in volumes:
        mounted = [sessions[key] for key in holders.get(volume.pk, []) if key in sessions]
        manages = volume.pk in managed
        rows.append(
            {
                "id": volume.pk,
                "name": volume.name,
                "kind_text": volume.get_kind_display(),
                "access_text": volume.get_access_display(),
                "size_gib": volume.size_gib,
                "used_gib": None,
                "use_text": "",
                "cluster": volume.cluster.name,
                "shared_text": _whose(user, volume, modes.get(volume.pk, ""), shares.get(volume.pk, 0)),
                "shares_url": reverse("volume_shares", args=[volume.pk]) if manages else "",
                "may_manage": manages,
                "attached_to": [{"name": s.name, "url": reverse("session", args=[s.pk])} for s in mounted],
                "detail": _("It is mounted; stop or pause the session first.") if holders.get(volume.pk) else "",
                "deleted_at": volume.deleted_at,
                "gone_at": volume.deleted_at + settings.GSHARE.volume_undo if volume.deleted_at else None,
            }
        )
    return rows


def _whose(user: User, volume: Any, mode: str, shares: int) -> str:
    """Whose it is, how the reader may mount it, and how many it is shared with."""
    said = []
    if volume.group is not None:
        said.append(_("of %(group)s") % {"group": volume.group.name})
    elif volume.owner_id != user.pk:
        said.append(_("shared by %(owner)s") % {"owner": volume.owner.name or volume.owner.email})
    if said and mode:
        said.append(_("read only") if mode == "ro" else _("read and write"))
    if shares:
        said.append(ngettext("shared with %(number)d", "shared with %(number)d", shares) % {"number": shares})
    return ", ".join(said)
