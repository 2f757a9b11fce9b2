"""Who leaves a group, becomes its guest, or is deactivated: what the group gave him goes back, what it promised or was asked ends.

Guarantees: judged on rows that are held still, so whoever was given his seat back keeps his credits; what is free goes
back at once, what a run still holds when it is settled; several parents share what is left by what each gave net; no
more goes back than was given. Repeatable: a pass that finds nothing to return changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts import notices
from accounts.domain.roles import Role
from accounts.services.common import in_language_of
from accounts.standings import locked
from billing import ledger
from billing.domain.shares import split
from billing.models import Account, Allocation, Meter, MonthlyGrant, TransferKind
from billing.moving import Order, hand_over
from billing.requests import end_requests
from gshare_core.kit import clock, locks
from gshare_core.money import display_credits

if TYPE_CHECKING:
    from accounts.domain.rights import Standing
    from accounts.models import User


def return_to_parents(*, user_id: UUID, group_id: UUID | None = None) -> bool:
    """Give back what the groups in which somebody has no place any more (or the one named) gave him and is free.

    True once nothing more can come free: nothing that he ran there is still to be settled.
    """
    child = Account.objects.filter(user_id=user_id).first()
    if child is None:
        return True
    with locks.ordered():
        people = locked(share=[user_id])
        standing = people.standings[user_id]
        lost = [parent.pk for parent in _parents(child) if _has_lost(standing, parent, group_id)]
        end_requests(child.pk, lost, at=clock.now())
        _give_back(child, people.users[user_id], lost)
        MonthlyGrant.objects.filter(wallet=child, parent_id__in=lost).delete()
    running = Meter.objects.open().filter(user_id=user_id)
    return not (running.filter(group_id=group_id) if group_id else running).exists()


def _parents(child: Account) -> QuerySet[Account]:
    """The groups that have given him something, promise it, or were asked for it."""
    mine = Q(given__wallet=child, given__net__gt=0) | Q(grants_given__wallet=child)
    return Account.objects.filter(mine | Q(requests_received__wallet=child, requests_received__state="open")).distinct()


def _has_lost(standing: Standing, parent: Account, group_id: UUID | None) -> bool:
    """Is this a group in which he can spend nothing any more?"""
    if parent.group_id is None or (group_id is not None and parent.group_id != group_id):
        return False
    seated = any(seat.group_id == parent.group_id and seat.role is not Role.GUEST for seat in standing.seats)
    return not (standing.active and seated)


def _give_back(child: Account, user: User, parents: list[UUID]) -> None:
    """Under the wallets' locks, for what each gave may be reclaimed meanwhile."""
    if not parents:
        return
    purses = ledger.lock_purses((child.pk, *parents))
    rows = list(Allocation.objects.filter(wallet=child, parent_id__in=parents, net__gt=0).order_by("pk"))
    given = [row.net for row in rows]
    parts = split(min(sum(given), purses[child.pk].available), given)
    orders = [
        Order(TransferKind.RECLAIM, child.pk, row.parent_id, part)
        for row, part in zip(rows, parts, strict=True)
        if part > 0
    ]
    if not orders:
        return
    done = hand_over(orders, None, purses)
    if not user.is_active:
        return
    with in_language_of(user):
        for transfer in done:
            title = _("%(amount)s credits went back to %(place)s")
            words = {"amount": display_credits(transfer.amount), "place": transfer.credit.owner_name}
            notices.notify(
                user_id=user.pk,
                kind="credits_returned",
                title=title % words,
                body=_("It had given them to you, and you are no longer a member."),
                at=clock.now(),
                link="/wallet/",
            )
