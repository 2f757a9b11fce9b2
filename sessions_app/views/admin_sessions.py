"""Sessions of a scope: tabs, search, filters, order and page in the address; acts on several, each with one reason.

Guarantees: only sessions of the administrator's reach; pausing and stopping ask first, name the sessions, and leave a trace
and a reason at each of them; a session that does not allow it stops none of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import django_filters
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from accounts.administrators import Administrator, administrators_only
from catalog import queries as catalog
from gshare_core.errors import DomainError
from gshare_core.kit import clock, lists, wording
from gshare_core.kit.htmx import answer, go_to
from gshare_core.money import display_credits
from sessions_app import oversight, queries, services
from sessions_app.domain.lifecycle import LIVE, TERMINAL, State
from sessions_app.models import Session
from sessions_app.services import Asked
from sessions_app.views import words
from sessions_app.views.acts import BULK_MAX, chosen_ids
from sessions_app.views.admin_shell import live_states
from sessions_app.views.rows import rows

TABS: dict[str, tuple[State, ...]] = {
    "live": tuple(state for state in LIVE if state is not State.PAUSED),
    "paused": (State.PAUSED,),
    "ended": TERMINAL,
}
BULK: dict[str, Callable[[Asked], Session]] = {"pause": services.pause_session, "stop": services.stop_session}
NAMED = 12  # sessions that a question names one by one


class Filters(django_filters.FilterSet):
    """What narrows the list: a state, a GPU."""

    state = django_filters.ChoiceFilter(choices=[(state.value, state.value) for state in State])
    offering = django_filters.UUIDFilter(field_name="offering_id")

    class Meta:
        model = Session
        fields: ClassVar[list[str]] = []


LISTING = lists.Listing(
    orderings={"created_at": "created_at", "name": "name"},
    default="-created_at",
    search=("name", "owner__email", "group__name"),
    filters=Filters,
)


@administrators_only
@require_GET
def sessions(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The page, or its list."""
    now, scope = clock.now(), oversight.sessions_of(administrator.reach)
    tab = request.GET.get("tab", "live")
    tab = tab if tab in TABS else "live"
    try:
        page = lists.page_of(scope.filter(state__in=TABS[tab]), LISTING, request)
    except DomainError:
        return HttpResponseRedirect(f"{reverse('admin_sessions')}?tab={tab}")
    search = request.GET.get("q", "").strip()
    states = live_states(request, administrator)
    context: dict[str, Any] = {
        "now": now,
        "rows": _rows(page.rows, now),
        "tabs": _tabs(tab, states),
        "current_tab": tab,
        "counts_text": words.counts_text(*(states.get(one, 0) for one in (State.RUNNING, State.QUEUED, State.PAUSED))),
        "search": search,
        "found": page.count if search or request.GET.get("state") or request.GET.get("offering") else None,
        "exactly": page.count_is_exact,
        "filters": _filters(request, tab),
        "columns": _columns(request),
        "bulk": tab != "ended",
        "first": f"{reverse('admin_sessions')}?tab={tab}" if request.GET.get("cursor") else "",
        "next": lists.next_address(request, page) if page.next_cursor else "",
        "clear_url": f"{reverse('admin_sessions')}?tab={tab}",
        "list_words": ngettext("%(n)d session", "%(n)d sessions", page.count) % {"n": page.count},
    }
    return answer(request, "sessions_app/admin/sessions.html", context, fragments=("session-list",))


def _rows(found: list[Session], now: Any) -> list[dict[str, Any]]:
    """The user console's rows, with whose they are and where they lead."""
    shown = rows(found, queries.details(found), now=now)
    return [
        row
        | {
            "url": reverse("admin_session", args=[session.pk]),
            "owner": session.owner.email,
            "place": session.group.name,
            "created_at": session.created_at,
        }
        for row, session in zip(shown, found, strict=True)
    ]


def _tabs(tab: str, states: Mapping[str, int]) -> list[dict[str, Any]]:
    """Live ones are counted; how many ever ended says nothing and would cost a walk over all of them."""
    counts = {key: sum(states.get(state, 0) for state in of) for key, of in TABS.items()}
    names = {"live": _("Live"), "paused": _("Paused"), "ended": _("Ended")}
    here = reverse("admin_sessions")
    return [
        {
            "name": name,
            "url": f"{here}?tab={key}",
            "count": str(counts[key]) if key != "ended" else "",
            "current": key == tab,
        }
        for key, name in names.items()
    ]


