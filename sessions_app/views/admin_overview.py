"""The administrators' overview: cards taken, running, waiting, spend, alarms, every card, who waits, where credits go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from accounts.administrators import Administrator, administrators_only
from billing import spending
from billing.books_words import books
from billing.spending import SpendOfPlace
from catalog import queries as catalog
from cluster import alarms
from cluster.alarms import ClusterAlarm
from cluster.loads import CardLoad, Part, card_loads
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer
from gshare_core.money import display_credits
from sessions_app import oversight, queries
from sessions_app.domain.lifecycle import COUNTING, State
from sessions_app.oversight import Waiting
from sessions_app.views import admin_fleet, words
from sessions_app.views.admin_fleet import NODES, NodeLoads, Sight
from sessions_app.views.admin_shell import cluster_alarms, live_states

FRAGMENTS = ("overview-now", "fleet", "overview-lists")
QUEUE_ROWS = 5
PLACES = 8
NAMES = 4  # people an alarm names
MEASURED = timedelta(minutes=2)
"""A figure of memory that is older says nothing of now."""
NEARLY = 80  # percent of a budget from which it is told


@administrators_only
@require_GET
def overview(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The page, or the part of it that asks."""
    now = clock.now()
    fleet = _fleet(administrator)
    loads = fleet.loads
    states = live_states(request, administrator)
    waiting = oversight.waiting(administrator.reach, QUEUE_ROWS, longest_first=True)
    spend = _spend(administrator, now)
    as_table = request.GET.get("view") == "table"
    chosen = request.GET.get("card", "")
    shown, page = _page(admin_fleet.by_node(loads), chosen, request)
    sight = _sight(fleet, shown, administrator, now)
    of_books = books(now) if administrator.is_super else None
    context = {
        "now": now,
        "taken": _taken(loads),
        "figures": _figures(states, waiting, spend, now),
        "alarms": _books_alarm(of_books)
        + _cluster_alarms(loads, administrator, now, cluster_alarms(request))
        + _alarms(loads, spend, _level(administrator), sight),
        "books": of_books,
        "nodes": admin_fleet.nodes(shown, sight, chosen),
        "pages": page,
        "keys": admin_fleet.legend((load for node in shown for load in node.loads), sight),
        "as_table": as_table,
        "queue": _queue(waiting, now),
        "queue_count": waiting.count,
        "spend": [_spend_row(place) for place in spend[:PLACES]],
        "spend_title": _("Spend by organisation") if administrator.is_super else _("Spend by group"),
        "spend_column": _("Organisation") if administrator.is_super else _("Group"),
        "month": wording.month(timezone.localtime(now).date()),
        "topics": " ".join(["sessions", "queue", *sorted({f"fleet:{load.cluster_id}" for load in loads})]),
    }
    return answer(request, "sessions_app/admin/overview.html", context, fragments=FRAGMENTS)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The cards in sight, and what is kept on cards."""

    loads: list[CardLoad]
    kept: list[alarms.Kept]


def _fleet(administrator: Administrator) -> Fleet:
    """Of everything, with nothing read of who sits there but whether it is in reach. At most three statements."""
    loads, kept = card_loads(), alarms.kept_on_cards()
    ids = {part.session_id for load in loads for part in load.parts if part.session_id is not None}
    own = set() if administrator.is_super else oversight.in_reach(administrator.reach, ids)
    return Fleet(admin_fleet.in_scope(loads, administrator, own), kept)


def _sight(fleet: Fleet, shown: Sequence[NodeLoads], administrator: Administrator, now: datetime) -> Sight:
    """What is known of who sits on the cards that are drawn, or that drain. One statement, however many cards there are."""
    drawn = {load.card_id for node in shown for load in node.loads}
    loads = [load for load in fleet.loads if load.card_id in drawn or load.look == "draining"]
    kept = [mark for mark in fleet.kept if drawn.intersection(mark.cards)]
    wanted = {part.session_id for load in loads for part in load.parts if part.session_id is not None}
    wanted |= {mark.session_id for mark in kept}
    own = oversight.on_cards(administrator.reach, wanted, since=now - MEASURED)
    return Sight(own.sessions, kept, now, admin_fleet.used_of(fleet.loads, own.measured_mib))


def _page(nodes: list[NodeLoads], chosen: str, request: HttpRequest) -> tuple[list[NodeLoads], dict[str, str]]:
    """One page of nodes: the one with the chosen card, else the one that is asked for."""
    asked = request.GET.get("nodes", "")
    first = min(int(asked), len(nodes)) if asked.isascii() and asked.isdecimal() and len(asked) < 7 else 0
    holding = [at for at, node in enumerate(nodes) if any(str(load.card_id) == chosen for load in node.loads)]
    first = (holding[0] if holding else first) // NODES * NODES
    view = "&view=table" if request.GET.get("view") == "table" else ""
    last = first + NODES
    return nodes[first:last], {
        "previous": f"?nodes={first - NODES}{view}" if first else "",
        "next": f"?nodes={last}{view}" if last < len(nodes) else "",
        "text": _("nodes %(first)d to %(last)d of %(all)d")
        % {"first": first + 1, "last": min(last, len(nodes)), "all": len(nodes)},
    }


# Figures -------------------------------------------------------------------------------------------------------------


def _taken(loads: Sequence[CardLoad]) -> dict[str, Any]:
    """How much of the cards is taken, in all and of each offering."""
    names = {row.model: row.name for row in catalog.active_offerings()}
    by_model: dict[str, list[CardLoad]] = {}
    for load in loads:
        by_model.setdefault(load.model, []).append(load)
    rows = [_taken_of(names.get(model) or admin_fleet.short_model(model), of) for model, of in by_model.items()]
    return _taken_of("", loads) | {"rows": sorted(rows, key=lambda row: str(row["name"]))}


def _taken_of(name: str, loads: Sequence[CardLoad]) -> dict[str, Any]:
    used = sum((1 - load.free for load in loads), Fraction(0))
    return {
        "name": name,
        "value": float(used),
        "limit": len(loads),
        "percent": admin_fleet.wording_percent(used / len(loads)) if loads else "0",
        "used": f"{float(used):.2f}",
        "text": _("%(used)s of %(all)d cards") % {"used": f"{float(used):.2f}", "all": len(loads)},
    }


def _figures(
    states: Mapping[str, int], waiting: Waiting, spend: Sequence[SpendOfPlace], now: datetime
) -> dict[str, Any]:
    running = states.get(State.RUNNING, 0)
    others = sum(states.get(state, 0) for state in (*COUNTING, State.LOST)) - running
    longest = wording.duration(now - waiting.first_since) if waiting.first_since else ""
    return {
        "running": running,
        "running_note": ngettext("%(n)d starting or lost", "%(n)d starting or lost", others) % {"n": others}
        if others
        else _("all of them ready"),
        "waiting": waiting.count,
        "waiting_note": _("longest %(time)s") % {"time": longest} if longest else _("nobody waits"),
        "hourly_micro": sum(place.hourly for place in spend),
        "today_text": _("%(amount)s cr today") % {"amount": display_credits(sum(place.today for place in spend))},
    }


# Alarms --------------------------------------------------------------------------------------------------------------


def _books_alarm(of_books: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What is wrong with the books; it leads to the credits."""
    alarm = of_books["alarm"] if of_books else None
    return [alarm | {"url": reverse("admin_credits"), "go": _("Open credits")}] if alarm else []


