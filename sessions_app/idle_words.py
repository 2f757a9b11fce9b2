"""Idleness in words: the evidence as facts for the page, and what the owner is told before and after a pause. Translated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from gshare_core.kit import wording
from sessions_app.models import RunActivity, Session

APPS: Mapping[str, str | Promise] = {
    "lab": gettext_lazy("JupyterLab"),
    "code": gettext_lazy("VS Code"),
    "terminal": gettext_lazy("Terminal"),
}
_WHY_UNKNOWN: Mapping[str, str | Promise] = {
    "no_sample": gettext_lazy("nothing was heard for a while"),
    "monitor_down": gettext_lazy("the monitor of its node does not answer"),
    "no_series": gettext_lazy("the monitor does not list it"),
    "not_measured": gettext_lazy("the card cannot say"),
    "no_answer": gettext_lazy("does not answer"),
}
_ICONS = {"idle": "check", "in_use": "running", "unknown": "lost"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of evidence: what, its figure, what that means, and the icon of its state."""

    name: str
    value: str
    text: str
    icon: str


def facts(evidence: Mapping[str, Any], now: datetime) -> list[Fact]:
    """The evidence of a verdict, line by line: GPU, CPU, then each application."""
    found = []
    if "gpu" in evidence:
        found.append(_gpu(evidence["gpu"], now))
    if "cpu" in evidence:
        found.append(_cpu(evidence["cpu"]))
    if "apps" in evidence:
        found += _apps(evidence["apps"], now)
    return found


def sentence(evidence: Mapping[str, Any], now: datetime) -> str:
    """The same in one line, for a notice."""
    return "; ".join(" ".join(filter(None, (fact.name, fact.value, fact.text))) for fact in facts(evidence, now))


def warning(session: Session, row: RunActivity, kind: str, *, at: datetime) -> tuple[str, str]:
    """Title and body before a pause."""
    words = {"name": session.name, "time": _local(session, at)}
    if kind == "runtime":
        title = _("%(name)s reaches its longest run and pauses at %(time)s") % words
        return title, _("Save your work. Its volumes are kept, and it can be resumed for another run of full length.")
    title = _("%(name)s is idle and pauses at %(time)s") % words
    body = _("Use it or keep it alive to go on. Evidence: %(facts)s.")
    return title, body % {"facts": sentence(row.evidence, row.judged_at or at)}


def paused(session: Session, row: RunActivity, reason: str) -> tuple[str, str]:
    """Title and body after a pause."""
    words = {"name": session.name}
    if reason == "max_runtime":
        body = _("It ran for %(time)s, the longest that its limits allow. Resume it for another run of full length.")
        said = body % {"time": wording.duration((row.runtime_max_min or 0) * 60)}
        return _("%(name)s was paused, its longest run was reached") % words, said
    body = _("Nothing was used for %(time)s: %(facts)s. Its volumes are kept; paused, it costs nothing.")
    said = body % {
        "time": wording.duration((row.timeout_min or 0) * 60),
        "facts": sentence(row.evidence, row.judged_at or session.state_since),
    }
    return _("%(name)s was paused, it was idle") % words, said


def _local(session: Session, at: datetime) -> str:
    zone = ZoneInfo(session.owner.time_zone or settings.GSHARE.time_zone)
    return f"{at.astimezone(zone):%H:%M}"


def _gpu(part: Mapping[str, Any], now: datetime) -> Fact:
    icon = _ICONS[part["state"]]
    if part["state"] == "unknown":
        return Fact(_("GPU"), _("unknown"), _why(part), icon)
    kernel = _time(part.get("last_kernel_at"))
    if kernel is not None:
        return Fact(_("Last GPU kernel"), wording.hours_minutes(kernel), wording.relative(kernel, now), icon)
    if part.get("use_percent") is not None:
        value = _("%(n).1f %%") % {"n": part["use_percent"]}
        return Fact(_("GPU in own slice"), value, _("quiet below %(n)d %%") % {"n": part["quiet_below_percent"]}, icon)
    return Fact(_("GPU"), _("never used"), "", icon)


def _cpu(part: Mapping[str, Any]) -> Fact:
    icon = _ICONS[part["state"]]
    if part.get("mean_percent") is None:
        return Fact(_("CPU"), _("unknown"), _why(part), icon)
    quiet = _("quiet below %(n)d %% of %(cores)s") % {
        "n": part["quiet_below_percent"],
        "cores": wording.cores(part["request_milli"]),
    }
    return Fact(_("CPU, mean"), _("%(n).1f %%") % {"n": part["mean_percent"]}, quiet, icon)


def _apps(part: Mapping[str, Any], now: datetime) -> list[Fact]:
    if not part.get("each"):
        return [Fact(_("Applications"), _("unknown"), _why(part), _ICONS["unknown"])]
    return [_app(row, now) for row in part["each"]]


def _app(row: Mapping[str, Any], now: datetime) -> Fact:
    name, used_at = str(APPS.get(row["app"], row["app"])), _time(row["last_activity_at"])
    if row["busy"]:
        return Fact(name, _("busy"), _("a cell runs"), _ICONS["in_use"])
    if not row["known"]:
        return Fact(name, _("unknown"), str(_WHY_UNKNOWN["no_answer"]), _ICONS["unknown"])
    if used_at is None:
        return Fact(name, _("not used"), "", _ICONS["idle"])
    ago = _("last activity %(when)s") % {"when": wording.relative(used_at, now)}
    return Fact(name, wording.hours_minutes(used_at), ago, _ICONS["idle"])


def _why(part: Mapping[str, Any]) -> str:
    return str(_WHY_UNKNOWN.get(part.get("why", ""), ""))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
