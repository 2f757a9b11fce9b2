"""The rules of money as one would do them on paper: dictionaries, whole numbers, one thing after another.

It shares no code with `billing`; every rule is written the way the documents say it. What is refused raises `RefusedError`
and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tests.properties.money_parts import Clockwork, Limit, Purse, month_starts


class RefusedError(Exception):
    """The documents say no, with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Paper:
    """All of it. `names`: the group of each seat is told by `seats`, who is active by `active`."""

    system: UUID
    above: dict[UUID, UUID]  # a group's wallet → its organisation's
    organisation: UUID
    purses: dict[UUID, Purse]
    seats: set[tuple[UUID, UUID]]  # (person's wallet, group's wallet)
    active: set[UUID]
    minted: int = 0
    earned: int = 0
    net: dict[tuple[UUID, UUID], int] = field(default_factory=dict)
    grants: dict[tuple[UUID, UUID], tuple[int, int]] = field(default_factory=dict)  # amount, first month
    refills: dict[tuple[UUID, UUID, int], tuple[int, int]] = field(default_factory=dict)
    asks: dict[UUID, tuple[UUID, UUID, int, str]] = field(default_factory=dict)
    limits: dict[UUID, Limit] = field(default_factory=dict)
    meters: dict[UUID, Clockwork] = field(default_factory=dict)
    postings: list[tuple[tuple[UUID, ...], int, int]] = field(default_factory=list)
    alerts: set[tuple[UUID, int, int]] = field(default_factory=set)
    _touched: set[tuple[UUID, int]] = field(default_factory=set)

    # Credits ---------------------------------------------------------------------------------------------------------

    def fiat(self, wallet: UUID, amount: int) -> None:
        """Issue or adjust."""
        purse = self.purses[wallet]
        if amount < 0 and purse.free < -amount:
            raise RefusedError("insufficient_pool")
        purse.balance += amount
        purse.entries += 1
        self.minted += amount

    def allocate(self, parent: UUID, child: UUID, amount: int) -> None:
        self._neighbours(parent, child)
        if not self._entitled(parent, child):
            raise RefusedError("invalid")
        if self.purses[parent].free < amount:
            raise RefusedError("insufficient_pool")
        self._move(parent, child, amount)
        self.net[child, parent] = self.net.get((child, parent), 0) + amount

    def reclaim(self, parent: UUID, child: UUID, amount: int) -> None:
        self._neighbours(parent, child)
        if min(self.purses[child].free, self.net.get((child, parent), 0)) < amount:
            raise RefusedError("insufficient_pool")
        self._move(child, parent, amount)
        self.net[child, parent] -= amount

    def bulk(self, parent: UUID, children: list[UUID], amount: int) -> None:
        """All or none."""
        for child in children:
            self._neighbours(parent, child)
        bad = [child for child in children if not self._entitled(parent, child)]
        room = self.purses[parent].free
        for child in children:
            if child in bad:
                raise RefusedError("invalid")
            if room < amount:
                raise RefusedError("insufficient_pool")
            room -= amount
        for child in children:
            self.allocate(parent, child, amount)

    def leave(self, child: UUID, only: UUID | None) -> None:
        """What groups in which he has no place any more gave him goes back, by what each gave."""
        lost = [parent for parent in self.above if only in (None, parent) and not self._entitled(parent, child)]
        for key, (wallet, parent, amount, state) in self.asks.items():
            if wallet == child and parent in lost and state == "open":
                self.asks[key] = (wallet, parent, amount, "withdrawn")
        gave = [(key, net) for key, net in self.net.items() if key[0] == child and key[1] in lost and net > 0]
        total, reached, before = sum(net for _key, net in gave), 0, 0
        back = min(total, self.purses[child].free)
        for key, net in gave:
            reached += net
            upto = back * reached // total
            if upto > before:
                self.reclaim(key[1], child, upto - before)
            before = upto
        for parent in lost:
            self.grants.pop((child, parent), None)

    def _move(self, debit: UUID, credit: UUID, amount: int) -> None:
        for wallet, change in ((debit, -amount), (credit, amount)):
            self.purses[wallet].balance += change
            self.purses[wallet].entries += 1

    def _neighbours(self, parent: UUID, child: UUID) -> None:
        people = self.purses.keys() - self.above.keys() - {self.system, self.organisation}
        ok = (parent == self.system and child == self.organisation) or self.above.get(child) == parent
        if not ok and not (parent in self.above and child in people):
            raise RefusedError("invalid")

    def _entitled(self, parent: UUID, child: UUID) -> bool:
        return parent not in self.above or (child in self.active and (child, parent) in self.seats)

    # Grants and requests ---------------------------------------------------------------------------------------------

    def grant(self, parent: UUID, child: UUID, amount: int, month: int) -> None:
        """`month`: the number of the present one."""
        self._neighbours(parent, child)
        if amount and not self._entitled(parent, child):
            raise RefusedError("invalid")
        before, since = self.grants.get((child, parent), (0, month + 1))
        if amount == before:
            return
        if amount > before and parent != self.system and self._given(parent) + amount - before > self._gets(parent):
            raise RefusedError("grant_exceeds_parent")
        if amount < before and self._given(child) > self._gets(child) + amount - before:
            raise RefusedError("grant_exceeds_parent")
        if amount:
            self.grants[child, parent] = (amount, since)
        else:
            del self.grants[child, parent]

    def _gets(self, wallet: UUID) -> int:
        return sum(amount for (child, _parent), (amount, _since) in self.grants.items() if child == wallet)

    def _given(self, wallet: UUID) -> int:
        return sum(amount for (_child, parent), (amount, _since) in self.grants.items() if parent == wallet)

    def refill(self, month: int) -> None:
        """The start of a month, top-down, each wallet once."""
        people = self.purses.keys() - self.above.keys() - {self.system, self.organisation}
        for level in ([self.organisation], sorted(self.above), sorted(people)):
            for child in level:
                self._refill_one(child, month)

    def _refill_one(self, child: UUID, month: int) -> None:
        due = [
            (parent, amount)
            for (wallet, parent), (amount, since) in self.grants.items()
            if wallet == child and since <= month and (child, parent, month) not in self.refills
        ]
        weights = [amount if self._entitled(parent, child) else 0 for parent, amount in due]
        total, reached, before = sum(weights), 0, 0
        lack = max(0, total - self.purses[child].balance)
        for (parent, _amount), weight in zip(due, weights, strict=True):
            reached += weight
            upto = lack * reached // total if total else 0
            part = min(upto - before, self.purses[parent].free)
            if part:
                self.allocate(parent, child, part)
            self.refills[child, parent, month] = (part, upto - before - part)
            before = upto

    def ask(self, key: UUID, parent: UUID, child: UUID, amount: int) -> None:
        self._neighbours(parent, child)
        if not self._entitled(parent, child):
            raise RefusedError("forbidden")
        if any(ask[:2] == (child, parent) and ask[3] == "open" for ask in self.asks.values()):
            raise RefusedError("conflict")
        self.asks[key] = (child, parent, amount, "open")

    def decide(self, key: UUID, verdict: str) -> None:
        child, parent, amount, state = self.asks[key]
        if verdict == "approved" and not self._entitled(parent, child):
            raise RefusedError("invalid")
        if state != "open":
            raise RefusedError("already_decided")
        if verdict == "approved":
            self.allocate(parent, child, amount)
        self.asks[key] = (child, parent, amount, verdict)

    # Budgets ---------------------------------------------------------------------------------------------------------

    def budget(self, key: UUID, whose: UUID, amount: int, *, blocks: bool, zone: str) -> None:
        self.limits[key] = Limit(whose, amount, blocks, month_starts(zone))

    def spent(self, limit: Limit, at: int) -> int:
        """What the charges that begin in this month come to, whenever the budget was made."""
        start, end = limit.start_at(at), limit.next_after(at)
        return sum(amount for scopes, begun, amount in self.postings if limit.whose in scopes and start <= begun < end)

    def _left(self, limit: Limit, at: int) -> int:
        return max(0, limit.limit - self.spent(limit, at) - limit.held)

    def _counting(self, scopes: tuple[UUID, ...]) -> dict[UUID, Limit]:
        return {key: limit for key, limit in self.limits.items() if limit.active and limit.whose in scopes}

    def _room(self, meter: Clockwork, at: int) -> tuple[int, str]:
        free = self.purses[meter.wallet].free
        limits = self._counting(meter.scopes).values()
        least = min((self._left(limit, at) for limit in limits if limit.blocks), default=free)
        return (least, "budget_exhausted") if least < free else (free, "credit_exhausted")

    def _join(self, meter: Clockwork) -> None:
        now = set(self._counting(meter.scopes))
        for key in now - meter.counted:
            self.limits[key].held += meter.held
        for key in meter.counted - now:
            self.limits[key].held -= meter.held
        meter.counted = now

    def _hold(self, meter: Clockwork, amount: int) -> None:
        self.purses[meter.wallet].held += amount
        meter.held += amount
        for key in meter.counted:
            self.limits[key].held += amount

    # Meters ----------------------------------------------------------------------------------------------------------

    def open(self, run: UUID, meter: Clockwork, at: int) -> None:
        self._check_room(meter, at)
        self._join(meter)
        self._hold(meter, meter.target)
        self.meters[run] = meter

    def _check_room(self, meter: Clockwork, at: int) -> None:
        limits = self._counting(meter.scopes).values()
        if any(limit.blocks and self._left(limit, at) < meter.target for limit in limits):
            raise RefusedError("budget_exceeded")
        if self.purses[meter.wallet].free < meter.target:
            raise RefusedError("insufficient_credit")

    def ready(self, run: UUID, ready_at: int, at: int) -> None:
        meter = self.meters[run]
        start = max(meter.billable_from, min(ready_at, at))
        if meter.settled or meter.suspended or meter.start is not None:
            return
        if meter.end is not None and start >= meter.end:
            return
        meter.start = meter.until = start
        meter.proven = max(start, meter.proven or start)
        meter.schedule(list(self._counting(meter.scopes).values()))

    def prove(self, run: UUID, seen: int, at: int) -> None:
        meter = self.meters[run]
        meter.proven = max(min(seen, at), meter.proven or 0)

    def ask_end(self, run: UUID, at: int) -> None:
        meter = self.meters[run]
        if not meter.settled and meter.end is None:
            meter.end = max(at, meter.until) if meter.start is not None else at
            meter.due = None

    def settle(self, run: UUID, seen: int, at: int) -> None:
        meter = self.meters[run]
        if meter.settled:
            return
        self.prove(run, seen, at)
        self._close(meter, at)
        self._release(meter)
        meter.settled, meter.due = True, None

    def suspend(self, run: UUID, at: int) -> None:
        meter = self.meters[run]
        if meter.settled or meter.suspended:
            return
        self._close(meter, at)
        self._release(meter)
        meter.suspended, meter.due, meter.end = True, None, None

    def reopen(self, run: UUID, at: int) -> None:
        meter = self.meters[run]
        if meter.settled or not meter.suspended:
            return
        self._check_room(meter, at)
        meter.suspended = False
        meter.billable_from = max(at, meter.billable_from, meter.last_end or at)
        self._join(meter)
        self._hold(meter, meter.target)

    def carry(self, run: UUID, to: UUID, at: int) -> bool:
        """A restart: the next run has what is left of the hold."""
        old = self.meters[run]
        if old.settled:
            return False
        self._close(old, at)
        key = (*old.key[:2], to)
        new = Clockwork(old.wallet, old.scopes, old.num, old.den, old.target, at, key, held=old.held)
        new.counted, old.counted, old.held, old.settled, old.due = old.counted, set(), 0, True, None
        self.meters[to] = new
        return True

    def tick(self, at: int) -> None:
        """Whoever is due, the oldest session of a wallet first."""
        for meter in sorted(self.meters.values(), key=lambda one: one.key):
            if meter.start is not None and meter.end is None and meter.due is not None and meter.due <= at:
                self._look_after(meter, at)

    def _look_after(self, meter: Clockwork, at: int) -> None:
        filled = 0
        if meter.is_low(at):
            wanted = meter.target - meter.left(at)
            self._join(meter)
            room, reason = self._room(meter, at)
            filled = min(wanted, room)
            self._hold(meter, filled)
            meter.short = "" if filled == wanted else reason
        limits = list(self._counting(meter.scopes).values())
        until = max(meter.until, min(at, meter.proven or at, meter.hold_end()))
        if not filled:
            edges = [edge for limit in limits for edge in limit.starts if meter.until < edge < until]
            until = max(edges, default=meter.until)
        self._charge(meter, until)
        meter.schedule(limits)
        meter.exhausted = meter.hold_end() <= at and bool(meter.short)

    def _charge(self, meter: Clockwork, until: int) -> None:
        if until <= meter.until:
            return
        limits = self._counting(meter.scopes)
        edges = {edge for limit in limits.values() for edge in limit.starts if meter.until < edge < until}
        for edge in sorted(edges | {until}):
            amount = meter.cost(edge) - meter.charged
            if amount:
                self.postings.append((meter.scopes, meter.until, amount))
                self.purses[meter.wallet].balance -= amount
                self.purses[meter.wallet].entries += 1
                self.earned += amount
                self._touched |= {(key, limit.start_at(meter.until)) for key, limit in limits.items()}
            self._hold(meter, -amount)
            meter.charged += amount
            meter.until = edge

    def _close(self, meter: Clockwork, at: int) -> None:
        if meter.start is None:
            return
        end = at if meter.end is None else min(at, meter.end)
        end = max(meter.until, min(end, meter.proven if meter.proven is not None else meter.start))
        needs = -(-meter.num * (meter.closed + end - meter.start) // meter.den)
        if needs > meter.charged + meter.held and not meter.exhausted:
            self._join(meter)
            self._hold(meter, min(needs - meter.charged - meter.held, self._room(meter, at)[0]))
        paid = max(meter.until, min(end, meter.hold_end()))
        meter.not_billed += meter.cost(end) - meter.cost(paid)
        self._charge(meter, paid)
        meter.closed, meter.last_end = meter.closed + paid - meter.start, paid
        meter.start, meter.short, meter.exhausted = None, "", False

    def _release(self, meter: Clockwork) -> None:
        self._hold(meter, -meter.held)
        meter.counted = set()

    def end_of_act(self) -> None:
        """What was charged in one transaction is looked at once for thresholds."""
        for key, start in self._touched:
            limit = self.limits[key]
            for percent in (50, 80, 100):
                if self.spent(limit, start) * 100 >= limit.limit * percent:
                    self.alerts.add((key, start, percent))
        self._touched.clear()
