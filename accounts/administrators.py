"""Who stands at the administrator console, and how far his scope goes: the first line of every page below `/admin/`.

Guarantees: somebody without an administrator's role finds no such page (404, the same as an address that does not exist);
scope and names are read once a request, one statement beyond the frame for administrators of organisations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts import permissions
from accounts.domain.rights import Standing
from accounts.models import Organisation, User
from accounts.permissions import Reach
from accounts.queries import frame_of
from gshare_core.kit.remembered import remembered

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Administrator:
    """A person with an administrator's role, and the places that he administers, by name."""

    user: User
    standing: Standing
    reach: Reach
    organisations: tuple[tuple[UUID, str], ...] = ()
    groups: tuple[tuple[UUID, str], ...] = ()
    """Those in which he sits as group_admin; the groups of his organisations are not listed."""

    @property
    def is_super(self) -> bool:
        """Whether everything is his scope."""
        return self.reach.everything

    @property
    def has_organisations(self) -> bool:
        """Whether he administers whole organisations, or everything."""
        return self.reach.everything or bool(self.organisations)

    @property
    def scope_name(self) -> str:
        """His scope in words: all organisations, the one place, or how many."""
        if self.reach.everything:
            return _("All organisations")
        names = [name for _key, name in (*self.organisations, *self.groups)]
        if len(names) <= 2:
            return ", ".join(names)
        return ngettext("%(n)d place", "%(n)d places", len(names)) % {"n": len(names)}


def administrator_of(request: HttpRequest) -> Administrator | None:
    """The administrator behind a request; None for everybody else."""
    user = permissions.person_of(request.user)
    if user is None:
        return None
    return remembered(request, "administrator", lambda: _administrator(user, request))


def _administrator(user: User, request: HttpRequest) -> Administrator | None:
    frame = frame_of(user, request)
    standing = frame.standing
    if not standing.is_administrator:
        return None
    if standing.super_admin:
        return Administrator(user, standing, permissions.reach(user, standing))
    administered = standing.administered_groups
    names = {seat.group_id: seat.group_name for seat in frame.seats}
    organisations, of_them = _organisations(standing.administered_organisations)
    return Administrator(
        user,
        standing,
        Reach(False, administered | of_them, frozenset(organisations)),
        tuple(organisations.items()),
        tuple((key, names[key]) for key in sorted(administered - of_them, key=lambda key: names[key])),
    )


def _organisations(keys: frozenset[UUID]) -> tuple[dict[UUID, str], frozenset[UUID]]:
    """Organisations by name, and the groups of all of them."""
    if not keys:
        return {}, frozenset()
    rows = Organisation.objects.filter(pk__in=keys).order_by("name", "pk").values_list("pk", "name", "groups")
    found = list(rows)
    return {key: name for key, name, _group in found}, frozenset(group for _key, _name, group in found if group)


def administrators_only(
    view: Callable[Concatenate[HttpRequest, Administrator, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """The view gets the administrator; who is none gets 404, who is not signed in the door."""

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        return view(request, present(request), *args, **kwargs)

    found: Any = guarded
    return found


def present(request: HttpRequest) -> Administrator:
    """The administrator behind a request. Raises Http404 for everybody else."""
    found = administrator_of(request)
    if found is None:
        raise Http404
    return found