def _filters(request: HttpRequest, tab: str) -> list[dict[str, Any]]:
    """The choices of the filters: (value, words, chosen)."""
    state, offering = request.GET.get("state", ""), request.GET.get("offering", "")
    states = [("", _("Every state"), not state)]
    states += [(one.value, str(wording.state_look(one).word), one.value == state) for one in TABS[tab]]
    offerings = [("", _("Every GPU"), not offering)]
    offerings += [(str(row.id), row.name, str(row.id) == offering) for row in catalog.active_offerings()]
    found = [{"name": "offering", "label": _("GPU"), "choices": offerings}]
    return [{"name": "state", "label": _("State"), "choices": states}, *found] if len(TABS[tab]) > 1 else found


def _columns(request: HttpRequest) -> list[dict[str, str]]:
    """The heads of the columns that the list can be ordered by."""
    named = (("name", _("Session")), ("created_at", _("Created")))
    return [lists.head(request, LISTING, key, name) for key, name in named]


# Several at once -----------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def bulk(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """GET names the chosen sessions and asks why; POST pauses or stops them and says what became of it."""
    asked = request.POST if request.method == "POST" else request.GET
    verb, back = asked.get("act", ""), reverse("admin_sessions")
    ids = chosen_ids(asked.getlist("session")[:BULK_MAX])
    chosen = list(oversight.sessions_of(administrator.reach).filter(pk__in=ids).order_by("id"))
    if verb not in BULK or not chosen:
        messages.warning(request, _("Choose sessions first."))
        return go_to(request, back)
    reason = asked.get("reason", "").strip()
    if request.method == "POST" and reason:
        _do(request, administrator, chosen, verb, reason)
        return go_to(request, back)
    missing = _("Say why; the owners read it.") if request.method == "POST" else ""
    context = {"question": _question(chosen, verb), "chosen": chosen, "verb": verb, "missing": missing}
    status = 422 if missing else 200
    return answer(request, "sessions_app/admin/bulk.html", context, fragments=("dialog",), status=status)


def _do(request: HttpRequest, administrator: Administrator, chosen: list[Session], verb: str, reason: str) -> None:
    done = 0
    for session in chosen:
        try:
            BULK[verb](Asked(session.pk, administrator.user, reason=reason))
        except DomainError:
            continue
        done += 1
    refused = len(chosen) - done
    if done:
        said = (
            ngettext("%(n)d session was asked to pause.", "%(n)d sessions were asked to pause.", done)
            if verb == "pause"
            else ngettext("%(n)d session was asked to stop.", "%(n)d sessions were asked to stop.", done)
        )
        messages.success(request, said % {"n": done})
    if refused:
        said = ngettext("%(n)d session did not allow it.", "%(n)d sessions did not allow it.", refused)
        messages.warning(request, said % {"n": refused})


def _question(chosen: list[Session], verb: str) -> dict[str, Any]:
    count = len(chosen)
    found = queries.details(chosen)
    costs = [cost for session in chosen if (cost := found.open_cost_of(session)) is not None]
    money = {
        "more": display_credits(sum(cost.accrued for cost in costs)),
        "back": display_credits(sum(max(0, cost.held - cost.accrued) for cost in costs)),
    }
    effects = [_("Their runs settle: %(more)s cr more, %(back)s cr of holds come back") % money] if costs else []
    if verb == "pause":
        title = ngettext("Pause %(n)d session?", "Pause %(n)d sessions?", count)
        submit = ngettext("Pause %(n)d session", "Pause %(n)d sessions", count)
        effects.append(_("Their cards come back; volumes are kept, and their owners can resume them"))
    else:
        title = ngettext("Stop %(n)d session?", "Stop %(n)d sessions?", count)
        submit = ngettext("Stop %(n)d session", "Stop %(n)d sessions", count)
        effects.append(_("They end for good; whatever is not on a volume is lost"))
    more = max(0, count - NAMED)
    return {
        "title": title % {"n": count},
        "submit": submit % {"n": count},
        "effects": effects,
        "named": [(session.name, session.owner.email) for session in chosen[:NAMED]],
        "more": ngettext("and %(n)d more", "and %(n)d more", more) % {"n": more} if more else "",
        "danger": verb == "stop",
    }
