"""Pictures of cards for members: their own parts in colour, everybody else's grey, a planned landing outlined."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from cluster.loads import CardLoad
from gshare_core.kit import wording
from gshare_core.kit.pictures import CardPart, CardPicture

SHOWN = 64
"""So many cards of an offering are drawn; of more, the viewer's own first. Words and counts tell of all."""


def strip(loads: Collection[CardLoad], *, own: Collection[UUID]) -> list[CardPicture]:
    """The cards of an offering, small, in their order."""
    mine, shown = dict.fromkeys(own, ""), list(loads)
    if len(shown) > SHOWN:
        of_own = [load for load in shown if any(part.session_id in mine for part in load.parts)][:SHOWN]
        kept = {load.card_id for load in of_own}
        others = [load.card_id for load in shown if load.card_id not in kept]
        kept.update(others[: SHOWN - len(of_own)])
        shown = [load for load in shown if load.card_id in kept]
    return [picture(load, own=mine) for load in shown]


def strip_rest(loads: Collection[CardLoad]) -> str:
    """What stands beside a strip that does not show every card; empty when it does."""
    more = len(loads) - SHOWN
    return ngettext("and %(n)d more card", "and %(n)d more cards", more) % {"n": more} if more > 0 else ""


def picture(load: CardLoad, *, own: Mapping[UUID, str], planned: tuple[str, Fraction] | None = None) -> CardPicture:
    """One card: `own` names the viewer's sessions on it, `planned` a session that would land behind the last part."""
    parts: list[CardPart] = []
    place = Fraction(0)
    for part in load.parts:
        share = min(part.share, 1 - place)
        if share <= 0:
            break
        mine = part.session_id in own
        kind = "mine" if mine else "foreign" if part.session_id is None else "other"
        name = own[part.session_id] if mine and part.session_id is not None else ""
        parts.append(CardPart(place, share, kind, name=name))
        place += share
    if planned is not None and place < 1:
        parts.append(CardPart(place, min(planned[1], 1 - place), "planned", name=planned[0]))
    return CardPicture(parts, look=load.look, mig=load.mig, node=load.node, index=load.index)


def strip_words(loads: Collection[CardLoad]) -> str:
    """A strip as a sentence, for who does not see it."""
    free = sum(not load.parts and load.look == "ready" for load in loads)
    said = ngettext("%(n)d card", "%(n)d cards", len(loads)) % {"n": len(loads)}
    return _("%(cards)s, %(free)d entirely free") % {"cards": said, "free": free}


def legend(loads: Iterable[CardLoad]) -> list[tuple[str, str]]:
    """The looks that occur, with their words."""
    looks = {load.look for load in loads}
    keys = [("mine", _("yours")), ("other", _("in use")), ("free", _("free"))]
    if "draining" in looks:
        keys.append(("draining", _("draining")))
    if "silent" in looks:
        keys.append(("silent", _("cluster silent")))
    return keys


def by_model(loads: Iterable[CardLoad]) -> dict[str, list[CardLoad]]:
    """Cards sorted to their models."""
    found: dict[str, list[CardLoad]] = {}
    for load in loads:
        found.setdefault(load.model, []).append(load)
    return found


def landing(load: CardLoad | None, *, name: str, share: Fraction, own: Mapping[UUID, str]) -> dict[str, Any] | None:
    """Where a new session would land: node, card, picture, what it leaves free."""
    if load is None:
        return None
    left = max(Fraction(0), load.free - share)
    leaves = _("leaves nothing free") if not left else _("leaves %(share)s free") % {"share": wording.fraction(left)}
    return {
        "node": load.node,
        "index": load.index,
        "card": picture(load, own=own, planned=(name, share)),
        "leaves": leaves,
    }
