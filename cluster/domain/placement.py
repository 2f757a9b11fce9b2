"""The placement engine: which node and cards a request gets, or why it gets none.

Guarantees: `place` only looks; an answer fits (VRAM, cores, slots, CPU, memory, scratch, pool, model) and what fits is
never refused; the same fleet and the same question give the same answer in every process: ties go to the better score,
then the node's name, then the card's index. `claim` and `release` cost O(cards) and refuse what would over-commit or
give back twice. Refuses to be a source of truth: a process that follows rows writes their figures with `update_node`
and `update_card`, which win over anything claimed here.

Ratings are kept per kind of request and brought up to date from the fleet's change log, so that a decision costs a few
changed rows and one minimum. The kept kinds are bounded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from cluster.domain.fleet import Card, Node
from cluster.domain.fragmentation import LeastFragmentation
from cluster.domain.policies import NOWHERE, BestFit, Choice, Policy, Rows, Spread
from cluster.domain.requests import Ask, Missing, NoPlace, Placement, Request
from cluster.domain.shortage import eligible_cards, eligible_hosts, why_not
from cluster.domain.stock import Flags, Stock, Take

__all__ = ["Card", "Fleet", "Missing", "NoPlace", "Node", "NotClaimedError", "Placement", "Request", "StaleError"]

_KINDS_KEPT = 256
_KEYS_KEPT = 65_536
POLICIES: dict[str, type[Policy]] = {
    "best_fit": BestFit,
    "spread": Spread,
    "least_fragmentation": LeastFragmentation,
}


class StaleError(Exception):
    """The fleet has changed since the placement was found: it does not fit any more. Place again."""


class NotClaimedError(Exception):
    """What should be released is not claimed here (already released, or overwritten by an update)."""


class _View:
    """Ratings of every node for one kind of request, followed along the change log."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._topology = self._version = self._mark = -1
        self._eligible: Flags
        self._hosts: Flags
        self._choices: list[Choice] = []
        self._why: tuple[int, int, NoPlace] | None = None

    def why_not(self, stock: Stock) -> NoPlace:
        """Why it fits nowhere; told again without counting while nothing has changed."""
        if self._why is None or self._why[:2] != (stock.topology, stock.mark):
            self._why = (stock.topology, stock.mark, why_not(stock, self._ask))
        return self._why[2]

    def best(self, stock: Stock, policy: Policy) -> tuple[int, tuple[int, ...]] | None:
        """The best row and its columns, None when the request fits nowhere."""
        self._follow(stock, policy)
        if not stock.names:
            return None
        ratings, second = self._choices[0].ratings, None
        if len(self._choices) > 1:
            charged = self._choices[1].ratings
            surcharge = policy.surcharge(stock, self._ask)
            if surcharge is not None:
                charged = charged + surcharge
            second = charged < ratings
            ratings = np.minimum(ratings, charged)
        row = int(ratings.argmin())
        if ratings[row] >= NOWHERE:
            return None
        choice = self._choices[1 if second is not None and second[row] else 0]
        return row, tuple(choice.columns[row].tolist())

    def _follow(self, stock: Stock, policy: Policy) -> None:
        policy.prepare(stock)
        changed = stock.changed_since(self._mark)
        if self._topology != stock.topology:
            self._eligible = eligible_cards(stock, self._ask) & stock.open
            self._hosts = eligible_hosts(stock, self._ask) & stock.host_open
            changed = None
        if changed is None or self._version != policy.version or len(changed) * 4 > len(stock.names):
            self._choices = self._rate(stock, policy, slice(None))
        elif changed:
            rows = np.array(changed, np.int64)
            for kept, fresh in zip(self._choices, self._rate(stock, policy, rows), strict=True):
                kept.ratings[rows], kept.columns[rows] = fresh
        self._topology, self._version, self._mark = stock.topology, policy.version, stock.mark

    def _rate(self, stock: Stock, policy: Policy, rows: Rows) -> list[Choice]:
        ask = self._ask
        fits = self._eligible[rows]
        if ask.whole:
            fits = fits & stock.idle[rows]
        elif ask.cards:
            fits = fits & (stock.vram_left[rows] >= ask.vram_mib) & (stock.core_left[rows] >= ask.core_micro)
            fits &= stock.slots_left[rows] > 0
        room = self._hosts[rows] & (stock.cpu_left[rows] >= ask.cpu_milli)
        room &= (stock.memory_left[rows] >= ask.memory_mib) & (stock.scratch_left[rows] >= ask.scratch_gib)
        if ask.cards:
            room &= np.count_nonzero(fits, axis=1) >= ask.cards
        choices = policy.rate(stock, rows, ask, fits)
        return [Choice(np.where(room, choice.ratings, NOWHERE), choice.columns) for choice in choices]


