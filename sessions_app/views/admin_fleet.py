"""The fleet as administrators see it: every card of their scope and what sits on it, to scale, and why.

Guarantees: names, owners and links only of sessions in the reach of who looks; what belongs to others on the same card is
"in use", as members see it. Shown are the cards of pools that the scope's people may use, and every card that carries one
of their sessions; all cards for super administrators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.administrators import Administrator
from cluster.alarms import Kept
from cluster.loads import CardLoad, HostLoad, Part
from gshare_core.kit import wording
from gshare_core.kit.pictures import CardPart, CardPicture
from sessions_app.models import Session
from sessions_app.views import words

NODES = 24
"""How many nodes a page of the picture holds."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known to paint with: the sessions in reach, and what is kept on cards for whom."""

    sessions: Mapping[UUID, Session]
    kept: Sequence[Kept]
    now: datetime
    used: Mapping[UUID, Fraction] = field(default_factory=dict)
    """Of what a run reserved of its cards' memory the part that was measured lately, by run."""


def in_scope(loads: Iterable[CardLoad], administrator: Administrator, own: Collection[UUID]) -> list[CardLoad]:
    """The cards that this administrator sees."""
    if administrator.is_super:
        return list(loads)
    return [
        load for load in loads if _is_open_to(load, administrator) or any(part.session_id in own for part in load.parts)
    ]


def _is_open_to(load: CardLoad, administrator: Administrator) -> bool:
    pool, reach = load.pool, administrator.reach
    if pool is None:
        return False
    return pool.is_shared or bool(pool.groups & reach.groups) or bool(pool.organisations & _homes(administrator))


def _homes(administrator: Administrator) -> frozenset[UUID]:
    """His organisations, and those of the groups that he administers."""
    seats = administrator.standing.seats
    return administrator.reach.organisations | {
        seat.organisation_id for seat in seats if seat.group_id in administrator.standing.administered_groups
    }


def used_of(loads: Iterable[CardLoad], measured: Mapping[UUID, Fraction]) -> dict[UUID, Fraction]:
    """What was measured of what each run reserved of memory on all of its cards."""
    reserved: dict[UUID, int] = {}
    for load in loads:
        for part in load.parts:
            if part.run_id is not None:
                reserved[part.run_id] = reserved.get(part.run_id, 0) + part.vram_mib
    return {run: min(vram / reserved[run], Fraction(1)) for run, vram in measured.items() if reserved.get(run)}


# The picture ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeLoads:
    """A node's cards."""

    cluster: str
    node: str
    loads: tuple[CardLoad, ...]

    @property
    def is_silent(self) -> bool:
        """Whether nothing is heard of any of them."""
        return all(load.look == "silent" for load in self.loads)


def by_node(loads: Iterable[CardLoad]) -> list[NodeLoads]:
    """The cards by node, silent nodes last."""
    found: dict[tuple[str, str], list[CardLoad]] = {}
    for load in loads:
        found.setdefault((load.cluster_name, load.node), []).append(load)
    made = [NodeLoads(cluster, node, tuple(cards)) for (cluster, node), cards in found.items()]
    return sorted(made, key=lambda node: node.is_silent)


def nodes(shown: Iterable[NodeLoads], sight: Sight, chosen: str = "") -> list[dict[str, Any]]:
    """One dictionary a node, its cards in their order; the chosen card opens and says who and why."""
    return [_node(node.cluster, node.node, node.loads, sight, chosen) for node in shown]


def _node(cluster: str, node: str, loads: Sequence[CardLoad], sight: Sight, chosen: str) -> dict[str, Any]:
    taken = sum((1 - load.free for load in loads), Fraction(0)) / len(loads)
    silent = all(load.look == "silent" for load in loads)
    return {
        "name": node,
        "key": f"{cluster}-{node}",
        "cluster": cluster,
        "what": _models(loads),
        "host": _host(loads[0].host),
        "percent": wording_percent(taken),
        "silent": silent,
        "draining": not silent and all(load.look == "draining" for load in loads),
        "cards": [_card(load, sight, chosen) for load in loads],
    }


