"""Own sessions: tabs, search, order and page in the address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET

from gshare_core.errors import DomainError
from gshare_core.kit import clock, lists
from gshare_core.kit.htmx import answer
from sessions_app import overview, queries
from sessions_app.domain.lifecycle import LIVE, TERMINAL, State
from sessions_app.models import SessionQuerySet
from sessions_app.views import words
from sessions_app.views.acts import signed_in
from sessions_app.views.first_step import first_step
from sessions_app.views.rows import rows

LISTING = lists.Listing(orderings={"created_at": "created_at", "name": "name"}, default="-created_at", search=("name",))

TABS = {
    "live": tuple(state for state in LIVE if state is not State.PAUSED),
    "paused": (State.PAUSED,),
    "ended": TERMINAL,
}


@login_required
@require_GET
def session_list(request: HttpRequest) -> HttpResponse:
    """The page, or its list."""
    user, now = signed_in(request), clock.now()
    own = queries.sessions_of(user)
    tab = request.GET.get("tab", "live")
    tab = tab if tab in TABS else "live"
    in_tab = own.filter(state__in=TABS[tab])
    search = request.GET.get("q", "").strip()
    try:
        page = lists.page_of(in_tab, LISTING, request)
    except DomainError:
        page = lists.page_of(in_tab, LISTING, _without_parameters(request))
    found = queries.details(page.rows)
    by_state = states_of(own)
    counts = tab_counts(by_state)
    context: dict[str, Any] = {
        "now": now,
        "rows": rows(page.rows, found, now=now),
        "sessions_text": _text(by_state),
        "tabs": _tabs(tab, counts),
        "search": search,
        "found": page.count if search else None,
        "hidden": max(0, counts[tab] - page.count) if search else 0,
        "columns": _columns(request),
        "current_tab": tab,
        "clear_url": f"{reverse('session_list')}?tab={tab}",
        "list_words": _list_words(page.count),
        "empty_title": _EMPTY[tab][0],
        "empty_text": _EMPTY[tab][1],
        "first_step": "" if by_state else first_step(overview.offers(pools=())),
        "bulk": _bulk(tab),
        "previous": "",
        "next": lists.next_address(request, page) if page.next_cursor else "",
        "any": bool(sum(counts.values())),
        "versions": {"sessions": ""},
    }
    return answer(request, "sessions_app/sessions.html", context, fragments=("session-list",))


def states_of(own: SessionQuerySet) -> dict[str, int]:
    """How many there are in each state; one query."""
    return dict(own.order_by().values_list("state").annotate(n=Count("id")))


def tab_counts(by_state: Mapping[str, int]) -> dict[str, int]:
    """How many there are in each tab."""
    return {tab: sum(by_state.get(state, 0) for state in states) for tab, states in TABS.items()}


def _text(by_state: Mapping[str, int]) -> str:
    running = sum(by_state.get(state, 0) for state in (State.RUNNING, State.STARTING, State.RESUMING))
    return words.counts_text(running, by_state.get(State.QUEUED, 0), by_state.get(State.PAUSED, 0))


def _tabs(tab: str, counts: dict[str, int]) -> list[dict[str, Any]]:
    names = {"live": _("Live"), "paused": _("Paused"), "ended": _("Ended")}
    here = reverse("session_list")
    return [
        {"name": name, "url": f"{here}?tab={key}", "count": str(counts[key]), "current": key == tab}
        for key, name in names.items()
    ]


def _columns(request: HttpRequest) -> list[dict[str, str]]:
    """The heads of the table; those that the list can be ordered by carry a link."""
    heads = (
        ("name", _("Name"), ""),
        ("", _("State"), ""),
        ("", _("GPU"), ""),
        ("", _("Node"), "cell-node"),
        ("", _("Rate"), "right"),
        ("", _("So far"), "right cell-cost"),
        ("", _("Next"), ""),
    )
    return [lists.head(request, LISTING, *column) for column in heads]


def _list_words(count: int) -> str:
    return ngettext("%(n)d session", "%(n)d sessions", count) % {"n": count}


_EMPTY = {
    "live": (gettext_lazy("Nothing runs or waits"), gettext_lazy("Start a session, or resume one that is paused.")),
    "paused": (
        gettext_lazy("Nothing is paused"),
        gettext_lazy("Pausing a session gives its card back and keeps its files."),
    ),
    "ended": (gettext_lazy("Nothing has ended yet"), gettext_lazy("Stopped and failed sessions stay here.")),
}


def _bulk(tab: str) -> list[dict[str, str]]:
    if tab == "live":
        return [{"act": "pause", "word": _("Pause")}, {"act": "stop", "word": _("Stop")}]
    return [{"act": "stop", "word": _("Stop")}] if tab == "paused" else []


def _without_parameters(request: HttpRequest) -> HttpRequest:
    plain = HttpRequest()
    plain.path = request.path
    return plain