def _cluster_alarms(
    loads: Sequence[CardLoad], administrator: Administrator, now: datetime, found: Sequence[ClusterAlarm]
) -> list[dict[str, Any]]:
    """Silent clusters, each with the sessions of the scope that it lost, and sweeps that refuse. At most one statement."""
    lost = oversight.lost_by_cluster(administrator.reach) if any(row.is_silent for row in found) else {}
    in_sight = {load.cluster_id for load in loads} | set(lost)
    return [
        (_silent(row, lost.get(row.id, 0), now) if row.is_silent else _refusing(row, administrator))
        | (_leads(_("Open cluster"), reverse("admin_cluster", args=[row.id])) if administrator.is_super else {})
        for row in found
        if row.id in in_sight
    ]


def _alarms(
    loads: Sequence[CardLoad], spend: Sequence[SpendOfPlace], level: spending.Level, sight: Sight
) -> list[dict[str, Any]]:
    """Budgets nearly used up, and nodes that drain: for whom they wait, and towards what."""
    told = [_budget_alarm(place, level) for place in spend if place.limit is not None and place.percent >= NEARLY]
    draining: dict[str, list[CardLoad]] = {}
    for load in loads:
        if load.look == "draining":
            draining.setdefault(load.node, []).append(load)
    return told + [_draining_alarm(node, cards, sight) for node, cards in draining.items()]


def _draining_alarm(node: str, cards: Sequence[CardLoad], sight: Sight) -> dict[str, Any]:
    recut = next((card.recut for card in cards if card.recut is not None), None)
    title = _("%(node)s drains") % {"node": node}
    if recut is not None:
        title = _("%(node)s drains towards %(mode)s") % {"node": node, "mode": recut.target}
    holding = next((card for card in cards if card.parts), cards[0])
    return {
        "icon": "drain",
        "tone": "",
        "title": title,
        "text": _waits_for([part for card in cards for part in card.parts], sight),
    } | _leads(_("Open card"), f"?card={holding.card_id}#card-{holding.card_id}")


