"""What the start of the next month would take from the wallets of a scope, if nothing more were spent. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from django.db.models import Q

from billing.domain.refills import Promise, ahead
from billing.models import SYSTEM_ID, Account, AccountKind, MonthlyGrant
from billing.models.ledger import owners_of

if TYPE_CHECKING:
    from accounts.administrators import Administrator

_LEVELS = {AccountKind.ORGANISATION: 0, AccountKind.GROUP: 1, AccountKind.USER: 2}


@dataclass(frozen=True, slots=True)
class RefillAhead:
    """What one wallet would have to give to so many below it; `short` is what it would lack."""

    parent: Account
    children: int
    needs: int
    has: int
    short: int


def next_refill(administrator: Administrator, month: date) -> list[RefillAhead]:
    """The parents of the scope that promise something from this month on, the widest first. One statement.

    For super administrators the system and the organisations, for others those of their places and the groups in them.
    What places above would give is counted, since it decides what the places below have then.
    """
    reach = administrator.reach
    wanted = Q(wallet__kind__in=[AccountKind.ORGANISATION, AccountKind.GROUP])
    if not reach.everything:
        wanted |= Q(parent__group__in=reach.groups)
    grants = list(
        MonthlyGrant.objects.filter(wanted, since__lte=month)
        .select_related(*owners_of("wallet", "parent"))
        .order_by("pk")
    )
    grants = [grant for grant in grants if _is_active(grant.wallet)]
    purses = {row.pk: (row.balance or 0, row.held) for grant in grants for row in (grant.wallet, grant.parent)}
    promises = [
        Promise(grant.wallet_id, grant.parent_id, grant.amount, _LEVELS[AccountKind(grant.wallet.kind)])
        for grant in grants
    ]
    parents = {grant.parent_id: grant.parent for grant in grants}
    found = [
        RefillAhead(parents[key], row.children, row.needs, row.has, row.short)
        for key, row in ahead(promises, purses).items()
        if _is_of(parents[key], administrator)
    ]
    return sorted(
        found, key=lambda row: (row.parent.group_id is not None, row.parent.pk != SYSTEM_ID, row.parent.owner_name)
    )


def _is_active(wallet: Account) -> bool:
    owner = wallet.organisation or wallet.group or wallet.user
    return owner is not None and owner.is_active


def _is_of(parent: Account, administrator: Administrator) -> bool:
    reach = administrator.reach
    if reach.everything:
        return parent.group_id is None
    return parent.organisation_id in reach.organisations or parent.group_id in reach.groups