def _host(host: HostLoad) -> list[dict[str, str]]:
    """CPU and memory of the node: how much of what may be given out is taken, in percent, and in words."""
    return [
        {
            "name": _("CPU"),
            "percent": str(round(Fraction(100 * host.cpu_taken_milli, host.cpu_milli or 1))),
            "text": _("%(taken)s of %(all)s taken")
            % {"taken": wording.core_count(host.cpu_taken_milli), "all": wording.cores(host.cpu_milli)},
        },
        {
            "name": _("memory"),
            "percent": str(round(Fraction(100 * host.memory_taken_mib, host.memory_mib or 1))),
            "text": _("%(taken)s of %(all)s taken")
            % {"taken": _memory(host.memory_taken_mib), "all": _memory(host.memory_mib)},
        },
    ]


def _memory(mib: int) -> str:
    return " ".join(wording.memory(mib))


def _models(loads: Sequence[CardLoad]) -> str:
    counts: dict[str, int] = {}
    for load in loads:
        counts[load.model] = counts.get(load.model, 0) + 1
    return ", ".join(f"{short_model(model)} ×{count}" for model, count in counts.items())


def short_model(model: str) -> str:
    """A model without its maker: the maker says nothing beside seven of the same."""
    return model.removeprefix("NVIDIA ").removeprefix("Tesla ")