def _waits_for(parts: Sequence[Part], sight: Sight) -> str:
    """Whose sessions still sit there, by name as far as they are in reach."""
    if not parts:
        return _("It is empty.")
    known = [one for part in parts if part.session_id and (one := sight.sessions.get(part.session_id))]
    names = list(dict.fromkeys(admin_fleet.owner_name(session) for session in known))
    if not names or len(names) > NAMES:
        return ngettext("%(n)d part is still in use.", "%(n)d parts are still in use.", len(parts)) % {"n": len(parts)}
    said = _("Waits for %(names)s.") % {"names": ", ".join(names)}
    others = len(parts) - len(known)
    if not others:
        return said
    more = ngettext("%(n)d part is in use by others.", "%(n)d parts are in use by others.", others) % {"n": others}
    return f"{said} {more}"


def _leads(word: str, url: str) -> dict[str, str]:
    """Where something can be done about it."""
    return {"go": word, "url": url}


def _refusing(row: ClusterAlarm, administrator: Administrator) -> dict[str, Any]:
    """How many sessions it would end counts the whole cluster: for who administers all of it."""
    text = _("A super administrator must confirm what it would end.")
    if administrator.is_super:
        text = ngettext(
            "It would end %(n)d session. An administrator must confirm it.",
            "It would end %(n)d sessions. An administrator must confirm it.",
            row.sweep_ends or 0,
        ) % {"n": row.sweep_ends}
    return {
        "icon": "warning",
        "tone": "caution",
        "title": _("The sweep of cluster %(name)s refuses to act") % {"name": row.name},
        "text": text,
    }


def _silent(row: ClusterAlarm, lost: int, now: datetime) -> dict[str, Any]:
    since = wording.clock(row.silent_since, now) if row.silent_since else _("its registration")
    text = ngettext("%(n)d session lost.", "%(n)d sessions lost.", lost) % {"n": lost}
    return {
        "icon": "lost",
        "tone": "lost",
        "title": _("Cluster %(name)s is silent since %(when)s") % {"name": row.name, "when": since},
        "text": f"{text} {_('Nothing new lands there.')}" if lost else _("Nothing new lands there."),
    }


def _budget_alarm(place: SpendOfPlace, level: str) -> dict[str, Any]:
    facts = {"used": display_credits(place.used), "limit": display_credits(place.limit or 0)}
    text = _("%(used)s of %(limit)s cr spent and held.") % facts
    blocks = _("At 100 %% the budget blocks.") % {} if place.mode == "block" else _("The budget warns.")
    return {
        "icon": "budget",
        "tone": "caution",
        "title": _("%(name)s has used %(percent)d %% of its budget") % {"name": place.name, "percent": place.percent},
        "text": f"{text} {blocks}",
    } | _leads(_("Open budget"), f"{reverse('admin_budgets')}?{level}={place.id}")


# Queue and spend -----------------------------------------------------------------------------------------------------


def _queue(waiting: Waiting, now: datetime) -> list[dict[str, Any]]:
    places = queries.places([entry.session_id for entry in waiting.rows]) if waiting.rows else {}
    return [
        {
            "name": entry.session.name,
            "url": reverse("admin_session", args=[entry.session_id]),
            "owner": admin_fleet.owner_name(entry.session),
            "share": words.share_of(entry.session),
            "wants": wants(entry.session),
            "waits": wording.duration(now - entry.enqueued_at),
            "why": words.queue_reason(places[entry.session_id]) if entry.session_id in places else "",
        }
        for entry in waiting.rows
    ]


def wants(session: Any) -> str:
    """What a session asks for: its size and GPU."""
    gpu = session.offering.name if session.offering else ""
    size = words.size_name(session.tier, session.cards) if session.tier else _("own shape")
    return f"{size} {gpu}".strip()


def _level(administrator: Administrator) -> spending.Level:
    """The places whose spend he compares."""
    return "organisation" if administrator.is_super else "group"


def _spend(administrator: Administrator, now: datetime) -> list[SpendOfPlace]:
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    month = today.replace(day=1)
    within = None if administrator.is_super else administrator.reach.groups
    return spending.spend_of_places(_level(administrator), month=month, today=today, at=now, within=within)


def _spend_row(place: SpendOfPlace) -> dict[str, Any]:
    tone = "full" if place.percent >= 100 else "caution" if place.percent >= NEARLY else ""
    return {
        "name": place.name,
        "month_micro": place.month,
        "hourly_micro": place.hourly,
        "used": place.used,
        "limit": place.limit,
        "percent": place.percent,
        "tone": tone,
    }
