"""Somebody of a scope: who he is, his seats there, what they allow; registering, correcting, ending and giving back access.

Guarantees: people outside of the scope do not exist; seats elsewhere are not told; an initial password is shown once, on the
answer to the act that made it, which no cache keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts import services
from accounts.administrators import Administrator, administrators_only
from accounts.domain.rights import Seat, Standing, Target
from accounts.domain.roles import GROUP_ROLES, Role
from accounts.models import Membership, User
from accounts.permissions import MATRIX, Act, may, visible_memberships, visible_users
from accounts.standings import standing_of
from accounts.views.account import role_words
from accounts.views.admin_forms import EmailForm, NameForm, PersonForm, places_for
from accounts.views.admin_words import ACT_WORDS, EXTENT_WORDS
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.forms import put_refusal, refusal_text
from gshare_core.kit.htmx import answer, go_to


@administrators_only
@require_http_methods(["GET", "POST"])
def register(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """Somebody new; the answer shows the initial password, this once."""
    form = PersonForm(
        request.POST or None,
        places=places_for(administrator),
        roles=[role for role in GROUP_ROLES if _may_register_as(administrator, role)],
        initial={"place": request.GET.get("place", ""), "role": Role.MEMBER.value},
    )
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        kind, _colon, key = data["place"].partition(":")
        try:
            made = services.register_user(
                email=data["email"],
                name=data["name"],
                organisation_id=UUID(key) if kind == "organisation" else None,
                group_id=UUID(key) if kind == "group" else None,
                role=Role(data["role"]) if kind == "group" else Role.MEMBER,
                by=administrator.user,
            )
        except DomainError as refusal:
            put_refusal(form, refusal)
        else:
            return _password(request, made.user, made.initial_password)
    context = {
        "title": _("Register somebody"),
        "form": form,
        "submit": _("Register"),
        "back": [{"name": _("Users"), "url": reverse("admin_users")}],
        "cancel_url": reverse("admin_users"),
        "note": _(
            "The person gets an initial password, which is shown to you once and must be changed at the first sign-in."
        ),
    }
    return answer(request, "accounts/admin/form.html", context, status=422 if form.errors else 200)


def _may_register_as(administrator: Administrator, role: Role) -> bool:
    """Whether he ranks above this role anywhere; where exactly is the service's to say."""
    return role is not Role.GROUP_ADMIN or administrator.has_organisations


def _password(request: HttpRequest, user: User, password: str) -> HttpResponse:
    context = {
        "person": user,
        "password": password,
        "until": wording.duration(settings.GSHARE.initial_password_ttl),
    }
    response = answer(request, "accounts/admin/password.html", context)
    response.headers["Cache-Control"] = "no-store"
    return response


# One person -----------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def person(request: HttpRequest, administrator: Administrator, user_id: UUID) -> HttpResponse:
    """One person; POST act=rename or act=email corrects him."""
    found = get_object_or_404(visible_users(administrator.user).select_related("organisation"), pk=user_id)
    act, by = request.POST.get("act", ""), administrator.user
    name_form = NameForm(request.POST if act == "rename" else None, initial={"name": found.name}, auto_id="name-%s")
    mail_form = EmailForm(request.POST if act == "email" else None, initial={"email": found.email}, auto_id="mail-%s")
    changes: dict[str, tuple[Any, Callable[[], Any]]] = {
        "rename": (
            name_form,
            lambda: services.rename_user(user_id=found.pk, name=name_form.cleaned_data["name"], by=by),
        ),
        "email": (
            mail_form,
            lambda: services.change_email(user_id=found.pk, email=mail_form.cleaned_data["email"], by=by),
        ),
    }
    if act in changes:
        form, change = changes[act]
        if form.is_valid():
            try:
                change()
            except DomainError as refusal:
                put_refusal(form, refusal)
            else:
                return go_to(request, reverse("admin_user", args=[found.pk]))
    context = _facts(administrator, found) | {"name_form": name_form, "mail_form": mail_form}
    refused = bool(name_form.errors or mail_form.errors)
    return answer(request, "accounts/admin/person.html", context, status=422 if refused else 200)


