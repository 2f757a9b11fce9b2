"""Lists of the administrators' console: organisations, groups, users; search, filters, order and page in the address.

Guarantees: a list holds what its administrator may see and is paged by keys; an address from before the list changed leads
to its first page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from accounts.administrators import Administrator, administrators_only
from accounts.api import documents
from accounts.models import Group, Membership, User
from accounts.permissions import administered_groups, administered_organisations, visible_users
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.htmx import answer
from gshare_core.kit.lists import Listing, head, next_address, page_of


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a column: words, a note below them, a time; `css` drops it on a phone or puts it right."""

    text: str = ""
    note: str = ""
    at: Any = None
    css: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What a list says of itself."""

    title: str
    search: str
    empty_title: str
    empty_text: str
    count: Callable[[int], str]
    acts: list[dict[str, str]] = field(default_factory=list)
    filters: list[dict[str, Any]] = field(default_factory=list)


@administrators_only
@require_GET
def organisations(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The organisations that he administers as such; nobody else has this page."""
    if not administrator.has_organisations:
        raise Http404
    groups = Group.objects.filter(organisation=OuterRef("pk"), is_active=True).order_by().values("organisation")
    people = User.objects.filter(organisation=OuterRef("pk"), is_active=True).order_by().values("organisation")
    rows = administered_organisations(administrator.user).annotate(
        groups_active=Coalesce(Subquery(groups.values(n=Count("pk"))), 0),
        people_active=Coalesce(Subquery(people.values(n=Count("pk"))), 0),
    )
    told = Told(
        title=_("Organisations"),
        search=_("Name"),
        empty_title=_("No organisation yet"),
        empty_text=_("An organisation holds groups, and groups hold people."),
        count=lambda n: ngettext("%(n)d organisation", "%(n)d organisations", n) % {"n": n},
        acts=[_act("admin_organisation_new", _("New organisation"))] if administrator.is_super else [],
        filters=[_active_filter(request)],
    )
    columns = [("name", _("Name"), ""), ("", _("Groups"), "right"), ("", _("People at home"), "right only-wide")]

    def present(row: Any) -> dict[str, Any]:
        return {
            "url": reverse("admin_organisation", args=[row.pk]),
            "name": row.name,
            "muted": not row.is_active,
            "cells": [
                Cell(str(row.groups_active), css="right num"),
                Cell(str(row.people_active), css="right num only-wide"),
            ],
        }

    return _listed(request, rows, documents.ORGANISATIONS, told, columns, present)


@administrators_only
@require_GET
def groups(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The groups that he administers, by a seat in them or in their organisation."""
    seats = Membership.objects.filter(group=OuterRef("pk")).order_by().values("group")
    rows = administered_groups(administrator.user).select_related("organisation")
    rows = rows.annotate(seats=Coalesce(Subquery(seats.values(n=Count("pk"))), 0))
    told = Told(
        title=_("Groups"),
        search=_("Name"),
        empty_title=_("No group yet"),
        empty_text=_("People meet limits, credits and images in a group."),
        count=lambda n: ngettext("%(n)d group", "%(n)d groups", n) % {"n": n},
        acts=[_act("admin_group_new", _("New group"))] if administrator.has_organisations else [],
        filters=[_active_filter(request)],
    )
    columns = [("name", _("Name"), ""), ("", _("Organisation"), ""), ("", _("Seats"), "right")]

    def present(row: Any) -> dict[str, Any]:
        return {
            "url": reverse("admin_group", args=[row.pk]),
            "name": row.name,
            "muted": not (row.is_active and row.organisation.is_active),
            "cells": [Cell(row.organisation.name), Cell(str(row.seats), css="right num")],
        }

    return _listed(request, rows, documents.GROUPS, told, columns, present)


@administrators_only
@require_GET
def users(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The people of the places that he administers."""
    rows = visible_users(administrator.user).select_related("organisation")
    told = Told(
        title=_("Users"),
        search=_("Name or e-mail"),
        empty_title=_("Nobody yet"),
        empty_text=_("Register somebody, or import many from a file."),
        count=lambda n: ngettext("%(n)d person", "%(n)d people", n) % {"n": n},
        acts=[
            _act("admin_user_import", _("Import"), kind="plain", icon="upload"),
            _act("admin_user_new", _("Register somebody")),
        ],
        filters=[_active_filter(request)],
    )
    columns = [
        ("email", _("E-mail"), ""),
        ("name", _("Name"), ""),
        ("", _("Home"), "only-wide"),
        ("created_at", _("Registered"), "only-wide"),
    ]

    def present(row: User) -> dict[str, Any]:
        return {
            "url": reverse("admin_user", args=[row.pk]),
            "name": row.email,
            "muted": not row.is_active,
            "cells": [
                Cell(row.name, note=_("has not signed in yet") if row.must_change_password else ""),
                Cell(row.organisation.name if row.organisation else _("super administrator"), css="only-wide"),
                Cell(at=row.created_at, css="only-wide quiet"),
            ],
        }

    return _listed(request, rows, documents.USERS, told, columns, present)


def _act(route: str, words: str, *, kind: str = "primary", icon: str = "plus") -> dict[str, str]:
    return {"url": reverse(route), "words": words, "kind": kind, "icon": icon}


def _active_filter(request: HttpRequest) -> dict[str, Any]:
    chosen = request.GET.get("is_active", "")
    offered = (("", _("All")), ("true", _("Active")), ("false", _("Deactivated")))
    choices = [(value, words, value == chosen) for value, words in offered]
    return {"name": "is_active", "label": _("Active or not"), "choices": choices}


def _listed(
    request: HttpRequest,
    rows: QuerySet[Any],
    listing: Listing,
    told: Told,
    columns: list[tuple[str, str, str]],
    present: Callable[[Any], dict[str, Any]],
) -> HttpResponse:
    try:
        page = page_of(rows, listing, request)
    except DomainError:
        return HttpResponseRedirect(request.path)
    narrowed = any(request.GET.get(name) for name in ("q", *(one["name"] for one in told.filters)))
    context = {
        "now": clock.now(),
        "told": told,
        "columns": [head(request, listing, *column) for column in columns],
        "rows": [present(row) for row in page.rows],
        "search": request.GET.get("q", "").strip(),
        "found": page.count if narrowed else None,
        "exactly": page.count_is_exact,
        "count_text": told.count(page.count) + ("" if page.count_is_exact else "+"),
        "first": request.path if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    return answer(request, "accounts/admin/list.html", context, fragments=("list",))
