"""Effective limits as rows with their use, and the place that set each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from accounts import queries as accounts
from gshare_core.kit import wording
from sessions_app.overview import LimitsInForce, LimitUse, limits_in_force

DASHBOARD = ("max_sessions", "vram_mib", "cards", "cpu_milli", "max_queued", "storage_gib")
NEARLY = 90  # percent from which a limit is shown with a warning
MINUTE = 60


def dashboard_rows(in_force: LimitsInForce) -> list[dict[str, Any]]:
    """The six that the dashboard shows, for who works from a seat in a group."""
    found = {limit.field: limit for limit in in_force.fields}
    return [row(found[field], {}) for field in DASHBOARD if field in found and found[field].value is not None]


def all_rows(user_id: UUID, group_id: UUID) -> list[dict[str, Any]]:
    """Every limit with its use and who set it: one's own numbers, what is allowed, then totals shared with others."""
    facts = accounts.requester_facts(user_id, group_id)
    if facts is None:
        return []
    places = {"group": facts.group_name, "organisation": facts.organisation_name}
    found = limits_in_force(user_id, group_id, facts.organisation_id)
    own = [limit for limit in found.fields if limit.value is not None]
    return [
        *(row(limit, places) for limit in own if limit.used is not None),
        *(_plain_row(limit, places) for limit in own if limit.used is None),
        *(row(total, places) | {"total": True} for total in found.totals),
    ]


def row(limit: LimitUse, places: Mapping[str, str]) -> dict[str, Any]:
    """One row of `components/limit.html`."""
    bound, used = limit.value or 0, limit.used or 0
    tone = "full" if used >= bound else "caution" if used * 100 >= bound * NEARLY else ""
    return {
        "name": _names()[limit.field],
        "value": used,
        "limit": bound,
        "value_text": _amount(limit.field, used)[0],
        "limit_text": " ".join(filter(None, _amount(limit.field, bound))),
        "tone": tone if used else "",
        "scope_text": _scope(limit.scope, places),
    }


def _plain_row(limit: LimitUse, places: Mapping[str, str]) -> dict[str, Any]:
    """A row of what does not add up: a time, a right."""
    name, text = _rights(limit.value or 0)[limit.field]
    return {"name": name, "plain": True, "limit_text": text, "scope_text": _scope(limit.scope, places)}


def _rights(value: int) -> dict[str, tuple[str, str]]:
    span = wording.duration(value * MINUTE)
    allowed = _("allowed") if value else _("not allowed")
    return {
        "max_runtime_min": (_("Longest run"), span if value else _("no end")),
        "idle_timeout_min": (_("Paused when idle for"), span if value else _("never")),
        "keep_alive_max_min": (_("Keep alive, at most"), span if value else _("not at all")),
        "max_priority": (_("Highest priority"), str(value)),
        "allow_privileged": (_("Privileged sessions"), allowed),
        "allow_preemptible": (_("Preemptible sessions"), allowed),
        "shared_pool": (_("Shared pool"), _("open to you") if value else _("not open to you")),
    }


def _names() -> dict[str, str]:
    return {
        "max_sessions": _("Sessions"),
        "max_queued": _("Waiting"),
        "max_paused": _("Paused"),
        "cpu_milli": _("CPU"),
        "memory_mib": _("Memory"),
        "scratch_gib": _("Scratch"),
        "vram_mib": _("GPU memory"),
        "core_percent": _("GPU compute"),
        "cards": _("Whole cards"),
        "storage_gib": _("Storage"),
    }


def field_words(field: str) -> str:
    """What a limit or a resource is called; the name itself when it has no word."""
    return {**_names(), "cores": _("GPU compute")}.get(field) or _names().get(f"max_{field}") or field.replace("_", " ")


def name_of(field: str) -> str:
    """What a limit is called, counted or not."""
    return _names().get(field) or _rights(0)[field][0]


def value_text(field: str, value: int) -> str:
    """A limit's number with its unit, or what it means: "no end", "allowed"; of whoever it binds."""
    if field == "shared_pool":
        return _("allowed") if value else _("not allowed")
    return amount_text(field, value) if field in _names() else _rights(value)[field][1]


def amount_text(field: str, value: int) -> str:
    """An amount of it with its unit; `cores` are thousandths of a card."""
    if field == "cores":
        return f"{-(-value // 10)} %"
    return " ".join(filter(None, _amount(field, value)))


def _amount(field: str, value: int) -> tuple[str, str]:
    """The number and its unit; both numbers of a row are in the same unit."""
    if field in {"vram_mib", "memory_mib"}:
        return wording.gibibytes(value), "GiB"
    if field == "cpu_milli":
        return wording.core_count(value), _("cores")
    if field in {"scratch_gib", "storage_gib"}:
        return str(value), "GiB"
    return (str(value), "%") if field == "core_percent" else (str(value), "")


def _scope(scope: str | None, places: Mapping[str, str]) -> str:
    """Who set it: an administrator for this person alone, the group or organisation by name, or the general policy."""
    kind = (scope or "").partition(":")[0]
    name = {"name": places.get(kind, "")}
    return {
        "user": _("an administrator, for you alone"),
        "group": _("the group %(name)s") % name,
        "organisation": _("the organisation %(name)s") % name,
        "global": _("the general policy"),
    }.get(kind, "")
