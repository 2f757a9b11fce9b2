"""An organisation or a group: who sits there, what it is called, switching it off and on; seats given, changed, taken.

Guarantees: places that the administrator does not administer do not exist for him; what he may not do there is not offered,
and the service refuses it whatever is sent. Adding somebody by address answers the same whether or not it has an account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from accounts import services
from accounts.administrators import Administrator, administrators_only
from accounts.domain.rights import Target
from accounts.domain.roles import GROUP_ROLES, ORGANISATION_ROLES, Role
from accounts.models import Group, Membership, Organisation
from accounts.permissions import Act, administered_groups, administered_organisations, may, visible_memberships
from accounts.services.memberships import place_of
from accounts.views.account import role_words
from accounts.views.admin_forms import GroupForm, NameForm, SeatForm
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.forms import put_refusal, refusal_text
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.lists import Listing, next_address, page_of

Place = Organisation | Group
SEATS = Listing({"created_at": "created_at"}, "created_at", search=("user__email", "user__name"))
FEW = 12


# New ones -------------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def new_organisation(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """A new organisation, for super administrators."""
    if not administrator.is_super:
        raise Http404
    form = NameForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = _tried(form, lambda: services.create_organisation(name=form.cleaned_data["name"], by=administrator.user))
        if made is not None:
            return go_to(request, reverse("admin_organisation", args=[made.pk]))
    return _form(request, form, _("New organisation"), _("Make the organisation"), "admin_organisations")


@administrators_only
@require_http_methods(["GET", "POST"])
def new_group(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """A new group of one of his organisations."""
    if not administrator.has_organisations:
        raise Http404
    rows = administered_organisations(administrator.user).filter(is_active=True).order_by("name", "pk")
    offered = list(rows.values_list("pk", "name")[:500])
    form = GroupForm(request.POST or None, organisations=offered, initial={"organisation": request.GET.get("of", "")})
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        made = _tried(
            form,
            lambda: services.create_group(
                organisation_id=UUID(data["organisation"]), name=data["name"], by=administrator.user
            ),
        )
        if made is not None:
            return go_to(request, reverse("admin_group", args=[made.pk]))
    return _form(request, form, _("New group"), _("Make the group"), "admin_groups")


def _tried(form: Form, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except DomainError as refusal:
        put_refusal(form, refusal)
        return None


def _form(request: HttpRequest, form: Form, title: str, submit: str, back: str) -> HttpResponse:
    names = {"admin_organisations": _("Organisations"), "admin_groups": _("Groups")}
    context = {
        "title": title,
        "form": form,
        "submit": submit,
        "back": [{"name": names[back], "url": reverse(back)}],
        "cancel_url": reverse(back),
    }
    return answer(request, "accounts/admin/form.html", context, status=422 if form.errors else 200)


# One place ------------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def organisation(request: HttpRequest, administrator: Administrator, organisation_id: UUID) -> HttpResponse:
    """One organisation: its groups, its administrators; POST act=rename or act=seat."""
    found = get_object_or_404(administered_organisations(administrator.user), pk=organisation_id)
    return _place(request, administrator, found)


@administrators_only
@require_http_methods(["GET", "POST"])
def group(request: HttpRequest, administrator: Administrator, group_id: UUID) -> HttpResponse:
    """One group: its people; POST act=rename or act=seat."""
    rows = administered_groups(administrator.user).select_related("organisation")
    return _place(request, administrator, get_object_or_404(rows, pk=group_id))


def _place(request: HttpRequest, administrator: Administrator, found: Place) -> HttpResponse:
    here, act = _address(found), request.POST.get("act", "")
    roles = _roles(administrator, found)
    name_form = NameForm(request.POST if act == "rename" else None, initial={"name": found.name}, auto_id="name-%s")
    usual = {"role": Role.MEMBER.value}
    seat_form = SeatForm(request.POST if act == "seat" else None, roles=roles, initial=usual, auto_id="seat-%s")
    if act == "rename" and name_form.is_valid():
        rename = services.rename_group if isinstance(found, Group) else services.rename_organisation
        key = "group_id" if isinstance(found, Group) else "organisation_id"
        given: dict[str, Any] = {key: found.pk, "name": name_form.cleaned_data["name"], "by": administrator.user}
        if _tried(name_form, lambda: rename(**given)) is not None:
            return go_to(request, here)
    if act == "seat" and seat_form.is_valid() and _seated(administrator, found, seat_form):
        email = seat_form.cleaned_data["email"]
        messages.success(request, _("If %(email)s has an account, it has the seat now.") % {"email": email})
        return go_to(request, here)
    context = _facts(request, administrator, found) | {"name_form": name_form, "seat_form": seat_form, "roles": roles}
    refused = bool(name_form.errors or seat_form.errors)
    return answer(request, "accounts/admin/place.html", context, fragments=("seats",), status=422 if refused else 200)


def _seated(administrator: Administrator, found: Place, form: SeatForm) -> bool:
    data, by = form.cleaned_data, administrator.user
    key = {"group_id": found.pk} if isinstance(found, Group) else {"organisation_id": found.pk}

    def seat() -> bool:
        place = place_of(by, **key)
        services.add_membership_by_email(email=data["email"], place=place, role=Role(data["role"]), by=by)
        return True

    return _tried(form, seat) is not None


def _facts(request: HttpRequest, administrator: Administrator, found: Place) -> dict[str, Any]:
    of_group = isinstance(found, Group)
    kind = {"group" if of_group else "organisation": found.pk}
    rows = visible_memberships(administrator.user).filter(**kind).select_related("user")
    try:
        page = page_of(rows, SEATS, request)
    except DomainError:
        raise Http404 from None
    groups = [] if of_group else list(Group.objects.filter(organisation=found.pk).order_by("name", "pk")[: FEW + 1])
    manages = may(administrator.standing, Act.MANAGE_GROUP if of_group else Act.MANAGE_ORGANISATION, _target(found))
    return {
        "now": clock.now(),
        "place": found,
        "of_group": of_group,
        "organisation_name": found.organisation.name if isinstance(found, Group) else "",
        "here": _address(found),
        "may_manage": manages.allowed,
        "act": "deactivate" if found.is_active else "activate",
        "seats": [_seat(row, administrator, found) for row in page.rows],
        "seats_text": ngettext("%(n)d seat", "%(n)d seats", page.count) % {"n": page.count},
        "search": request.GET.get("q", "").strip(),
        "first": _address(found) if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
        "groups": groups[:FEW],
        "more_groups": len(groups) > FEW,
        "limits_url": f"{reverse('admin_policies')}?scope={'group' if of_group else 'organisation'}:{found.pk}",
        "register_url": f"{reverse('admin_user_new')}?place={'group' if of_group else 'organisation'}:{found.pk}",
    }


def _seat(row: Membership, administrator: Administrator, found: Place) -> dict[str, Any]:
    may_change = may(administrator.standing, Act.MANAGE_MEMBERSHIP, _target(found, Role(row.role))).allowed
    return {
        "id": str(row.pk),
        "email": row.user.email,
        "name": row.user.name,
        "url": reverse("admin_user", args=[row.user_id]),
        "role": row.role,
        "role_text": role_words(Role(row.role)),
        "active": row.user.is_active,
        "since": row.created_at,
        "may_change": may_change,
    }


def _roles(administrator: Administrator, found: Place) -> list[Role]:
    """The roles that he may give here."""
    offered = GROUP_ROLES if isinstance(found, Group) else ORGANISATION_ROLES
    standing = administrator.standing
    return [role for role in offered if may(standing, Act.MANAGE_MEMBERSHIP, _target(found, role)).allowed]


def _target(found: Place, role: Role | None = None) -> Target:
    if isinstance(found, Group):
        return Target(organisation_id=found.organisation_id, group_id=found.pk, role=role)
    return Target(organisation_id=found.pk, role=role)


def _address(found: Place) -> str:
    return reverse("admin_group" if isinstance(found, Group) else "admin_organisation", args=[found.pk])


# Off and on -----------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def switch_organisation(
    request: HttpRequest, administrator: Administrator, organisation_id: UUID, active: bool
) -> HttpResponse:
    """Ask, then deactivate an organisation or activate it again."""
    found = get_object_or_404(administered_organisations(administrator.user), pk=organisation_id)
    return _switch(request, administrator, found, active)


@administrators_only
@require_http_methods(["GET", "POST"])
def switch_group(request: HttpRequest, administrator: Administrator, group_id: UUID, active: bool) -> HttpResponse:
    """Ask, then deactivate a group or activate it again."""
    found = get_object_or_404(administered_groups(administrator.user), pk=group_id)
    return _switch(request, administrator, found, active)


def _switch(request: HttpRequest, administrator: Administrator, found: Place, active: bool) -> HttpResponse:
    here, reason = _address(found), request.POST.get("reason", "").strip()
    if request.method == "GET":
        return _ask_switch(request, found, active)
    given: dict[str, Any] = {"active": active, "by": administrator.user, "reason": reason}
    try:
        if isinstance(found, Group):
            services.set_group_active(group_id=found.pk, **given)
        else:
            services.set_organisation_active(organisation_id=found.pk, **given)
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
    return go_to(request, here)


def _ask_switch(request: HttpRequest, found: Place, active: bool) -> HttpResponse:
    name, here = {"name": found.name}, _address(found)
    off = [
        _("Nobody starts anything there from now on"),
        _("Its live sessions are ended and settled; volumes are kept"),
        _("People, credits and history stay, and it can be activated again"),
    ]
    on = [_("Its people can start sessions again; what was ended stays ended")]
    question = {
        "title": (_("Activate %(name)s?") if active else _("Deactivate %(name)s?")) % name,
        "effects": on if active else off,
        "note": "",
        "url": f"{here}{'activate' if active else 'deactivate'}/",
        "submit": (_("Activate %(name)s") if active else _("Deactivate %(name)s")) % name,
        "danger": not active,
        "cancel_url": here,
        "cancel": _("Leave it"),
        "reason": not active,
        "fields": {},
    }
    context = {"question": question, "layout": "layouts/admin.html", "back": [{"name": found.name, "url": here}]}
    return answer(request, "layouts/ask.html", context, fragments=("dialog",))


# Seats ----------------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def seat(request: HttpRequest, administrator: Administrator, membership_id: UUID) -> HttpResponse:
    """GET asks before a seat is taken; POST act=role changes the role, anything else takes the seat."""
    rows = visible_memberships(administrator.user).exclude(user=administrator.user)
    found = get_object_or_404(rows.select_related("user", "group", "organisation"), pk=membership_id)
    place: Place | None = found.group or found.organisation
    assert place is not None
    if request.method == "GET":
        return _ask_removal(request, found, place)
    by, reason = administrator.user, request.POST.get("reason", "").strip()
    try:
        if request.POST.get("act") == "role":
            services.change_role(membership_id=found.pk, role=_role(request.POST.get("role", "")), by=by)
        else:
            services.remove_membership(membership_id=found.pk, by=by, reason=reason)
            messages.success(request, _("%(email)s has no seat there any more.") % {"email": found.user.email})
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
    return HttpResponseRedirect(_address(place))


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise DomainError("invalid", _("There is no such role.")) from None


def _ask_removal(request: HttpRequest, found: Membership, place: Place) -> HttpResponse:
    names = {"email": found.user.email, "place": place.name}
    question = {
        "title": _("Take %(email)s out of %(place)s?") % names,
        "effects": [
            _("The rights there end at once, in open pages too"),
            _("Live sessions of the group are stopped and settled; volumes are kept"),
            _("What the group gave and is free goes back to it"),
        ],
        "note": "",
        "url": reverse("admin_seat", args=[found.pk]),
        "submit": _("Take the seat"),
        "danger": True,
        "cancel_url": _address(place),
        "cancel": _("Leave it"),
        "reason": True,
        "fields": {},
    }
    context = {
        "question": question,
        "layout": "layouts/admin.html",
        "back": [{"name": place.name, "url": _address(place)}],
    }
    return answer(request, "layouts/ask.html", context, fragments=("dialog",))
