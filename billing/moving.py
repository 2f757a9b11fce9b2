"""One step of credits between two wallets: looked at, written with its net-allocated counter, audited and told.

Guarantees: transfer, counter, audit row and notice are one transaction. Callers hold the people and the purses.
Refuses: more than is free, more back than was given net.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import F
from django.utils.translation import gettext as _

from accounts import audit, notices
from accounts.services.common import in_language_of
from billing import ledger
from billing.models import MINT_ID, Account, Allocation, Transfer, TransferKind
from gshare_core.errors import DomainError, invalid
from gshare_core.ids import uuid7
from gshare_core.kit import clock, live
from gshare_core.money import MAX_MICRO, display_credits, format_credits

if TYPE_CHECKING:
    from accounts.models import User

NOTE_MAX = 500
OWNERS_OF_ENDS = [f"{end}__{owner}" for end in ("debit", "credit") for owner in ("organisation", "group", "user")]
_DOWN = (TransferKind.ALLOCATE, TransferKind.GRANT)


@dataclass(frozen=True, slots=True)
class Order:
    """Credits that are to move. `reference`: what for, when it is something that can be looked at."""

    kind: TransferKind
    debit: UUID
    credit: UUID
    amount: int
    note: str = ""
    reference: UUID | None = None

    @property
    def parent(self) -> UUID:
        """The giving side of an allocation or grant, the receiving side of a reclaim."""
        return self.debit if self.kind in _DOWN else self.credit

    @property
    def child(self) -> UUID:
        """The other side."""
        return self.credit if self.kind in _DOWN else self.debit


def check_free(order: Order, purses: dict[UUID, ledger.Purse]) -> None:
    """Raises `insufficient_pool` when the debit wallet has not as much free."""
    purse = purses.get(order.debit)
    if purse is not None and purse.available < order.amount:
        raise too_little(_("The wallet has not as much free."), purse.available, order.amount)


def check_net(order: Order) -> None:
    """Raises `insufficient_pool` when a reclaim asks for more than its parent gave net."""
    if order.kind == TransferKind.RECLAIM and (given := net_of(order.child, order.parent)) < order.amount:
        raise too_little(_("Only what was given from there can be taken back."), given, order.amount)


def too_little(why: str, available: int, needed: int) -> DomainError:
    """The refusal of a wallet that has not enough."""
    words = _("%(available)s cr are available, %(needed)s cr were asked for.")
    detail = words % {"available": display_credits(available), "needed": display_credits(needed)}
    return DomainError(
        "insufficient_pool",
        f"{why} {detail}",
        remedy=_("Move less, or fill the wallet first."),
        facts={"available": format_credits(available), "needed": format_credits(needed)},
    )


def net_of(wallet: UUID, parent: UUID) -> int:
    """What the parent gave net; read under both wallets' locks."""
    found = Allocation.objects.filter(wallet_id=wallet, parent_id=parent).values_list("net", flat=True).first()
    return found or 0


def hand_over(orders: Sequence[Order], by: User | None, purses: dict[UUID, ledger.Purse]) -> list[Transfer]:
    """Move credits between neighbours: transfers, net-allocated, audit, notices to the people who receive."""
    done = write(orders, by, purses)
    for order, transfer in zip(orders, done, strict=True):
        _count_net(order.child, order.parent, order.amount if order.kind in _DOWN else -order.amount)
        _tell(transfer, by)
    return done


def write(orders: Sequence[Order], by: User | None, purses: dict[UUID, ledger.Purse]) -> list[Transfer]:
    """The transfers with their audit rows, in order; nothing else."""
    at = clock.now()
    movements = [
        ledger.Movement(
            kind=order.kind,
            debit=order.debit,
            credit=order.credit,
            amount=order.amount,
            key=f"{order.kind.value}/{uuid7()}",
            at=at,
            reference=order.reference,
            note=order.note,
            actor_id=by.pk if by else None,
        )
        for order in orders
    ]
    keys = ledger.post(movements, purses)
    rows = Transfer.objects.select_related(*OWNERS_OF_ENDS).in_bulk(keys)
    done = [rows[key] for key in keys]
    for transfer in done:
        _record(transfer, by)
        for account in (transfer.debit, transfer.credit):
            if account.user_id is not None:
                live.poke(f"wallet:{account.user_id}")
    return done


def _count_net(wallet: UUID, parent: UUID, change: int) -> None:
    """Both wallets are locked, so nobody else makes or moves this row now."""
    mine = Allocation.objects.filter(wallet_id=wallet, parent_id=parent)
    if not mine.update(net=F("net") + change):
        Allocation.objects.create(wallet_id=wallet, parent_id=parent, net=change)


def _record(done: Transfer, by: User | None) -> None:
    taken = done.kind == TransferKind.RECLAIM or done.credit_id == MINT_ID
    about, other = (done.debit, done.credit) if taken else (done.credit, done.debit)
    audit.record(
        by=by,
        act=f"credits.{done.kind}",
        target_kind="wallet",
        target_id=about.pk,
        target_label=about.owner_name,
        organisation_id=about.organisation_id or other.organisation_id,
        group_id=about.group_id or other.group_id,
        after={
            "amount": format_credits(done.amount),
            "from": done.debit.owner_name,
            "to": done.credit.owner_name,
        },
        reason=done.note,
        at=done.at,
    )


def _tell(done: Transfer, by: User | None) -> None:
    """The receiver of credits learns of it."""
    child: Account = done.credit
    if done.kind not in _DOWN or child.user is None or (by is not None and by.pk == child.user_id):
        return
    with in_language_of(child.user):
        title = _("You received %(amount)s credits") % {"amount": display_credits(done.amount)}
    notices.notify(
        user_id=child.user.pk, kind="credits_received", title=title, body=done.note, at=done.at, link="/wallet/"
    )


def positive(amount: int) -> int:
    """The amount. Raises `invalid` unless it is one that can move."""
    if not 0 < amount <= MAX_MICRO:
        raise invalid("amount", _("Give an amount above 0."))
    return amount


def checked_note(note: str) -> str:
    """The note without space around it. Raises `invalid`."""
    text = note.strip()
    if len(text) > NOTE_MAX or "\0" in text:
        raise invalid("note", _("At most %(most)s characters.") % {"most": NOTE_MAX})
    return text