def wording_percent(share: Fraction) -> str:
    """A share in percent, at most one decimal."""
    tenths = round(share * 1000)
    return f"{tenths // 10}.{tenths % 10}" if tenths % 10 else str(tenths // 10)


def _card(load: CardLoad, sight: Sight, chosen: str) -> dict[str, Any]:
    key = str(load.card_id)
    picture = _picture(load, sight)
    return {
        "id": key,
        "index": load.index,
        "picture": picture,
        "mig": load.mig,
        "percent": wording_percent(1 - load.free),
        "url": f"?card={key}#card-{key}",
        "chosen": key == chosen,
        "detail": _detail(load, sight) if key == chosen else None,
        "rows": [_row(part, sight) for part in load.parts],
        "look": _LOOKS.get(load.look, _look_ready)(),
    }


def _look_ready() -> str:
    return _("ready")


_LOOKS = {"draining": lambda: _("draining"), "silent": lambda: _("silent"), "ready": _look_ready}


def _picture(load: CardLoad, sight: Sight) -> CardPicture:
    parts: list[CardPart] = []
    place = Fraction(0)
    for part in load.parts:
        share = min(part.share, 1 - place)
        if share <= 0:
            break
        parts.append(_part(part, place, share, load, sight))
        place += share
    for kept in sight.kept:
        if load.card_id in kept.cards and place < 1:
            share = min(_kept_share(kept, load), 1 - place)
            session = sight.sessions.get(kept.session_id)
            if share > 0:
                parts.append(CardPart(place, share, "held", size=session.name if session else ""))
                place += share
    note = _("draining") if load.look == "draining" and place < 1 else ""
    return CardPicture(parts, look=load.look, mig=load.mig, node=load.node, index=load.index, note=note)


def _kept_share(kept: Kept, load: CardLoad) -> Fraction:
    if kept.is_whole:
        return Fraction(1)
    return max(Fraction(kept.vram_mib, load.vram_mib), Fraction(kept.milli, 1000))


def _part(part: Part, place: Fraction, share: Fraction, load: CardLoad, sight: Sight) -> CardPart:
    if part.session_id is None:
        return CardPart(place, share, "foreign")
    session = sight.sessions.get(part.session_id)
    if session is None:
        return CardPart(place, share, "other")
    look, owner = wording.state_look(session.state), owner_name(session)
    size = words.size_name(session.tier, session.cards) if session.tier else ""
    facts = {"session": session.name, "state": look.word, "share": wording.fraction(share)}
    # What the picture shows comes first, so that who says what he sees reaches it by voice.
    said = f"{owner} {size}".strip() + ": " + _("%(session)s, %(state)s, %(share)s of the card") % facts
    return CardPart(
        place,
        share,
        "session",
        name=owner,
        size=size,
        tone=tone_of(session.state),
        used=sight.used.get(part.run_id) if part.run_id is not None else None,
        href=f"?card={load.card_id}#card-{load.card_id}",
        title=said,
    )


def tone_of(state: str) -> str:
    """The tone in which a card bar paints a session of this state."""
    tone = wording.state_look(state).tone
    return tone if tone in {"running", "starting", "paused", "lost"} else "paused"


def owner_name(session: Session) -> str:
    """Whom a part of a card belongs to, as short as it can be said: the address before its @."""
    return session.owner.email.partition("@")[0]


def legend(loads: Iterable[CardLoad], sight: Sight) -> list[tuple[str, str]]:
    """The looks that occur, with their words."""
    shown = list(loads)
    parts = [part for load in shown for part in load.parts]
    tones = {
        tone_of(session.state) for part in parts if (session := sight.sessions.get(part.session_id or UUID(int=0)))
    }
    looks = {load.look for load in shown}
    words_of = {"running": _("running"), "starting": _("starting"), "paused": _("stopping"), "lost": _("lost")}
    keys = [(tone, word) for tone, word in words_of.items() if tone in tones]
    if any(part.session_id is not None and part.session_id not in sight.sessions for part in parts):
        keys.append(("other", _("in use by others")))
    if any(part.session_id is None for part in parts):
        keys.append(("foreign", _("foreign")))
    if sight.kept:
        keys.append(("held", _("held for the queue")))
    keys += [(look, word) for look, word in (("draining", _("draining")), ("silent", _("silent"))) if look in looks]
    keys.append(("free", _("free")))
    return [*keys, ("used", _("memory in use"))] if any(part.run_id in sight.used for part in parts) else keys


# Who and why ---------------------------------------------------------------------------------------------------------


def _row(part: Part, sight: Sight) -> dict[str, Any]:
    """A part as a row of the table behind the picture."""
    session = sight.sessions.get(part.session_id) if part.session_id else None
    who = _("foreign") if part.session_id is None else _("in use")
    return {
        "name": session.name if session else who,
        "url": reverse("admin_session", args=[session.pk]) if session else "",
        "owner": session.owner.email if session else "",
        "group": session.group.name if session else "",
        "state": session.state if session else "",
        "share": part.share,
    }


def _detail(load: CardLoad, sight: Sight) -> dict[str, Any]:
    """What the opened card says: each session in reach with its owner and why it is here; what stops the card."""
    inside = [session for part in load.parts if (session := sight.sessions.get(part.session_id or UUID(int=0)))]
    return {
        "sessions": [_who(session, sight.now) for session in inside],
        "notes": _notes(load, len(load.parts) - len(inside), sight),
        "uuid": load.uuid,
    }


def _who(session: Session, now: datetime) -> dict[str, Any]:
    since = wording.clock(session.state_since, now)
    why = [_("%(state)s since %(when)s") % {"state": wording.state_look(session.state).word, "when": since}]
    if session.reason:
        why.append(wording.reason_words(session.reason))
    if session.priority:
        why.append(_("priority %(n)d") % {"n": session.priority})
    if session.preemptible:
        why.append(_("preemptible"))
    return {
        "name": session.name,
        "url": reverse("admin_session", args=[session.pk]),
        "owner": session.owner.email,
        "place": f"{session.organisation.name}, {session.group.name}",
        "state": session.state,
        "size": words.size_name(session.tier, session.cards) if session.tier else _("own shape"),
        "why": ", ".join(why),
    }


def _notes(load: CardLoad, others: int, sight: Sight) -> list[str]:
    notes = []
    if not load.parts:
        notes.append(_("Nothing sits on this card."))
    if others:
        notes.append(
            ngettext("%(n)d part is in use by others.", "%(n)d parts are in use by others.", others) % {"n": others}
        )
    if load.look == "silent":
        notes.append(_("It is silent: nothing new lands here, and nothing on it is billed."))
    if load.recut is not None:
        notes.append(
            _("New mode of its node's cards: %(mode)s (%(state)s).")
            % {"mode": load.recut.target, "state": load.recut.state}
        )
    if load.look == "draining":
        notes.append(_("It drains: nothing new lands here."))
    for kept in sight.kept:
        if load.card_id in kept.cards:
            when = wording.clock(kept.ready_at, sight.now) if kept.ready_at else _("unknown")
            name = sight.sessions[kept.session_id].name if kept.session_id in sight.sessions else _("a waiting session")
            notes.append(_("It is held for %(name)s; expected free: %(when)s.") % {"name": name, "when": when})
    return notes
