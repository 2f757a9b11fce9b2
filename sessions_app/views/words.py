"""Words of the console about sessions: sizes, applications, gates, what happens next. Pure; translated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from gshare_core.kit import wording
from gshare_core.verdicts import Gate
from sessions_app.domain.lifecycle import State
from sessions_app.idle_words import APPS
from sessions_app.models import Run, Session
from sessions_app.queries import PREEMPTING, Place

APP_ORDER = ("lab", "code", "terminal")

GATES: Mapping[Gate, str | Promise] = {
    Gate.REFERENCES: gettext_lazy("References"),
    Gate.MOUNTS: gettext_lazy("Mounts"),
    Gate.WALLET: gettext_lazy("Wallet"),
    Gate.POLICY: gettext_lazy("Policy"),
    Gate.BUDGET: gettext_lazy("Budget"),
    Gate.HOLD: gettext_lazy("Credit hold"),
    Gate.RESERVATION: gettext_lazy("Card"),
    Gate.HANDOFF: gettext_lazy("Hand-off"),
}

DETAILS: Mapping[str, str | Promise] = {
    "created": pgettext_lazy("timeline", "created"),
    "resumed": gettext_lazy("resumed"),
    "left the line": gettext_lazy("left the line"),
    "Its place in line was restored.": gettext_lazy("Its place in line was restored."),
    "forced": gettext_lazy("ended by force"),
    "pulling": gettext_lazy("pulls the image"),
    "Others are in line before it.": gettext_lazy("Others are in line before it."),
    "Waits for preempted sessions to end.": gettext_lazy("Waits for preempted sessions to end."),
    "Only nodes outside the allowed pools could hold it.": gettext_lazy(
        "Only nodes outside the allowed pools could hold it."
    ),
    "Every node that could hold it is silent, cordoned or draining.": gettext_lazy(
        "Every node that could hold it is silent, cordoned or draining."
    ),
    "The cluster did not confirm the end; the card stays blocked.": gettext_lazy(
        "The cluster did not confirm the end; the card stays blocked."
    ),
    "The start failed on its card; it is tried again at its old place in line.": gettext_lazy(
        "The start failed on its card; it is tried again at its old place in line."
    ),
}

_ON_NODE = re.compile(r"on ([a-z0-9.-]+)")
_CREDITS = re.compile(r"It needs ([\d.,]+) cr, ([\d.,]+) cr are available\.")
_FOR_MINUTES = re.compile(r"(idle|ran) for (\d{1,9}) min")

VERBS: Mapping[str, str | Promise] = {
    "pause": gettext_lazy("Pause"),
    "resume": gettext_lazy("Resume"),
    "restart": gettext_lazy("Restart"),
    "stop": gettext_lazy("Stop"),
    "keep-alive": gettext_lazy("Keep alive"),
    "stay-paused": gettext_lazy("Stay paused"),
}

VERBS_OF: Mapping[str, str | Promise] = {
    "pause": gettext_lazy("Pause %(name)s"),
    "resume": gettext_lazy("Resume %(name)s"),
    "restart": gettext_lazy("Restart %(name)s"),
    "stop": gettext_lazy("Stop %(name)s"),
    "keep-alive": gettext_lazy("Keep %(name)s alive"),
    "stay-paused": gettext_lazy("Keep %(name)s paused"),
}

QUESTIONS: Mapping[str, str | Promise] = {
    "pause": gettext_lazy("Pause %(name)s?"),
    "resume": gettext_lazy("Resume %(name)s?"),
    "restart": gettext_lazy("Restart %(name)s?"),
    "stop": gettext_lazy("Stop %(name)s?"),
    "keep-alive": gettext_lazy("Keep %(name)s alive?"),
    "stay-paused": gettext_lazy("Keep %(name)s paused?"),
}


def apps_of(names: list[str]) -> list[dict[str, str]]:
    """The applications of an image in their order on the page."""
    return [{"name": name, "word": str(APPS[name])} for name in APP_ORDER if name in names]


def open_apps(session: Session, run: Run | None) -> list[dict[str, str]]:
    """The applications that can be opened: those of the image, and of these only what the run's report has an address for."""
    served = session.image.apps
    if run is not None and run.closed_at is None and run.endpoints:
        served = [name for name in served if name in run.endpoints]
    return apps_of(served)


def apps_text(names: list[str]) -> str:
    """The same in one line."""
    return ", ".join(app["word"] for app in apps_of(names))


def size_name(tier: str, cards: int = 1) -> str:
    """What a size is called: its letter, CPU, or how many whole cards."""
    if tier == "exclusive":
        return ngettext("%(n)d card", "%(n)d cards", cards) % {"n": cards}
    return _("CPU") if tier == "cpu" else tier


