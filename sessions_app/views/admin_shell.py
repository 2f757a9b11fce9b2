"""The frame of the administrator console: its navigation, the scope's name, wallet and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.administrators import Administrator
from billing import spending
from cluster import alarms
from cluster.alarms import ClusterAlarm
from gshare_core.kit.remembered import remembered
from sessions_app import oversight
from sessions_app.domain.lifecycle import State

ROOT = "/admin/"


@dataclass(frozen=True, slots=True)
class Entry:
    """A page of the navigation; `count` names one of the shell's counts, in `tone`, `seen_by` says for whom it is there."""

    route: str
    icon: str
    name: str | Promise
    count: str = ""
    tone: str = ""
    seen_by: Callable[[Administrator], bool] = lambda _administrator: True


SECTIONS: tuple[tuple[str | Promise, tuple[Entry, ...]], ...] = (
    (
        "",
        (
            Entry("admin_overview", "overview", _("Overview")),
            Entry("admin_sessions", "sessions", _("Sessions"), "sessions"),
            Entry("admin_queue", "queue", _("Queue"), "queue"),
        ),
    ),
    (
        _("Money"),
        (
            Entry("admin_credits", "coins", _("Credits"), "requests"),
            Entry("admin_budgets", "budget", _("Budgets")),
            Entry("admin_reports", "chart", _("Usage reports")),
        ),
    ),
    (
        _("People"),
        (
            Entry("admin_organisations", "organisation", _("Organisations"), seen_by=lambda one: one.has_organisations),
            Entry("admin_groups", "group", _("Groups")),
            Entry("admin_users", "account", _("Users")),
            Entry("admin_policies", "policy", _("Policies")),
        ),
    ),
    (_("Metal"), (Entry("admin_clusters", "cluster", _("Clusters"), "silent", "lost", lambda one: one.is_super),)),
    (_("Trail"), (Entry("admin_audit", "audit", _("Audit")),)),
)


def live_states(request: HttpRequest, administrator: Administrator) -> Mapping[str, int]:
    """How many live sessions of the scope are in each state; the frame and the page ask once."""
    return remembered(request, "live_states", lambda: oversight.live_states(administrator.reach))


def cluster_alarms(request: HttpRequest) -> list[ClusterAlarm]:
    """The clusters that need somebody; the frame and the page ask once."""
    return remembered(request, "cluster_alarms", alarms.cluster_alarms)


def frame(request: HttpRequest, administrator: Administrator) -> dict[str, Any]:
    """What `layouts/admin.html` wants beside the user console's frame. Two statements, three for who looks after clusters."""
    states = live_states(request, administrator)
    wallet, requests = _money(administrator)
    silent = sum(row.is_silent for row in cluster_alarms(request)) if administrator.is_super else 0
    counts: dict[str, int | str] = {
        "sessions": sum(states.values()),
        "queue": states.get(State.QUEUED, 0),
        "requests": requests,
        "silent": ngettext("%(n)d silent", "%(n)d silent", silent) % {"n": silent} if silent else 0,
    }
    return {
        "scope_name": administrator.scope_name,
        "admin_navigation": [
            section
            for title, entries in SECTIONS
            if (section := _section(title, entries, administrator, counts))["entries"]
        ],
        "counts": counts,
        "wallet": wallet,
    }


def _section(
    title: str | Promise, entries: tuple[Entry, ...], administrator: Administrator, counts: Mapping[str, int | str]
) -> dict[str, Any]:
    return {
        "title": title,
        "entries": [
            {
                "url": reverse(entry.route),
                "icon": entry.icon,
                "name": entry.name,
                "count": counts.get(entry.count, 0),
                "tone": entry.tone,
                "exactly": reverse(entry.route) == ROOT,
            }
            for entry in entries
            if entry.seen_by(administrator)
        ],
    }


def _money(administrator: Administrator) -> tuple[dict[str, Any] | None, int]:
    """The wallet of the scope, and how many requests for credits wait for a decision there. One statement.

    The system's wallet, or that of the one place; with several places there is no one wallet.
    """
    places, viewer = (*administrator.organisations, *administrator.groups), administrator.user.pk
    if administrator.is_super:
        free, requests = spending.scope_frame(administrator.reach, viewer, None, None)
        return {"available_micro": free, "name": _("System")}, requests
    if len(places) != 1:
        return None, spending.open_requests(administrator.reach, viewer).count()
    key, name = places[0]
    level: spending.Level = "organisation" if administrator.organisations else "group"
    free, requests = spending.scope_frame(administrator.reach, viewer, level, key)
    return {"available_micro": free, "name": name}, requests
