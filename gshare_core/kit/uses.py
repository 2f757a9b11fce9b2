"""Who uses a row: rooms above say what of theirs refers to it, and the room that owns it asks before it takes it away.

Guarantees: every asker that was named for a kind is asked; what is in use is refused with counts, in words and as facts.
Refuses: nothing by itself. It only looks; what happens meanwhile is the constraints' to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from gshare_core.errors import DomainError

Asker = Callable[[UUID], Mapping[str, int]]
_askers: dict[str, list[Asker]] = {}


def ask_before_removal(kind: str, asker: Asker) -> None:
    """From now on `asker` is asked what uses a row of this kind; called once, when the application is ready."""
    _askers.setdefault(kind, []).append(asker)


def uses_of(kind: str, row_id: UUID) -> dict[str, int]:
    """What uses the row, by name, as the rooms above count it; names of which there are none are left out."""
    found: dict[str, int] = {}
    for asker in _askers.get(kind, ()):
        for name, count in asker(row_id).items():
            found[name] = found.get(name, 0) + count
    return {name: count for name, count in found.items() if count}


def refuse_used(uses: Mapping[str, int], *, remedy: str) -> None:
    """Raise `in_use` with the counts unless nothing is in use."""
    counted = {name: count for name, count in uses.items() if count}
    if counted:
        words = ", ".join(_in_words(name, count) for name, count in counted.items())
        raise DomainError("in_use", _("It is in use: %(uses)s.") % {"uses": words}, remedy=remedy, facts=dict(counted))


def _in_words(name: str, n: int) -> str:
    forms = {
        "sessions": lambda: ngettext("%(n)d session", "%(n)d sessions", n),
        "bound": lambda: ngettext("%(n)d session that asked for it", "%(n)d sessions that asked for it", n),
        "ended": lambda: ngettext("%(n)d session that has ended", "%(n)d sessions that have ended", n),
        "documents": lambda: ngettext("%(n)d document", "%(n)d documents", n),
        "volumes": lambda: ngettext("%(n)d volume", "%(n)d volumes", n),
        "nodes": lambda: ngettext("%(n)d node", "%(n)d nodes", n),
        "prices": lambda: ngettext("%(n)d price", "%(n)d prices", n),
    }
    return str(forms[name]()) % {"n": n}
