"""Why a session waits, what would free it, when it will likely start, and the picture of that; for every page that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from cluster.loads import CardLoad, KeptPlace, card_loads, kept_places
from gshare_core.errors import DomainError
from gshare_core.kit import wording
from gshare_core.kit.pictures import CardPart, CardPicture, percent
from sessions_app import line
from sessions_app.models import QueueEntry, Session
from sessions_app.queries import PREEMPTING, Place
from sessions_app.views import verdicts, words

SHOWN_AHEAD = 6  # places that the picture of a line has room for
SHOWN_CARDS = 8
_SAID_MINUTES = 10


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around waiting sessions: who is first in their lanes, what is kept for them and on which cards."""

    first: Mapping[str, list[line.Ahead]] = field(default_factory=dict)
    kept: Mapping[UUID, KeptPlace] = field(default_factory=dict)
    cards: Mapping[UUID, CardLoad] = field(default_factory=dict)


def surroundings(places: Mapping[UUID, Place]) -> Surroundings:
    """Of these waiting sessions. Three statements at most, none where nobody waits."""
    if not places:
        return Surroundings()
    kept = kept_places(places.keys())
    cards = {load.card_id: load for load in card_loads(cards=[mark.cards[0] for mark in kept.values() if mark.cards])}
    return Surroundings(line.first_of((place.entry.lane for place in places.values()), SHOWN_AHEAD), kept, cards)


def wait_of(
    session: Session, place: Place, around: Surroundings, *, own: Mapping[UUID, str], now: datetime
) -> dict[str, Any]:
    """The wait as `queue.html` and `session.html` show it. `own` names the viewer's sessions."""
    kept = around.kept.get(session.pk)
    return {
        "place": place.position,
        "of_text": of_text(session, place),
        "title": title(session, place),
        "text": text(session, place, kept, now),
        "picture": _picture(session, place, around, own, now),
        "said": said(session, place, now),
        **likely(place, now),
    }


def of_text(session: Session, place: Place) -> str:
    """Of how many in which line."""
    if session.offering is None:
        return _("of %(n)d in line") % {"n": place.length}
    return _("of %(n)d for %(gpu)s") % {"n": place.length, "gpu": session.offering.name}


