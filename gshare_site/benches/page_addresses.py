"""Every address that somebody can read, from the table of addresses itself, with what the bench's rows put into it.

Guarantees: a route with a part that nobody knows raises, so that a new page is measured or is named here. What only
changes something is told by its own answer (405).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from django.urls import URLPattern, URLResolver, get_resolver

NOT_PAGES = {
    "django-admin/": "Django's own, for one super administrator",
    "i18n/": "changes the language",
    "api/v1/schema/": "a document that is the same for everybody",
    "login/": "where nobody is signed in yet",
    "^api/": "no such path",
    "sessions/<uuid:session_id>/logs/": "asks the cluster, and there is none",
    "api/v1/sessions/<uuid:session_id>/logs": "the same",
    "api/v1/volumes/<uuid:volume_id>/snapshots": "there are none yet",
}
# What the parts of a route stand for: names of things in the rows. Each is asked for.
PARTS = {
    "session_id": ("running", "queued", "paused", "ended"),
    "organisation_id": ("organisation",),
    "group_id": ("group",),
    "user_id": ("user", "administrator"),
    "membership_id": ("seat",),
    "policy_id": ("policy",),
    "notice_id": ("notice",),
    "wallet_id": ("wallet", "group_wallet", "organisation_wallet"),
    "request_id": ("request",),
    "budget_id": ("budget", "group_budget", "organisation_budget"),
    "offering_id": ("offering",),
    "cluster_id": ("cluster",),
    "node_id": ("node",),
    "card_id": ("card",),
    "pool_id": ("pool",),
    "grant_id": ("pool_grant",),
    "volume_id": ("volume",),
    "share_id": ("share",),
}
VERBS = {
    "sessions/<uuid:session_id>/<slug:verb>/": ("stop", "pause", "resume", "restart"),
    "admin/sessions/<uuid:session_id>/<slug:verb>/": ("stop", "open", "priority"),
    "admin/nodes/<uuid:node_id>/<slug:verb>/": ("drain",),
    "admin/users/<uuid:user_id>/<slug:verb>/": ("deactivate",),
    "admin/credits/<uuid:request_id>/<slug:verb>/": ("approve", "reject"),
}
# What can be asked of a page beside the page itself.
ASKED = {
    "sessions/": ("tab=ended", "q=train", "tab=ended&q=train"),
    "sessions/new/": ("volume={volume}&path=/data/home&mode=rw",),
    "wallet/": ("days=365", "kind=charge", "month={month}"),
    "notifications/": ("all=1",),
    "account/": ("group={group}",),
    "admin/": ("view=table",),
    "admin/sessions/": ("tab=ended", "q=train", "tab=ended&q=train", "group={group}"),
    "admin/sessions/bulk/": ("act=stop&session={running}&session={queued}",),
    "admin/users/": ("q=person", "ordering=-created_at"),
    "admin/groups/": ("q=group",),
    "admin/organisations/": ("q=bench",),
    "admin/audit/": ("verify=1", "q=train", "act=session.stop", "as=csv"),
    "admin/credits/": ("wallet={wallet}", "q=person", "open={organisation},{group}"),
    "admin/budgets/": ("q=group",),
    "admin/reports/": ("by=offering", "by=day", "by=group", "by=user"),
    "admin/policies/": (
        "scope=global",
        "scope=group:{group}",
        "scope=user:{user}",
        "scope=organisation:{organisation}",
    ),
    "api/v1/sessions": ("scope=all", "scope=group:{group}", "scope=organisation:{organisation}", "scope=all&q=train"),
    "api/v1/queue": ("scope=all", "scope=group:{group}"),
    "api/v1/users": ("q=person", "ordering=-created_at"),
    "api/v1/audit": ("q=train", "act=session.stop", "from={start}"),
    "api/v1/wallets/<uuid:wallet_id>/entries": ("kind=charge", "limit=200", "from={start}"),
}
NEEDED = {
    "api/v1/reports/usage": tuple(f"by={by}&from={{start}}&to={{end}}" for by in ("day", "user", "group", "offering")),
    "api/v1/policies/effective": ("group={group}",),
}


def addresses_of(text: str) -> list[tuple[str, str]]:
    """The act: `addresses` of things given as JSON."""
    return addresses(json.loads(text))


def addresses(things: Mapping[str, str]) -> list[tuple[str, str]]:
    """Route and address of everything to ask for. Raises KeyError for a part that nobody knows."""
    now = datetime.now(UTC)
    start, end = now - timedelta(days=30), now + timedelta(hours=1)
    names = {
        **things,
        "month": f"{now:%Y-%m}",
        "start": f"{start:%Y-%m-%dT%H:00:00Z}",
        "end": f"{end:%Y-%m-%dT%H:00:00Z}",
    }
    found = []
    for route in _routes(get_resolver("gshare_site.urls"), ""):
        if route.startswith(tuple(NOT_PAGES)):
            continue
        asked = NEEDED.get(route) or ("", *ASKED.get(route, ()))
        for path in _filled(route, names):
            found += [(_label(route, one), path + (f"?{one.format_map(names)}" if one else "")) for one in asked]
    return found


def _label(route: str, asked: str) -> str:
    return "/" + re.sub(r"<\w+:(\w+?)(_id)?>", r"{\1}", route) + (f"?{asked}" if asked else "")


def _routes(resolver: URLResolver, before: str) -> Iterator[str]:
    for pattern in resolver.url_patterns:
        here = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield here
        else:
            yield from _routes(pattern, here)


def _filled(route: str, names: Mapping[str, str]) -> Iterator[str]:
    """The paths of a route, each part filled with everything it can stand for."""
    paths = ["/"]
    for text, kind, name in re.findall(r"([^<]*)(?:<(\w+):(\w+)>)?", route):
        values = [""] if not name else VERBS[route] if kind == "slug" else [names[one] for one in PARTS[name]]
        paths = [path + text + value for path in paths for value in values]
    yield from paths