def _facts(administrator: Administrator, found: User) -> dict[str, Any]:
    rows = visible_memberships(administrator.user).filter(user=found)
    seats = list(rows.select_related("group__organisation", "organisation").order_by("group__name", "pk"))
    whole = standing_of(found.pk)
    shown = Standing(found.pk, whole.active, whole.super_admin, whole.home_id, tuple(_seat_of(row) for row in seats))
    target = Target(organisation_id=found.organisation_id, person=whole)
    allowed = {
        act: may(administrator.standing, act, target).allowed for act in (Act.MANAGE_SIGN_IN, Act.DEACTIVATE_USER)
    }
    return {
        "now": clock.now(),
        "person": found,
        "home": found.organisation.name if found.organisation else "",
        "seats": [_seat(row) for row in seats],
        "rights": rights_of(shown),
        "may_sign_in": allowed[Act.MANAGE_SIGN_IN],
        "may_deactivate": allowed[Act.DEACTIVATE_USER],
        "limits_url": f"{reverse('admin_policies')}?scope=user:{found.pk}",
        "sessions_url": f"{reverse('admin_sessions')}?{urlencode({'q': found.email})}",
    }


def _seat_of(row: Membership) -> Seat:
    if row.group is not None:
        return Seat(Role(row.role), row.group.organisation_id, row.group_id)
    assert row.organisation_id is not None
    return Seat(Role(row.role), row.organisation_id)


def _seat(row: Membership) -> dict[str, Any]:
    place = row.group or row.organisation
    assert place is not None
    return {
        "name": place.name,
        "over": row.group.organisation.name if row.group else "",
        "url": reverse("admin_group" if row.group else "admin_organisation", args=[place.pk]),
        "role": role_words(Role(row.role)),
        "since": row.created_at,
    }


def rights_of(standing: Standing) -> list[dict[str, str]]:
    """What a standing allows by the matrix, act by act, with how far its highest role carries it."""
    held = {seat.role for seat in standing.seats} | ({Role.SUPER_ADMIN} if standing.super_admin else set())
    highest = max((role.rank for role in held), default=-1) if standing.active else -1
    found = []
    for act, reaches in MATRIX.items():
        carrying = [role for role in reaches if role.rank <= highest]
        if carrying:
            extent = reaches[max(carrying, key=lambda role: role.rank)]
            found.append({"act": str(ACT_WORDS[act]), "extent": str(EXTENT_WORDS[extent])})
    return found


# Access ---------------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, administrator: Administrator, user_id: UUID, verb: str) -> HttpResponse:
    """GET asks; POST ends or gives back access, makes a new initial password, or signs out everywhere."""
    found = get_object_or_404(visible_users(administrator.user), pk=user_id)
    here = reverse("admin_user", args=[found.pk])
    if verb not in ("deactivate", "activate", "reset-password", "sign-out"):
        return HttpResponseRedirect(here)
    if request.method == "GET":
        return _ask(request, found, verb)
    by, reason = administrator.user, request.POST.get("reason", "").strip()
    try:
        if verb == "reset-password":
            return _password(request, found, services.reset_password(user_id=found.pk, by=by, reason=reason))
        if verb == "deactivate":
            services.deactivate_user(user_id=found.pk, by=by, reason=reason)
        elif verb == "activate":
            services.reactivate_user(user_id=found.pk, by=by)
        else:
            services.sign_out_everywhere(user_id=found.pk, by=by)
            messages.success(request, _("%(email)s is signed out everywhere.") % {"email": found.email})
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
    return go_to(request, here)


def _ask(request: HttpRequest, found: User, verb: str) -> HttpResponse:
    here, name = reverse("admin_user", args=[found.pk]), {"email": found.email}
    title, effects, submit = {
        "deactivate": (
            _("Deactivate %(email)s?"),
            [
                _("Signed out everywhere at once, and no sign-in any more"),
                _("Live sessions are stopped and settled; volumes are kept"),
                _("Nothing is deleted: seats, credits and history stay"),
            ],
            _("Deactivate %(email)s"),
        ),
        "activate": (
            _("Activate %(email)s?"),
            [_("Signs in again with the password from before")],
            _("Activate %(email)s"),
        ),
        "reset-password": (
            _("Give %(email)s a new initial password?"),
            [
                _("The present password ends, and every sign-in with it"),
                _("The new one is shown to you once and must be changed at the first sign-in"),
            ],
            _("Make a new password"),
        ),
        "sign-out": (
            _("Sign %(email)s out everywhere?"),
            [_("Open pages and terminals close; the sessions themselves go on")],
            _("Sign out everywhere"),
        ),
    }[verb]
    question = {
        "title": title % name,
        "effects": effects,
        "note": "",
        "url": reverse("admin_user_act", args=[found.pk, verb]),
        "submit": submit % name,
        "danger": verb == "deactivate",
        "cancel_url": here,
        "cancel": _("Leave it"),
        "reason": verb in ("deactivate", "reset-password"),
        "fields": {},
    }
    context = {"question": question, "layout": "layouts/admin.html", "back": [{"name": found.email, "url": here}]}
    return answer(request, "layouts/ask.html", context, fragments=("dialog",))
