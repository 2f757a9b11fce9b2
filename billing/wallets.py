"""Credits down the hierarchy and up again: issue, allocate, reclaim, adjust; and the wallets themselves.

Guarantees: credits move between neighbours only (system, organisation, group, member), nobody hands out more than he has
free, and nobody takes back more than he gave net and is still free; transfer, net-allocated counter and audit row are
one transaction, and with `once` the same request moves credits once.
Refuses, before anything is written: who may not (`forbidden`), what is not there (`insufficient_pool`), wallets that are
no neighbours and amounts that are none (`invalid`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import F
from django.utils.translation import gettext as _

from accounts import audit, notices
from accounts.domain.rights import Target
from accounts.permissions import Act
from accounts.services.common import authorise, in_language_of
from accounts.standings import People, locked
from billing import ledger
from billing.domain.facts import ScopeKind, Scopes
from billing.models import MINT_ID, SYSTEM_ID, Account, AccountKind, Allocation, Transfer, TransferKind
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.ids import uuid7
from gshare_core.kit import clock, live, locks
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.money import MAX_MICRO, display_credits, format_credits

if TYPE_CHECKING:
    from accounts.models import User

NOTE_MAX = 500
OWNERS_OF_ENDS = [f"{end}__{owner}" for end in ("debit", "credit") for owner in ("organisation", "group", "user")]


def prepare(scopes: Scopes) -> None:
    """Make the rows that running something locks but that may not be there yet; in a transaction of their own."""
    ensure_wallet("user", scopes.user_id)


def ensure_wallet(kind: ScopeKind, owner_id: UUID) -> UUID:
    """The wallet of a user, group or organisation, made empty at first use; answers its id.

    Runs before the caller's transaction: whoever inserts second waits for the first. The owner must exist.
    """
    owned = Account.objects.filter(**{f"{kind}_id": owner_id}).values_list("pk", flat=True)
    known = owned.first()
    if known is None:
        fresh = Account(kind=AccountKind(kind), balance=0, **{f"{kind}_id": owner_id})
        Account.objects.bulk_create([fresh], ignore_conflicts=True)
        known = owned.get()
    return known


@dataclass(frozen=True, slots=True)
class _Order:
    """Credits that somebody asks to move."""

    kind: TransferKind
    debit: UUID
    credit: UUID
    amount: int
    note: str


def issue(*, amount: int, note: str = "", by: User | None, once: Once | None = None) -> Transfer | Reply:
    """Make credits and put them into the system's wallet. Raises DomainError `forbidden`, `invalid`."""
    return _fiat(_Order(TransferKind.ISSUE, MINT_ID, SYSTEM_ID, _positive(amount), _checked_note(note)), by, once)


def adjust(*, wallet: UUID, amount: int, reason: str, by: User | None, once: Once | None = None) -> Transfer | Reply:
    """Correct a wallet by a signed amount, against the mint. Raises `reason_required`, `forbidden`, `insufficient_pool`."""
    if not reason.strip():
        raise DomainError("reason_required", _("Say why the wallet is corrected."), remedy=_("Send a note."))
    if wallet in ledger.UNSTORED:
        raise not_found("wallet")
    debit, credit = (MINT_ID, wallet) if amount > 0 else (wallet, MINT_ID)
    return _fiat(_Order(TransferKind.ADJUST, debit, credit, _positive(abs(amount)), _checked_note(reason)), by, once)


def allocate(
    *, source: UUID, to: UUID, amount: int, note: str = "", by: User | None, once: Once | None = None
) -> Transfer | Reply:
    """Hand credits down one level: system to organisation, organisation to its group, group to its member.

    `by` None is the system. Raises DomainError `forbidden`, `invalid`, `insufficient_pool`.
    """
    order = _Order(TransferKind.ALLOCATE, source, to, _positive(amount), _checked_note(note))
    return _hand(order, parent=source, child=to, by=by, once=once)


def reclaim(
    *, source: UUID, to: UUID, amount: int, note: str = "", by: User | None, once: Once | None = None
) -> Transfer | Reply:
    """Take credits back up one level, from the wallet `source` to the parent `to` that gave them.

    At most what that parent gave net and is free. Raises DomainError `forbidden`, `invalid`, `insufficient_pool`.
    """
    order = _Order(TransferKind.RECLAIM, source, to, _positive(amount), _checked_note(note))
    return _hand(order, parent=to, child=source, by=by, once=once)


def return_net(*, user_id: UUID, group_id: UUID) -> int:
    """Somebody left a group: what it gave him net and is free goes back. Answers the amount; repeatable."""
    child, parent = ensure_wallet("user", user_id), ensure_wallet("group", group_id)
    with locks.ordered():
        purses = ledger.lock_purses((child, parent))
        amount = min(_net(child, parent), purses[child].available)
        if amount > 0:
            _write(_Order(TransferKind.RECLAIM, child, parent, amount, ""), None, purses)
            _count_net(child, parent, -amount)
        return amount


def _fiat(order: _Order, by: User | None, once: Once | None) -> Transfer | Reply:
    """Against the mint: only super administrators."""
    with locks.ordered():
        authorise(locked(share=[by.pk if by else None]), by, Act.ISSUE_CREDITS, Target())
        reply = once.claim() if once is not None else None
        if reply is not None:
            return reply
        purses = ledger.lock_purses((order.debit, order.credit))
        if not purses:
            raise not_found("wallet")
        _check_free(order, purses)
        done = _write(order, by, purses)
        if once is not None:
            once.keep(done)
        return done


