"""The state of the books in words: for who administers the whole system, in the overview and beside the credits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing import trial
from gshare_core.kit import wording
from gshare_core.money import format_credits


def books(now: datetime) -> dict[str, Any]:
    """`note` always; `alarm` (None when all is well) as the overview tells alarms. One statement when all is well."""
    state = trial.state(now)
    return {"note": _note(state, now), "alarm": _alarm(state, now), "agrees": state.at is not None and state.agrees}


def _note(state: trial.State, now: datetime) -> str:
    if state.at is None:
        return _("Books not checked yet")
    when = {"when": wording.clock(state.at, now)}
    if state.agrees:
        return _("Books agree to the micro-credit, checked %(when)s") % when
    return _("Books do not agree, checked %(when)s") % when


def _alarm(state: trial.State, now: datetime) -> dict[str, Any] | None:
    if not state.agrees:
        title = ngettext(
            "The books do not agree: %(n)d difference", "The books do not agree: %(n)d differences", state.differences
        ) % {"n": state.differences}
        return _told("full", title, _what_differs(state, now))
    if not state.is_late:
        return None
    since = wording.clock(state.at, now) if state.at else ""
    title = (
        _("The books were not checked since %(when)s") % {"when": since} if since else _("The books were never checked")
    )
    return _told("caution", title, _("The worker does not run its trial balance; manage.py trial_balance does it now."))


def _what_differs(state: trial.State, now: datetime) -> str:
    said = []
    if state.first is not None:
        said.append(
            _("First: %(what)s, stored %(stored)s, computed %(computed)s.")
            % {
                "what": f"{state.first.what} {state.first.row}",
                "stored": format_credits(state.first.stored),
                "computed": format_credits(state.first.computed),
            }
        )
    if state.agreed_at is not None:
        said.append(_("They last agreed %(when)s.") % {"when": wording.clock(state.agreed_at, now)})
    said.append(_("manage.py trial_balance --full names every row."))
    return " ".join(said)


def _told(tone: str, title: str, text: str) -> dict[str, Any]:
    return {"icon": "books", "tone": tone, "title": title, "text": text}
