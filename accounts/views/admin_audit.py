"""The audit trail of a scope: who did what to what, from where, before and after; as a file; and whether its chain is whole.

Guarantees: entries of the administrator's places only; the check of the chain is for super administrators, recomputes the
newest links and says what it looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from accounts import audit
from accounts.administrators import Administrator, administrators_only
from accounts.api import documents
from accounts.api.trail import audit_file
from accounts.models import AuditEntry
from accounts.permissions import visible_audit
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer
from gshare_core.kit.lists import next_address, page_of

VERIFIED = 1_000


@administrators_only
@require_GET
def trail(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The page or its list; `as=csv` the same entries as a file; `verify=1` with the state of the chain."""
    verify, as_file = "verify" in request.GET, request.GET.get("as") == "csv"
    rows, parameters = _narrowed(visible_audit(administrator.user), request.GET)
    try:
        if as_file:
            return audit_file(rows, parameters)
        request.GET = parameters  # type: ignore[assignment]  # a copy without what only this page reads
        page = page_of(rows.select_related("seal"), documents.AUDIT, request)
    except DomainError as refusal:
        messages.error(request, refusal_text(refusal))
        return HttpResponseRedirect(reverse("admin_audit"))
    asked = {name: request.GET.get(name, "") for name in ("q", "target_kind", "act", "from", "to")}
    context = {
        "now": clock.now(),
        "entries": [_entry(row) for row in page.rows],
        "count_text": _count_text(page.count, exactly=page.count_is_exact),
        "asked": asked,
        "narrowed": any(asked.values()),
        "kinds": [("", _("Everything"), not asked["target_kind"])]
        + [(kind, word, kind == asked["target_kind"]) for kind, word in _kinds().items()],
        "csv_url": f"{reverse('admin_audit')}?{_with(request.GET, 'csv')}",
        "may_verify": administrator.is_super,
        "chain": _chain() if administrator.is_super and verify else None,
        "first": reverse("admin_audit") if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    return answer(request, "accounts/admin/audit.html", context, fragments=("trail",))


def _count_text(count: int, *, exactly: bool) -> str:
    said = ngettext("%(n)d entry", "%(n)d entries", count) % {"n": count}
    return said if exactly else _("%(entries)s or more") % {"entries": said}


def _narrowed(rows: QuerySet[AuditEntry], given: QueryDict) -> tuple[QuerySet[AuditEntry], QueryDict]:
    """The days `from` and `to`, both included, in the reader's zone; and the parameters that the list itself reads."""
    parameters = given.copy()
    for name in ("as", "verify"):
        parameters.pop(name, None)
    since, until = _day(given.get("from", "")), _day(given.get("to", ""))
    if since is not None:
        rows = rows.filter(at__gte=_midnight(since))
    if until is not None:
        rows = rows.filter(at__lt=_midnight(until + timedelta(days=1)))
    return rows, parameters


def _day(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:
        return None


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))


def _with(parameters: QueryDict, kind: str) -> str:
    kept = parameters.copy()
    kept.pop("cursor", None)
    kept["as"] = kind
    return kept.urlencode()


def _entry(row: Any) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "at": row.at,
        "actor": row.actor_label,
        "act": row.act,
        "kind": _kinds().get(row.target_kind, row.target_kind),
        "target": row.target_label or row.target_id,
        "place": ", ".join(filter(None, (row.organisation_label, row.group_label))),
        "reason": row.reason,
        "address": row.address or "",
        "request_id": row.request_id,
        "changes": changes(row.before, row.after),
        "seal": row.seal.seq if hasattr(row, "seal") else None,
    }


def changes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """What changed as (field, before, after); nested documents are laid flat: `per_user.max_sessions`."""
    old, new = _flat(before or {}), _flat(after or {})
    return [(name, old.get(name, "–"), new.get(name, "–")) for name in sorted({*old, *new})]


def _flat(values: Mapping[str, Any], over: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{over}{name}.")
        else:
            found[f"{over}{name}"] = _("unset") if value is None else str(value)
    return found


def _chain() -> dict[str, Any]:
    found = audit.verify_newest(VERIFIED)
    looked = ngettext("the newest %(n)d link", "the newest %(n)d links", found.sealed) % {"n": found.sealed}
    waiting = ngettext("%(n)d entry waits for its seal", "%(n)d entries wait for their seals", found.unsealed) % {
        "n": found.unsealed
    }
    return {
        "sound": found.is_sound,
        "text": f"{looked}, {waiting}",
        "faults": [f"{fault.seq}: {fault.what}" for fault in found.faults],
        "head": found.head,
    }


def _kinds() -> dict[str, str]:
    return {
        "user": _("person"),
        "group": _("group"),
        "organisation": _("organisation"),
        "policy": _("policy"),
        "session": _("session"),
        "volume": _("volume"),
        "cluster": _("cluster"),
        "node": _("node"),
        "pool": _("pool"),
        "budget": _("budget"),
        "wallet": _("wallet"),
    }