def _hand(order: _Order, *, parent: UUID, child: UUID, by: User | None, once: Once | None) -> Transfer | Reply:
    above, below = _wallet(parent), _wallet(child)
    act = _act_between(above, below)
    with locks.ordered():
        people = locked(share=[by.pk if by else None, below.user_id])
        authorise(people, by, act, _target(below, above, people))
        if order.kind == TransferKind.ALLOCATE:
            _check_receiver(above, below, people)
        reply = once.claim() if once is not None else None
        if reply is not None:
            return reply
        purses = ledger.lock_purses((parent, child))
        _check_free(order, purses)
        net = order.amount if order.kind == TransferKind.ALLOCATE else -order.amount
        if net < 0 and _net(child, parent) < order.amount:
            raise _too_little(_("Only what was given from there can be taken back."), _net(child, parent), order.amount)
        done = _write(order, by, purses)
        _count_net(child, parent, net)
        _tell(done, below, by)
        if once is not None:
            once.keep(done)
        return done


def _wallet(wallet_id: UUID) -> Account:
    row = Account.objects.wallets().select_related("organisation", "group", "user").filter(pk=wallet_id).first()
    if row is None:
        raise not_found("wallet")
    return row


def _act_between(parent: Account, child: Account) -> Act:
    """The right that moving credits between two neighbours takes. Raises `invalid` when they are none."""
    if parent.kind == AccountKind.SYSTEM and child.kind == AccountKind.ORGANISATION:
        return Act.CREDIT_ORGANISATION
    if (
        parent.kind == AccountKind.ORGANISATION
        and child.group
        and child.group.organisation_id == parent.organisation_id
    ):
        return Act.CREDIT_GROUP
    if parent.kind == AccountKind.GROUP and child.kind == AccountKind.USER:
        return Act.CREDIT_USER
    raise invalid(
        "to",
        _("Credits move between neighbours: system, organisation, its group, the group's member."),
        remedy=_("Go one level at a time."),
    )


def _target(child: Account, parent: Account, people: People) -> Target:
    if child.user_id is not None:
        assert parent.group is not None
        return Target(parent.group.organisation_id, parent.group_id, people.standings.get(child.user_id))
    if child.group is not None:
        return Target(child.group.organisation_id, child.group_id)
    return Target(child.organisation_id)


def _check_receiver(parent: Account, child: Account, people: People) -> None:
    """Who gets credits is there to use them: active, and a member of the group that gives."""
    owner = child.organisation or child.group or child.user
    if owner is None or not owner.is_active:
        raise invalid("to", _("Its owner is deactivated."))
    if child.user_id is not None:
        seats = people.standings[child.user_id].seats
        if not any(seat.group_id == parent.group_id for seat in seats):
            raise invalid("to", _("This person is no member of the group."), remedy=_("Add the membership first."))


def _check_free(order: _Order, purses: dict[UUID, ledger.Purse]) -> None:
    purse = purses.get(order.debit)
    if purse is not None and purse.available < order.amount:
        raise _too_little(_("The wallet has not as much free."), purse.available, order.amount)


def _too_little(why: str, available: int, needed: int) -> DomainError:
    words = _("%(available)s cr are available, %(needed)s cr were asked for.")
    detail = words % {"available": display_credits(available), "needed": display_credits(needed)}
    return DomainError(
        "insufficient_pool",
        f"{why} {detail}",
        remedy=_("Move less, or fill the wallet first."),
        facts={"available": format_credits(available), "needed": format_credits(needed)},
    )


def _net(wallet: UUID, parent: UUID) -> int:
    """What the parent gave net; read under both wallets' locks."""
    found = Allocation.objects.filter(wallet_id=wallet, parent_id=parent).values_list("net", flat=True).first()
    return found or 0


def _count_net(wallet: UUID, parent: UUID, change: int) -> None:
    """Both wallets are locked, so nobody else makes or moves this row now."""
    mine = Allocation.objects.filter(wallet_id=wallet, parent_id=parent)
    if not mine.update(net=F("net") + change):
        Allocation.objects.create(wallet_id=wallet, parent_id=parent, net=change)


def _write(order: _Order, by: User | None, purses: dict[UUID, ledger.Purse]) -> Transfer:
    at = clock.now()
    movement = ledger.Movement(
        kind=order.kind,
        debit=order.debit,
        credit=order.credit,
        amount=order.amount,
        key=f"{order.kind.value}/{uuid7()}",
        at=at,
        note=order.note,
        actor_id=by.pk if by else None,
    )
    (key,) = ledger.post([movement], purses)
    done = Transfer.objects.select_related(*OWNERS_OF_ENDS).get(pk=key)
    _record(done, by)
    for account in (done.debit, done.credit):
        if account.user_id is not None:
            live.poke(f"wallet:{account.user_id}")
    return done


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


def _tell(done: Transfer, child: Account, by: User | None) -> None:
    """The receiver of credits learns of it."""
    if done.kind != TransferKind.ALLOCATE or child.user is None or (by is not None and by.pk == child.user_id):
        return
    with in_language_of(child.user):
        title = _("You received %(amount)s credits") % {"amount": display_credits(done.amount)}
    notices.notify(
        user_id=child.user.pk, kind="credits_received", title=title, body=done.note, at=done.at, link="/wallet/"
    )


def _positive(amount: int) -> int:
    if not 0 < amount <= MAX_MICRO:
        raise invalid("amount", _("Give an amount above 0."))
    return amount


def _checked_note(note: str) -> str:
    text = note.strip()
    if len(text) > NOTE_MAX or "\0" in text:
        raise invalid("note", _("At most %(most)s characters.") % {"most": NOTE_MAX})
    return text
