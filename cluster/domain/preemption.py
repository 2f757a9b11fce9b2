"""Whom to ask to make room for a request: the fewest, and of those the ones that lose the least work. Pure.

Guarantees: the request fits once those chosen, and those who are ending already, have gone (the fleet itself is asked); no
smaller choice would do; of equal ones the one whose sessions have run the shortest together wins, then what is kept for the
request already, then the first name. What is kept for others stays theirs. Counts beyond `LOOKS` steps are found greedily
(nobody who could be spared is chosen then either): only sessions of many different shapes on one card need as many.
Refuses to choose anybody where the request would not fit all the same. Whether somebody may be asked at all is the caller's to
say (`sessions_app.domain.preemption`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate, combinations
from typing import NamedTuple
from uuid import UUID

from cluster.domain.earmarks import Holding, Room
from cluster.domain.fleet import MICRO_PER_PERCENT, Card, Node, micro_of_milli
from cluster.domain.placement import Fleet
from cluster.domain.requests import Ask, Placement, Request

LOOKS = 20_000
_Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Victim:
    """Somebody who may be asked: what he holds, how long he has run, whether he was chosen before and not asked yet."""

    holding: Holding
    ran: timedelta
    chosen: bool = False

    @property
    def session(self) -> UUID:
        """Whose it is."""
        assert self.holding.session is not None
        return self.holding.session


@dataclass(frozen=True, slots=True)
class Choice:
    """The place that is made, whom to ask for it (the youngest first), and who gives back of its cards anyway."""

    node: str
    cards: tuple[str, ...]
    victims: tuple[Victim, ...]
    going: tuple[Holding, ...]


class _Loss(NamedTuple):
    """What a choice costs, in the order of what weighs most."""

    many: int = 0
    new: int = 0  # who was chosen before and not asked yet comes first among equals
    ran: timedelta = timedelta(0)

    @classmethod
    def of(cls, victims: Iterable[Victim]) -> _Loss:
        known = list(victims)
        return cls(
            len(known), sum(not victim.chosen for victim in known), sum((v.ran for v in known), start=timedelta(0))
        )


def choose(
    request: Request,
    nodes: Iterable[Node],
    *,
    going: Mapping[str, Sequence[Holding]],
    victims: Mapping[str, Sequence[Victim]],
    kept: tuple[str, ...] = (),
) -> Choice | None:
    """The best choice over all nodes; without victims where there is room, or those who are ending make enough; None where nobody
    could.

    `nodes` carry what is used now, kept parts of others included and the request's own left out; `going` and `victims` are by
    node; `kept` are the cards that are kept for the request already.
    """
    best: tuple[_Loss, bool, str, tuple[str, ...]] | None = None
    found: Choice | None = None
    known = {node.name: node for node in nodes}
    steps = _Steps()
    for name, node in sorted(known.items()):
        if not _may_use(node, request.ask):
            continue
        room = Room(node)
        for holding in going.get(name, ()):
            room.give_back(holding)
        for cards, asked in _on(node, room, request.ask, victims.get(name, ()), steps, best[0].many if best else None):
            rank = (_Loss.of(asked), set(cards) != set(kept), name, cards)
            if best is None or rank < best:
                ending = tuple(holding for holding in going.get(name, ()) if set(holding.cards) & set(cards))
                best, found = rank, Choice(name, cards, _youngest_first(asked), ending)
    if found is None or not _fits(request, known[found.node], [*going.get(found.node, ()), *_held(found.victims)]):
        return None
    return found


def without(node: Node, holdings: Iterable[Holding]) -> Node:
    """The node once these have given everything back."""
    for holding in holdings:
        shares = dict(zip(holding.cards, zip(holding.vram_mib, holding.milli, strict=True), strict=True))
        node = replace(
            node,
            used_cpu_milli=node.used_cpu_milli - holding.cpu_milli,
            used_memory_mib=node.used_memory_mib - holding.memory_mib,
            used_scratch_gib=node.used_scratch_gib - holding.scratch_gib,
            cards=tuple(_less(card, *shares[card.uuid]) if card.uuid in shares else card for card in node.cards),
        )
    return node


def _less(card: Card, vram_mib: int, milli: int) -> Card:
    return replace(
        card,
        used_vram_mib=card.used_vram_mib - vram_mib,
        used_milli=card.used_milli - milli,
        used_slots=card.used_slots - 1,
    )


def _fits(request: Request, node: Node, gone: Iterable[Holding]) -> bool:
    return isinstance(Fleet([without(node, gone)]).look(request), Placement)


def _held(victims: Iterable[Victim]) -> list[Holding]:
    return [victim.holding for victim in victims]


def _youngest_first(victims: Iterable[Victim]) -> tuple[Victim, ...]:
    return tuple(sorted(victims, key=lambda victim: (victim.ran, victim.session)))


def _may_use(node: Node, ask: Ask) -> bool:
    if not node.ready or node.cordoned or (ask.nodes is not None and node.name not in ask.nodes):
        return False
    return ask.pools is None or node.pool in ask.pools


def _usable(card: Card, ask: Ask) -> bool:
    return card.open and (ask.models is None or card.model in ask.models)


# One node ------------------------------------------------------------------------------------------------------------


class _Steps:
    """How many looks are left for counts that are exact."""

    def __init__(self) -> None:
        self.left = LOOKS

    def take(self) -> bool:
        """Whether there was one left."""
        self.left -= 1
        return self.left >= 0


def _on(
    node: Node, room: Room, ask: Ask, victims: Sequence[Victim], steps: _Steps, most: int | None
) -> Iterator[tuple[tuple[str, ...], tuple[Victim, ...]]]:
    """The places that this node could make, each with the best choice of whom to ask for it."""
    usable = [card for card in node.cards if _usable(card, ask)]
    useful = [victim for victim in victims if set(victim.holding.cards) & {card.uuid for card in usable}]
    short = {card.uuid: _short(card, room, ask) for card in usable}
    host = (ask.cpu_milli - room.cpu, ask.memory_mib - room.memory, ask.scratch_gib - room.scratch)
    possible = [card for card in usable if _covered(short[card.uuid], [_of_card(v, card.uuid) for v in useful])]
    # Cards that need the fewest to go come first: they bound what is looked at after them.
    possible.sort(key=lambda card: (max(0, short[card.uuid][2]), card.uuid))
    for cards in combinations(possible, ask.cards):
        if not steps.take() and most is not None:
            return
        uuids = tuple(card.uuid for card in cards)
        deficits = (*host, *(amount for uuid in uuids for amount in short[uuid]))
        asked = _fewest(deficits, [(victim, _gives(victim, uuids)) for victim in useful], steps, most)
        if asked is not None:
            most = len(asked) if most is None else min(most, len(asked))
            yield tuple(sorted(uuids)), asked


def _short(card: Card, room: Room, ask: Ask) -> _Amounts:
    """MiB, millionths and slots that a card lacks; below zero where it has more than enough."""
    vram, core, slots = room.left_of(card.uuid)
    if ask.whole:
        return card.vram_mib - vram, card.core_percent * MICRO_PER_PERCENT - core, card.slots - slots
    return ask.vram_mib - vram, ask.core_micro - core, 1 - slots


def _of_card(victim: Victim, uuid: str) -> _Amounts:
    holding = victim.holding
    if uuid not in holding.cards:
        return (0, 0, 0)
    at = holding.cards.index(uuid)
    return holding.vram_mib[at], micro_of_milli(holding.milli[at]), 1


def _gives(victim: Victim, uuids: Iterable[str]) -> _Amounts:
    holding = victim.holding
    host = (holding.cpu_milli, holding.memory_mib, holding.scratch_gib)
    return (*host, *(amount for uuid in uuids for amount in _of_card(victim, uuid)))


def _covered(deficits: _Amounts, gifts: Sequence[_Amounts]) -> bool:
    return all(sum(gift[at] for gift in gifts) >= short for at, short in enumerate(deficits) if short > 0)


# The fewest ----------------------------------------------------------------------------------------------------------


def _fewest(
    deficits: _Amounts, offers: Sequence[tuple[Victim, _Amounts]], steps: _Steps, most: int | None
) -> tuple[Victim, ...] | None:
    """The fewest that cover every deficit, at most `most`; None when there are no such."""
    at = [index for index, short in enumerate(deficits) if short > 0]
    needed = tuple(deficits[index] for index in at)
    useful = [(victim, tuple(min(gift[index], deficits[index]) for index in at)) for victim, gift in offers]
    useful = [(victim, gift) for victim, gift in useful if any(gift)]
    if not needed:
        return ()
    gifts = [gift for _victim, gift in useful]
    if not _covered(needed, gifts):
        return None
    search = _Search(_alike(useful), steps)
    for many in range(_at_least(needed, gifts), min(len(useful), len(useful) if most is None else most) + 1):
        search.go(needed, many)
        if search.best is not None:
            return search.best
        if search.is_out:
            return _greedy(needed, useful)
    return None


def _at_least(needed: _Amounts, gifts: Sequence[_Amounts]) -> int:
    """How many it takes at least: of each amount the largest gifts first."""
    bounds = []
    for at, short in enumerate(needed):
        sums = accumulate(sorted((gift[at] for gift in gifts), reverse=True))
        bounds.append(next(number for number, total in enumerate(sums, start=1) if total >= short))
    return max(bounds)


def _alike(offers: Sequence[tuple[Victim, _Amounts]]) -> list[tuple[_Amounts, list[Victim]]]:
    """Those who give the same, in the order in which they are asked: only how many of them matters."""
    alike: dict[_Amounts, list[Victim]] = defaultdict(list)
    for victim, gift in offers:
        alike[gift].append(victim)
    return [
        (gift, sorted(alike[gift], key=lambda victim: (not victim.chosen, victim.ran, victim.session)))
        for gift in sorted(alike, reverse=True)
    ]


@dataclass
class _Search:
    """How many of each kind, tried through; bounded by what the kinds that are left could give at most."""

    kinds: list[tuple[_Amounts, list[Victim]]]
    steps: _Steps
    best: tuple[Victim, ...] | None = None
    is_out: bool = False
    _tops: list[_Amounts] = field(init=False)

    def __post_init__(self) -> None:
        backwards = accumulate(
            (gift for gift, _ in reversed(self.kinds)),
            lambda top, gift: tuple(max(a, b) for a, b in zip(top, gift, strict=True)),
        )
        self._tops = list(backwards)[::-1]

    def go(self, needed: _Amounts, many: int, at: int = 0, taken: tuple[Victim, ...] = ()) -> None:
        """Try every way to take `many` more of the kinds from `at` on."""
        if all(short <= 0 for short in needed):
            if self.best is None or _order(taken) < _order(self.best):
                self.best = taken
            return
        if at == len(self.kinds) or not many or self.is_out:
            return
        if any(short > many * top for short, top in zip(needed, self._tops[at], strict=True)):
            return
        if not self.steps.take():
            self.is_out = True
            return
        gift, victims = self.kinds[at]
        for number in range(min(many, len(victims)), -1, -1):
            left = tuple(short - number * amount for short, amount in zip(needed, gift, strict=True))
            self.go(left, many - number, at + 1, (*taken, *victims[:number]))


def _order(victims: tuple[Victim, ...]) -> tuple[_Loss, list[UUID]]:
    return _Loss.of(victims), sorted(victim.session for victim in victims)


def _greedy(needed: _Amounts, offers: Sequence[tuple[Victim, _Amounts]]) -> tuple[Victim, ...]:
    """Who gives most of what is needed first; then whoever can be spared is, the oldest first."""
    taken: list[tuple[Victim, _Amounts]] = []
    left, rest = needed, list(offers)
    while any(short > 0 for short in left):
        best = max(rest, key=lambda offer: (_worth(offer[1], left), -offer[0].ran, offer[0].session.int))
        rest.remove(best)
        taken.append(best)
        left = tuple(short - gift for short, gift in zip(left, best[1], strict=True))
    for offer in sorted(taken, key=lambda offer: offer[0].ran, reverse=True):
        others = [gift for victim, gift in taken if victim is not offer[0]]
        if _covered(needed, others):
            taken.remove(offer)
    return tuple(victim for victim, _gift in taken)


def _worth(gift: _Amounts, left: _Amounts) -> float:
    return sum(min(amount, short) / short for amount, short in zip(gift, left, strict=True) if short > 0)
