"""Credits of one parent to or from many of its children at once: all of it or nothing, and what it would do.

Guarantees: every line is judged in its order on what the lines before it leave; one transaction moves all, or none moves;
a dry run judges the same way on the same locked rows and writes nothing.
Refuses: a wallet that is named twice, more than `MOVES_MAX` lines; with any line refused the whole, naming each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext as _

from accounts.services.common import authorise
from accounts.standings import locked
from billing import ledger
from billing.hierarchy import act_between, check_receiver, target_between, wallet_named, wallets_named
from billing.models import Account, Allocation, Transfer, TransferKind
from billing.moving import Order, checked_note, hand_over, positive, too_little
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import locks
from gshare_core.kit.idempotency import Once, Reply

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.standings import People

MOVES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Move:
    """One line: a child and how much."""

    wallet: UUID
    amount: int


@dataclass(frozen=True, slots=True)
class BulkOrder:
    """What is asked: from or to which parent, by which of allocate and reclaim, which lines."""

    kind: TransferKind
    parent: UUID
    moves: Sequence[Move]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it was judged: the child's balance before and after, the transfer, or why it is refused."""

    wallet: Account
    amount: int
    before: int
    after: int
    refusal: DomainError | None = None
    transfer_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What was done, or what would be."""

    kind: TransferKind
    dry_run: bool
    parent: Account
    before: int
    after: int
    lines: tuple[Line, ...]

    @property
    def refused(self) -> list[int]:
        """The numbers of the refused lines, from 0."""
        return [number for number, line in enumerate(self.lines) if line.refusal is not None]


def move_in_bulk(
    order: BulkOrder, *, by: User | None, dry_run: bool = False, once: Once | None = None
) -> BulkResult | Reply:
    """Allocate to, or reclaim from, many children of one parent. `once` is not used by a dry run.

    Raises DomainError `forbidden`, `not_found`, `invalid`, and the first line's refusal when any line is refused.
    """
    note = checked_note(order.note)
    _check_shape(order)
    parent = wallet_named(order.parent)
    children = wallets_named(move.wallet for move in order.moves)
    if len(children) < len(order.moves):
        raise not_found("wallet")
    with locks.ordered():
        people = locked(share=[by.pk if by else None, *(child.user_id for child in children.values())])
        refusals = [_neighbour(order.kind, parent, children[move.wallet], people, by) for move in order.moves]
        reply = once.claim() if once is not None and not dry_run else None
        if reply is not None:
            return reply
        purses = ledger.lock_purses((order.parent, *children))
        result = _judged(order, parent, children, refusals, purses, dry_run=dry_run)
        if dry_run:
            return result
        if result.refused:
            raise _refused(result)
        orders = [_order(order.kind, order.parent, move, note) for move in order.moves]
        done = _with_transfers(result, hand_over(orders, by, purses))
        if once is not None:
            once.keep(done)
        return done


def _check_shape(order: BulkOrder) -> None:
    if order.kind not in (TransferKind.ALLOCATE, TransferKind.RECLAIM):
        raise invalid("act", _("Allocate or reclaim."))
    if not 1 <= len(order.moves) <= MOVES_MAX:
        raise invalid("moves", _("Give 1 to %(most)s lines.") % {"most": MOVES_MAX})
    if len({move.wallet for move in order.moves}) < len(order.moves):
        raise invalid("moves", _("Name each wallet once."))
    for move in order.moves:
        positive(move.amount)


def _neighbour(
    kind: TransferKind, parent: Account, child: Account, people: People, by: User | None
) -> DomainError | None:
    """Why this child cannot take part, if it cannot. Raises `forbidden`: rights refuse the whole."""
    try:
        act = act_between(parent, child)
    except DomainError as refusal:
        return refusal
    authorise(people, by, act, target_between(parent, child, people))
    try:
        if kind == TransferKind.ALLOCATE:
            check_receiver(parent, child, people)
    except DomainError as refusal:
        return refusal
    return None


def _judged(
    order: BulkOrder,
    parent: Account,
    children: dict[UUID, Account],
    refusals: Sequence[DomainError | None],
    purses: dict[UUID, ledger.Purse],
    *,
    dry_run: bool,
) -> BulkResult:
    """Every line on what the lines before it leave; the purses stay as they are."""
    down = order.kind == TransferKind.ALLOCATE
    above = purses[order.parent]
    free, balance = above.available, above.balance
    given = dict(Allocation.objects.filter(parent_id=order.parent).values_list("wallet_id", "net"))
    lines = []
    for move, refused in zip(order.moves, refusals, strict=True):
        purse = purses[move.wallet]
        available = free if down else purse.available
        refusal = refused or _shortage(move, available, None if down else given.get(move.wallet, 0))
        change = 0 if refusal else (move.amount if down else -move.amount)
        free, balance = free - change, balance - change
        lines.append(Line(children[move.wallet], move.amount, purse.balance, purse.balance + change, refusal))
    return BulkResult(order.kind, dry_run, parent, above.balance, balance, tuple(lines))


def _shortage(move: Move, available: int, given: int | None) -> DomainError | None:
    if available < move.amount:
        return too_little(_("The wallet has not as much free."), available, move.amount)
    if given is not None and given < move.amount:
        return too_little(_("Only what was given from there can be taken back."), given, move.amount)
    return None


def _order(kind: TransferKind, parent: UUID, move: Move, note: str) -> Order:
    debit, credit = (parent, move.wallet) if kind == TransferKind.ALLOCATE else (move.wallet, parent)
    return Order(kind, debit, credit, move.amount, note)


def _with_transfers(result: BulkResult, transfers: Sequence[Transfer]) -> BulkResult:
    lines = [
        Line(line.wallet, line.amount, line.before, line.after, None, transfer.pk)
        for line, transfer in zip(result.lines, transfers, strict=True)
    ]
    return BulkResult(result.kind, False, result.parent, result.before, result.after, tuple(lines))


def _refused(result: BulkResult) -> DomainError:
    refusals = {number: result.lines[number].refusal for number in result.refused}
    first = next(refusal for refusal in refusals.values() if refusal is not None)
    return DomainError(
        first.code,
        _("%(refused)d of %(all)d lines are refused; nothing was moved. The first: %(why)s")
        % {"refused": len(refusals), "all": len(result.lines), "why": first.detail},
        remedy=_("Correct the lines named here; a dry run shows all of them."),
        errors={f"moves.{number}": [refusal.detail] for number, refusal in refusals.items() if refusal is not None},
    )