def share_of(session: Session) -> Fraction | None:
    """The share of one card; None for sessions without one."""
    if session.mode == "cpu":
        return None
    return Fraction(1) if session.mode == "exclusive" else session.occupancy


def counts_text(running: int, waiting: int, paused: int) -> str:
    """Such as "3 running, 3 waiting, 1 paused"; empty parts are left out."""
    parts = []
    if running:
        parts.append(ngettext("%(n)d running", "%(n)d running", running) % {"n": running})
    if waiting:
        parts.append(ngettext("%(n)d waiting", "%(n)d waiting", waiting) % {"n": waiting})
    if paused:
        parts.append(ngettext("%(n)d paused", "%(n)d paused", paused) % {"n": paused})
    return ", ".join(parts) or _("none live")


def own_words(detail: str) -> str:
    """What the machinery noted, in the reader's language; what people wrote stays as they wrote it."""
    known = DETAILS.get(detail)
    if known is None and (place := _ON_NODE.fullmatch(detail)):
        return _("on %(node)s") % {"node": place[1]}
    if known is None and (span := _FOR_MINUTES.fullmatch(detail)):
        time = {"time": wording.duration(int(span[2]) * 60)}
        return (_("unused for %(time)s") if span[1] == "idle" else _("ran for %(time)s")) % time
    if known is None and (credit := _CREDITS.fullmatch(detail)):
        amounts = {"needed": credit[1], "available": credit[2]}
        return _("It needs %(needed)s cr, %(available)s cr are available.") % amounts
    return str(known) if known else detail


def queue_reason(place: Place) -> str:
    """Why a session waits, in words: its lane's turn, a limit, or what is missing."""
    reason = place.reason
    known = {
        PREEMPTING: _("waits for preempted sessions to end"),
        "in_line": _("others are before it"),
        "start_failed": _("its start failed and is tried again"),
        "quota_exceeded": _("passed over: a limit is reached"),
        "budget_exceeded": _("passed over: the budget is used up"),
        "mount_conflict": _("passed over: a volume is in use"),
    }
    return known.get(reason) or missing_text(place.missing) or own_words(place.detail) or _("waits for room")


def missing_text(missing: Mapping[str, int]) -> str:
    """What would have to come free, the tightest first."""
    words = {
        "cards": lambda n: ngettext("waits for a whole card", "waits for %(n)d whole cards", n) % {"n": n},
        "slots": lambda _n: _("waits for a slot on a card"),
        "vram_mib": lambda n: _("waits for %(amount)s of GPU memory") % {"amount": " ".join(wording.memory(n))},
        "cores": lambda n: _("waits for %(n)d %% of a card's compute") % {"n": -(-n // 10)},
        "cpu_milli": lambda n: _("waits for %(amount)s of CPU") % {"amount": wording.cores(n)},
        "memory_mib": lambda n: _("waits for %(amount)s of memory") % {"amount": " ".join(wording.memory(n))},
        "scratch_gib": lambda n: _("waits for %(n)d GiB of scratch") % {"n": n},
        "pool": lambda _n: _("no pool of yours has such a card free"),
    }
    for name, amount in missing.items():
        if name in words:
            return str(words[name](amount))
    return ""


def next_of(session: Session, run: Run | None, now: datetime, pause_at: datetime | None = None) -> dict[str, object]:
    """What happens next to a session that does not wait: {icon, lead, text, at}. `pause_at`: when it is paused as idle."""
    nothing: dict[str, object] = {"icon": "", "lead": "", "text": "", "at": None}
    match session.life:
        case State.STARTING:
            return nothing | {"text": _starting(session, run)}
        case State.RUNNING if pause_at is not None:
            return nothing | {"icon": "idle", "text": _("idle, pauses in"), "at": pause_at}
        case State.RUNNING:
            return nothing | {"text": _("on %(node)s") % {"node": run.node} if run and run.node else _("busy")}
        case State.PAUSED:
            since = _("since %(when)s") % {"when": wording.clock(session.state_since, now)}
            why = wording.reason_words(session.reason) if session.reason not in {"", "user"} else ""
            return nothing | {"text": f"{since}, {why}" if why else since}
        case State.PAUSING if session.resume_wanted:
            return nothing | {"text": _("resumes when the card is back")}
        case State.PAUSING | State.STOPPING:
            return nothing | {"text": _("gives the card back") if session.mode != "cpu" else _("shuts down")}
        case State.LOST:
            return nothing | {"text": _("its cluster is silent; nothing is billed")}
        case State.STOPPED | State.FAILED:
            return nothing | {"text": wording.reason_words(session.reason)}
    return nothing


def _starting(session: Session, run: Run | None) -> str:
    if session.restarting:
        return _("starts anew on the same card")
    if session.detail == "pulling":
        return _("pulls the image")
    return _("comes up on %(node)s") % {"node": run.node} if run and run.node else _("comes up")
