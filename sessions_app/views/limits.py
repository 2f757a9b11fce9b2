"""Effective limits as rows with their use."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from gshare_core.kit import wording
from sessions_app.overview import LimitUse, limits_of

DASHBOARD = ("max_sessions", "vram_mib", "cards", "cpu_milli", "max_queued", "storage_gib")
NEARLY = 90  # percent from which a limit is shown with a warning


def dashboard_rows(user_id: UUID, group_id: UUID) -> list[dict[str, Any]]:
    """The six that the dashboard shows."""
    found = {limit.field: limit for limit in limits_of(user_id, group_id)}
    return [row(found[field]) for field in DASHBOARD if field in found and found[field].value is not None]


def all_rows(user_id: UUID, group_id: UUID) -> list[dict[str, Any]]:
    """Every counted limit, with the scope that set it."""
    return [row(limit) for limit in limits_of(user_id, group_id) if limit.value is not None and limit.field in _names()]


def row(limit: LimitUse) -> dict[str, Any]:
    """One row of `components/limit.html`."""
    bound = limit.value or 0
    tone = "full" if limit.used >= bound else "caution" if limit.used * 100 >= bound * NEARLY else ""
    return {
        "name": _names()[limit.field],
        "value": limit.used,
        "limit": bound,
        "value_text": _amount(limit.field, limit.used)[0],
        "limit_text": " ".join(filter(None, _amount(limit.field, bound))),
        "tone": tone if limit.used else "",
        "scope_text": _scope(limit.scope),
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


def _scope(scope: str | None) -> str:
    kind = (scope or "").partition(":")[0]
    return {
        "user": _("set for you"),
        "group": _("set by the group"),
        "organisation": _("set by the organisation"),
        "global": _("for everybody"),
    }.get(kind, "")
