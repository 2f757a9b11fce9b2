"""Who is whose neighbour among wallets: system, organisation, group, member; and the right that moving credits takes.

Guarantees: credits move between neighbours only; rights are judged on rows that are held still.
Refuses: wallets that are no neighbours, receivers that are deactivated or no members.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext as _

from accounts.contacts import administrators_of_place
from accounts.domain.rights import Target
from accounts.permissions import Act
from billing.models import Account, AccountKind
from gshare_core.errors import invalid, not_found

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.standings import People


def wallet_named(wallet_id: UUID) -> Account:
    """The wallet with its owner. Raises `not_found`."""
    found = wallets_named([wallet_id]).get(wallet_id)
    if found is None:
        raise not_found("wallet")
    return found


def wallets_named(ids: Iterable[UUID]) -> dict[UUID, Account]:
    """Those of these wallets that exist, with their owners. One statement."""
    rows = Account.objects.wallets().select_related("organisation", "group", "user").filter(pk__in=list(ids))
    return {row.pk: row for row in rows}


def act_between(parent: Account, child: Account) -> Act:
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


def target_between(parent: Account, child: Account, people: People) -> Target:
    """What such an act is aimed at."""
    if child.user_id is not None:
        assert parent.group is not None
        return Target(parent.group.organisation_id, parent.group_id, people.standings.get(child.user_id))
    if child.group is not None:
        return Target(child.group.organisation_id, child.group_id)
    return Target(child.organisation_id)


def check_receiver(parent: Account, child: Account, people: People) -> None:
    """Who gets credits is there to use them: active, and a member of the group that gives. Raises `invalid`."""
    owner = child.organisation or child.group or child.user
    if owner is None or not owner.is_active:
        raise invalid("to", _("Its owner is deactivated."))
    if child.user_id is not None:
        seats = people.standings[child.user_id].seats
        if not any(seat.group_id == parent.group_id for seat in seats):
            raise invalid("to", _("This person is no member of the group."), remedy=_("Add the membership first."))


def administrators_of(wallet: Account) -> list[User]:
    """Who decides over what a wallet gives: the administrators of its place, else those above, else of the system."""
    if wallet.group is not None:
        return administrators_of_place(organisation_id=wallet.group.organisation_id, group_id=wallet.group_id)
    return administrators_of_place(organisation_id=wallet.organisation_id)