def said(session: Session, place: Place, now: datetime) -> str:
    """Name, place and about when in a sentence: said to who does not see the page, when it changes and not with every minute."""
    where = f"{session.name} {wording.ordinal(place.position)}"
    at = likely(place, now)["at"]
    if at is None:
        return where
    rounded = at.replace(minute=at.minute // _SAID_MINUTES * _SAID_MINUTES, second=0, microsecond=0)
    return _("%(where)s, about %(time)s") % {"where": where, "time": wording.clock(rounded, now)}


# When ----------------------------------------------------------------------------------------------------------------


def likely(place: Place, now: datetime) -> dict[str, Any]:
    """When it will likely start, and what that rests on: {at, soon, basis}."""
    entry = place.entry
    if place.is_passed_over:
        return {"at": None, "soon": False, "basis": _("not before what keeps it has changed")}
    if entry.estimate_at is None:
        return {"at": None, "soon": False, "basis": _("nothing says when others end")}
    basis = _("from how long such sessions usually last")
    if entry.basis == QueueEntry.Basis.MAX_RUNTIME:
        basis = _("at the latest, from longest runs that must end")
    if entry.basis == QueueEntry.Basis.PREEMPTED:
        basis = _("at the latest, when preempted sessions have ended")
    soon = entry.estimate_at <= now
    return {"at": None if soon else entry.estimate_at, "soon": soon, "basis": basis}


def next_of(place: Place, now: datetime) -> dict[str, object]:
    """The same for a row: which place, and about when or why: {icon, lead, text, at}."""
    at = likely(place, now)["at"]
    why = words.queue_reason(place) if at is None else _("about %(time)s") % {"time": wording.clock(at, now)}
    return {"icon": "", "lead": wording.ordinal(place.position), "text": why, "at": None}


# Why -----------------------------------------------------------------------------------------------------------------


def title(session: Session, place: Place) -> str:
    """Why it waits."""
    told = place.facts
    if place.reason == "quota_exceeded" and told.get("asked"):
        return _("Passed over: %(what)s, %(used)s of %(limit)s in use") % {
            "what": verdicts.field_words(str(told["field"])),
            "used": _amount(told, "used"),
            "limit": _amount(told, "limit"),
        }
    if place.is_passed_over:
        return capfirst(words.queue_reason(place))
    if place.reason == PREEMPTING:
        return _("Waits for preempted sessions to end")
    if place.reason == "start_failed":
        return _("Its start failed and is tried again")
    if place.reason == "in_line":
        return _("Others are in line before it")
    return _of_metal(session, place.missing) or capfirst(words.queue_reason(place))


def _amount(told: Mapping[str, Any], name: str) -> str:
    """An amount of the limit that is reached."""
    return verdicts.amount_text(str(told["field"]), int(told[name]))


def _limit(session: Session, told: Mapping[str, Any]) -> str:
    """The limit and who set it."""
    kind = str(told["scope"]).partition(":")[0]
    names = {"group": session.group.name, "organisation": session.organisation.name}
    who = _("set for you") if kind == "user" else _("for everybody")
    if kind in names:
        who = _("set by %(name)s") % {"name": names[kind]}
    return _("limit %(limit)s, %(who)s") % {"limit": _amount(told, "limit"), "who": who}


def _of_metal(session: Session, missing: Mapping[str, int]) -> str:
    """What no card or node has, where the first thing that is missing is a part of a card or whole ones."""
    first = next(iter(missing), "")
    gpu = session.offering.name if session.offering else ""
    if first == "cards" or (first in {"vram_mib", "cores", "slots"} and session.mode == "exclusive"):
        return ngettext("No %(gpu)s is entirely free", "No node has %(n)d %(gpu)s entirely free", session.cards) % {
            "gpu": gpu,
            "n": session.cards,
        }
    if first in {"vram_mib", "cores"}:
        share = wording.fraction(session.occupancy / max(1, session.cards))
        return _("No %(gpu)s has %(share)s of a card free in one piece") % {"gpu": gpu, "share": share}
    return capfirst(words.missing_text(missing))


def text(session: Session, place: Place, kept: KeptPlace | None, now: datetime) -> str:
    """What would free it, and what is done for it meanwhile."""
    if place.is_passed_over:
        return " ".join(filter(None, (_remedy(session, place), _("It keeps its place."))))
    if place.reason == PREEMPTING:
        said = ngettext(
            "%(n)d session of lower priority makes room for it. What it gives back is kept for this one.",
            "%(n)d sessions of lower priority make room for it. What they give back is kept for this one.",
            place.making_room,
        )
        return said % {"n": place.making_room}
    if place.reason == "start_failed":
        return _("It is tried again at its old place in line.")
    noted = words.own_words(place.detail) if place.detail in words.DETAILS and place.reason != "in_line" else ""
    if kept is not None:
        return _("A place is kept for it: it takes nobody who would delay it, and starts it as soon as it is free.")
    if noted:
        return noted
    if place.position > 1:
        before = ngettext("%(n)d request is before it.", "%(n)d requests are before it.", place.position - 1)
        return " ".join((before % {"n": place.position - 1}, _frees(session)))
    limits = settings.GSHARE
    if now - place.entry.enqueued_at < limits.reserve_after:
        later = _("After %(time)s of waiting a place is kept for it.") % {
            "time": wording.duration(limits.reserve_after)
        }
        return " ".join((_frees(session), later))
    return _frees(session)


def _frees(session: Session) -> str:
    if session.mode == "exclusive":
        return ngettext(
            "It starts when a whole card comes back.",
            "It starts when %(n)d whole cards of a node come back.",
            session.cards,
        ) % {"n": session.cards}
    return _("It starts when enough of a card comes back: sessions that pause or stop give theirs back.")


def _remedy(session: Session, place: Place) -> str:
    """What would let it pass the gate that keeps it."""
    told, reason = place.facts, place.reason
    if reason == "quota_exceeded" and told.get("asked"):
        if told["asked"] > told["limit"]:
            return _("The limit has become smaller than what it asks for: an administrator can raise it, or cancel it.")
        if told["field"] == "cards":
            return _("It starts once a whole card that counts there comes back, or the limit is raised.")
        frees = _("It starts once sessions that count there pause or stop, or the limit is raised")
        return f"{frees} ({_limit(session, told)})."
    if reason == "budget_exceeded":
        return _("It starts in the budget's next period, or when who set the budget raises it.")
    if reason == "mount_conflict":
        return _("It starts when the session that uses the volume pauses or stops.")
    said = verdicts.refusal(DomainError(reason, place.detail, facts=dict(told)))
    return said.text or words.own_words(place.detail)


# Pictures ------------------------------------------------------------------------------------------------------------


def _picture(
    session: Session, place: Place, around: Surroundings, own: Mapping[UUID, str], now: datetime
) -> dict[str, Any] | None:
    if place.is_passed_over:
        return _limit_picture(session, place)
    kept = around.kept.get(session.pk)
    if kept is not None and kept.cards and kept.cards[0] in around.cards:
        return _kept_picture(session, kept, around.cards[kept.cards[0]], own, now)
    return _line_picture(session, place, around.first.get(place.entry.lane, []), own)


def _limit_picture(session: Session, place: Place) -> dict[str, Any] | None:
    """The whole cards of a limit, where that is what is reached."""
    told = place.facts
    if told.get("field") != "cards" or not 0 < int(told.get("limit", 0)) <= SHOWN_CARDS:
        return None
    used = min(int(told["used"]), int(told["limit"]))
    whole = [CardPicture([CardPart(Fraction(0), Fraction(1), "other")]) for _number in range(used)]
    free = [CardPicture() for _number in range(int(told["limit"]) - used)]
    return {"kind": "cards", "cards": whole + free, "text": _limit(session, told)}


def _kept_picture(
    session: Session, kept: KeptPlace, load: CardLoad, own: Mapping[UUID, str], now: datetime
) -> dict[str, Any]:
    """The card that drains towards the session: who stays, who makes way and until when, what is held already."""
    wanted = min(Fraction(1), session.occupancy / max(1, session.cards))
    staying = [part for part in load.parts if part.session_id not in kept.leaving]
    leaving = [part for part in load.parts if part.session_id in kept.leaving]
    parts: list[CardPart] = []
    at = Fraction(0)
    for part in (*staying, *leaving):
        share = min(part.share, 1 - at)
        if share <= 0:
            break
        mine, ends = part.session_id in own, kept.leaving.get(part.session_id) if part.session_id else None
        name = own[part.session_id] if mine and part.session_id else ""
        if ends is not None:
            name = _("until %(time)s") % {"time": wording.clock(ends, now)}
        kind = "mine" if mine else "foreign" if part.session_id is None else "other"
        parts.append(CardPart(at, share, kind, name=name))
        at += share
    begins = min(sum((part.share for part in staying), Fraction(0)), 1 - wanted)
    if at < 1:
        parts.append(CardPart(at, min(1 - at, wanted), "held", size=session.name))
    right = _("nothing says when it is free")
    if kept.ready_at is not None:
        right = _("free by %(time)s") % {"time": wording.clock(kept.ready_at, now)}
    return {
        "kind": "card",
        "node": load.node,
        "index": load.index,
        "right": right,
        "card": CardPicture(parts, look=load.look, node=load.node, index=load.index),
        "bracket": {"x": percent(begins), "width": percent(wanted), "text": session.name},
    }


def _line_picture(
    session: Session, place: Place, first: Iterable[line.Ahead], own: Mapping[UUID, str]
) -> dict[str, Any] | None:
    """Who is before it, as far as there is room; others' only by what they ask for."""
    upto = list(first)[: place.position]
    if place.position < 2 or len(upto) < place.position or upto[-1].session != session.pk:
        return None
    whole = sum(max(1, ahead.cards) for ahead in upto)
    parts, at = [], Fraction(0)
    for number, ahead in enumerate(upto, start=1):
        share = Fraction(max(1, ahead.cards), whole)
        mine = ahead.session == session.pk
        name = own.get(ahead.session) or words.size_name(ahead.tier, ahead.cards) or _("own shape")
        kind = "mine" if mine else "other"
        said = f"{wording.ordinal(number)} {session.name if mine else name}"
        parts.append(CardPart(at, share, kind, wording.ordinal(number), session.name if mine else name, title=said))
        at += share
    return {"kind": "line", "card": CardPicture(parts)}
