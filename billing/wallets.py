"""Credits down the hierarchy and up again: issue, allocate, reclaim, adjust; and the wallets themselves.

Guarantees: credits move between neighbours only (system, organisation, group, member), nobody hands out more than he has
free, and nobody takes back more than he gave net and is still free; transfer, net-allocated counter and audit row are
one transaction, and with `once` the same request moves credits once.
Refuses, before anything is written: who may not (`forbidden`), what is not there (`insufficient_pool`), wallets that are
no neighbours and amounts that are none (`invalid`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext as _

from accounts.domain.rights import Target
from accounts.permissions import Act
from accounts.services.common import authorise
from accounts.standings import locked
from billing import ledger
from billing.domain.facts import ScopeKind, Scopes
from billing.hierarchy import act_between, check_receiver, target_between, wallet_named
from billing.models import MINT_ID, SYSTEM_ID, Account, AccountKind, Transfer, TransferKind
from billing.moving import Order, check_free, check_net, checked_note, hand_over, net_of, positive, write
from gshare_core.errors import DomainError, not_found
from gshare_core.kit import locks
from gshare_core.kit.idempotency import Once, Reply

if TYPE_CHECKING:
    from accounts.models import User


def prepare(scopes: Scopes) -> None:
    """Make the rows that running something locks but that may not be there yet; in a transaction of their own."""
    ensure_wallet("user", scopes.user_id)


def ensure_wallet(kind: ScopeKind, owner_id: UUID) -> UUID:
    """The wallet of a user, group or organisation, made empty at first use; answers its id.

    Runs before the caller's transaction: whoever inserts second waits for the first. The owner must exist.
    """
    return ensure_wallets(kind, [owner_id])[owner_id]


def ensure_wallets(kind: ScopeKind, owner_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """The same for several, by owner."""
    owned = Account.objects.filter(**{f"{kind}_id__in": list(owner_ids)}).values_list(f"{kind}_id", "pk")
    known = dict(owned)
    missing = [owner for owner in owner_ids if owner not in known]
    if missing:
        fresh = [Account(kind=AccountKind(kind), balance=0, **{f"{kind}_id": owner}) for owner in missing]
        Account.objects.bulk_create(fresh, ignore_conflicts=True)
        known = dict(owned.all())
    return known


def issue(*, amount: int, note: str = "", by: User | None, once: Once | None = None) -> Transfer | Reply:
    """Make credits and put them into the system's wallet. Raises DomainError `forbidden`, `invalid`."""
    return _fiat(Order(TransferKind.ISSUE, MINT_ID, SYSTEM_ID, positive(amount), checked_note(note)), by, once)


def adjust(*, wallet: UUID, amount: int, reason: str, by: User | None, once: Once | None = None) -> Transfer | Reply:
    """Correct a wallet by a signed amount, against the mint. Raises `reason_required`, `forbidden`, `insufficient_pool`."""
    if not reason.strip():
        raise DomainError("reason_required", _("Say why the wallet is corrected."), remedy=_("Send a note."))
    if wallet in ledger.UNSTORED:
        raise not_found("wallet")
    debit, credit = (MINT_ID, wallet) if amount > 0 else (wallet, MINT_ID)
    return _fiat(Order(TransferKind.ADJUST, debit, credit, positive(abs(amount)), checked_note(reason)), by, once)


def allocate(
    *, source: UUID, to: UUID, amount: int, note: str = "", by: User | None, once: Once | None = None
) -> Transfer | Reply:
    """Hand credits down one level: system to organisation, organisation to its group, group to its member.

    `by` None is the system. Raises DomainError `forbidden`, `invalid`, `insufficient_pool`.
    """
    order = Order(TransferKind.ALLOCATE, source, to, positive(amount), checked_note(note))
    return _hand(order, by=by, once=once)


def reclaim(
    *, source: UUID, to: UUID, amount: int, note: str = "", by: User | None, once: Once | None = None
) -> Transfer | Reply:
    """Take credits back up one level, from the wallet `source` to the parent `to` that gave them.

    At most what that parent gave net and is free. Raises DomainError `forbidden`, `invalid`, `insufficient_pool`.
    """
    order = Order(TransferKind.RECLAIM, source, to, positive(amount), checked_note(note))
    return _hand(order, by=by, once=once)


def return_net(*, user_id: UUID, group_id: UUID) -> int:
    """What a group gave somebody net and is free goes back. Answers the amount; repeatable."""
    child, parent = ensure_wallet("user", user_id), ensure_wallet("group", group_id)
    with locks.ordered():
        purses = ledger.lock_purses((child, parent))
        amount = min(net_of(child, parent), purses[child].available)
        if amount > 0:
            hand_over([Order(TransferKind.RECLAIM, child, parent, amount)], None, purses)
        return amount


def _fiat(order: Order, by: User | None, once: Once | None) -> Transfer | Reply:
    """Against the mint: only super administrators."""
    with locks.ordered():
        authorise(locked(share=[by.pk if by else None]), by, Act.ISSUE_CREDITS, Target())
        reply = once.claim() if once is not None else None
        if reply is not None:
            return reply
        purses = ledger.lock_purses((order.debit, order.credit))
        if not purses:
            raise not_found("wallet")
        check_free(order, purses)
        (done,) = write([order], by, purses)
        if once is not None:
            once.keep(done)
        return done


def _hand(order: Order, *, by: User | None, once: Once | None) -> Transfer | Reply:
    above, below = wallet_named(order.parent), wallet_named(order.child)
    act = act_between(above, below)
    with locks.ordered():
        people = locked(share=[by.pk if by else None, below.user_id])
        authorise(people, by, act, target_between(above, below, people))
        if order.kind == TransferKind.ALLOCATE:
            check_receiver(above, below, people)
        reply = once.claim() if once is not None else None
        if reply is not None:
            return reply
        purses = ledger.lock_purses((order.parent, order.child))
        check_free(order, purses)
        check_net(order)
        (done,) = hand_over([order], by, purses)
        if once is not None:
            once.keep(done)
        return done