class Fleet:
    """Nodes and cards with what is taken of them, and a policy that chooses among them.

    `nodes` are `Node`s, mappings, or objects with such attributes. Raises ValueError for an unknown policy, for two
    nodes of one name and for a card listed twice. A policy that learns rebuilds its tables (some 10 ms, now and then) while
    claiming or releasing; with `tunes_itself` false only when `tune` is called.
    """

    def __init__(
        self,
        nodes: Iterable[Any] = (),
        policy: str | Policy = "least_fragmentation",
        *,
        tunes_itself: bool = True,
    ) -> None:
        if isinstance(policy, str):
            if policy not in POLICIES:
                raise ValueError(f"unknown placement policy {policy!r}: choose one of {', '.join(sorted(POLICIES))}")
            policy = POLICIES[policy]()
        self._stock = Stock(nodes)
        self._policy = policy
        self._tunes_itself = tunes_itself
        self._views: OrderedDict[Ask, _View] = OrderedDict()
        self._claims: dict[str, Counter[Placement]] = {}
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    # -- looking ------------------------------------------------------------------------------------------------------

    def place(self, request: Request) -> Placement | NoPlace:
        """Where the request would go now. Takes nothing; a policy that learns notes that it was asked."""
        self.note(request)
        return self.look(request)

    def look(self, request: Request) -> Placement | NoPlace:
        """Like `place`, for previews: not even noted as demand."""
        found = self.find(request)
        return found if found is not None else self._view(request.ask).why_not(self._stock)

    def find(self, request: Request) -> Placement | None:
        """The same for who does not ask why not, which costs more than the answer."""
        found = self._view(request.ask).best(self._stock, self._policy)
        if found is None:
            return None
        row, columns = found
        cards = tuple(self._stock.card(row, column).uuid for column in columns)
        return Placement(self._stock.names[row], cards, request)

    def sibling(self, nodes: Iterable[Any]) -> Fleet:
        """A fleet of other nodes (what if …) that rates as this one does at this moment, and learns for itself."""
        return Fleet(nodes, self._policy.copy(), tunes_itself=self._tunes_itself)

    def nodes(self) -> tuple[Node, ...]:
        """Every node with the figures of this moment, by name: a fleet built from them behaves the same."""
        return self._stock.snapshot()

    def node(self, name: str) -> Node:
        """One node with the figures of this moment. Raises KeyError when there is none of that name."""
        return self._stock.node(self._stock.row_of[name])

    def _view(self, ask: Ask) -> _View:
        view = self._views.get(ask)
        if view is None:
            view = self._views[ask] = _View(ask)
            if len(self._views) > _KINDS_KEPT:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(ask)
        return view

    def note(self, request: Request) -> None:
        """A policy that learns hears that this was asked for."""
        if request.key is not None:
            if request.key in self._seen:
                return
            self._seen[request.key] = None
            if len(self._seen) > _KEYS_KEPT:
                self._seen.popitem(last=False)
        self._policy.saw(request.ask)

    # -- taking and giving back ---------------------------------------------------------------------------------------

    def claim(self, placement: Placement) -> None:
        """Take what the placement needs. Raises StaleError, changing nothing, when it does not fit (any more)."""
        row, take = self._take(placement)
        if not self._stock.fits(row, take) or (
            placement.request.ask.whole and not all(self._stock.idle[row, column] for column in take.columns)
        ):
            raise StaleError(f"{placement.node} has no room for it any more")
        self._stock.move(row, take, 1)
        self._claims.setdefault(placement.node, Counter())[placement] += 1
        self._moved(came=1)

    def release(self, placement: Placement) -> None:
        """Give back what a claim took. Raises NotClaimedError, changing nothing, when it is not claimed here."""
        claims = self._claims.get(placement.node, Counter())
        if not claims[placement]:
            raise NotClaimedError(f"{placement.node}: nothing like it is claimed")
        row, take = self._take(placement)
        if not self._stock.covers(row, take):
            raise NotClaimedError(f"{placement.node}: less than that is taken")
        self._stock.move(row, take, -1)
        claims[placement] -= 1
        if not claims[placement]:
            del claims[placement]
        self._moved(left=1)

    @contextmanager
    def supposing(self) -> Iterator[Callable[[Placement], bool]]:
        """Inside the block, what is supposed to be taken counts as used; afterwards it does not, and no policy learns of it.

        The block gets a function that supposes one placement and answers whether it fitted.
        """
        taken: list[tuple[int, Take]] = []

        def suppose(placement: Placement) -> bool:
            row, take = self._take(placement)
            if not self._stock.fits(row, take):
                return False
            self._stock.move(row, take, 1)
            taken.append((row, take))
            return True

        try:
            yield suppose
        finally:
            for row, take in reversed(taken):
                self._stock.move(row, take, -1)

    def tune(self) -> None:
        """Take in what was seen since the last time, if it is enough to matter; answers may change."""
        self._policy.tune(self._stock)

    def _moved(self, *, came: int = 0, left: int = 0) -> None:
        self._policy.moved(came=came, left=left)
        if self._tunes_itself:
            self.tune()

    def _take(self, placement: Placement) -> tuple[int, Take]:
        stock, ask = self._stock, placement.request.ask
        try:
            row = stock.row_of[placement.node]
            columns = tuple(stock.column_of(row, uuid) for uuid in placement.cards)
        except KeyError as gone:
            raise StaleError(f"the fleet no longer has it: {gone}") from gone
        if ask.whole:
            vram = tuple(int(stock.vram_total[row, column]) for column in columns)
            core = tuple(int(stock.core_total[row, column]) for column in columns)
        else:
            vram, core = (ask.vram_mib,) * len(columns), (ask.core_micro,) * len(columns)
        return row, Take(ask.cpu_milli, ask.memory_mib, ask.scratch_gib, columns, vram, core)

    # -- following rows -----------------------------------------------------------------------------------------------

    def update_node(self, node: Any) -> None:
        """Add a node, or replace everything known of it; what was claimed on it here is forgotten."""
        node = Node.of(node)
        self._claims.pop(node.name, None)
        self._put(node)

    def update_card(self, node_name: str, card: Any) -> None:
        """Add a card to a node, or replace everything known of it; claims on it made here are forgotten.

        Raises KeyError when there is no such node.
        """
        card, node = Card.of(card), self.node(node_name)
        others = [known for known in node.cards if known.uuid != card.uuid]
        known_at = [at for at, known in enumerate(node.cards) if known.uuid == card.uuid]
        others.insert(known_at[0] if known_at else len(others), card)
        claims = self._claims.get(node_name, Counter())
        for placement in [claimed for claimed in claims if card.uuid in claimed.cards]:
            del claims[placement]
        self._put(replace(node, cards=tuple(others)))

    def _put(self, node: Node) -> None:
        """Write a node's figures; slots that were taken or freed meanwhile count as coming and going."""
        taken = -self._slots_taken(node.name)
        self._stock.put(node)
        taken += self._slots_taken(node.name)
        self._moved(came=max(taken, 0), left=max(-taken, 0))

    def _slots_taken(self, name: str) -> int:
        row = self._stock.row_of.get(name)
        return 0 if row is None else int((self._stock.slots_total[row] - self._stock.slots_left[row]).sum())

    def remove_node(self, name: str) -> None:
        """Forget a node and what was claimed on it. Raises KeyError when there is none of that name."""
        self._stock.remove(name)
        self._claims.pop(name, None)
