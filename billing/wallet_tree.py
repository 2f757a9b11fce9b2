"""The wallets of a scope as a tree: system, organisations, groups, people, each with where its credits went. Reads only.

Guarantees: everything is of the administrator's scope; a person's spend is what he spent in the groups of the scope. Of each
wallet: what was spent below it this month, what is held below it for what runs or waits, what it handed down and is still free
further down, and what is free in it; what it had is the sum of these. Owners without a wallet yet are there, with nothing in it.
The number of statements depends neither on how many there are nor on how many are opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connection
from django.db.models import F, OuterRef, Q, QuerySet, Subquery

from accounts.permissions import administered_groups, administered_organisations, visible_memberships, visible_users
from billing.domain.facts import ScopeKind
from billing.models import SYSTEM_ID, Account

if TYPE_CHECKING:
    from accounts.administrators import Administrator

MOST = 200
"""How many organisations, groups or people one look shows."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a wallet is, and what is free in it; `wallet` is None before its first use. `over`: the place it is shown under."""

    kind: ScopeKind | None  # None: the system
    id: UUID | None
    name: str
    over: UUID | None = None
    over_name: str = ""
    wallet: UUID | None = None
    free: int = 0


SYSTEM_OWNER = Owner(None, None, "", wallet=SYSTEM_ID)


@dataclass(slots=True)
class Flow:
    """Where the credits of a wallet went, in micro-credits."""

    spent: int = 0
    held: int = 0
    below: int = 0


@dataclass(slots=True)
class Flows:
    """The flow of each owner of a scope: `of(owner)`. `system_free` is what is free in the system's wallet."""

    system_free: int = 0
    _found: dict[tuple[Any, ...], Flow] = field(default_factory=dict)

    def of(self, owner: Owner) -> Flow:
        """A person's is that in the group he is shown under, else in all of the scope."""
        if owner.kind == "user":
            return self._found.get(("user", owner.over, owner.id), Flow())
        return self._found.get((owner.kind, owner.id), Flow())

    def take(self, what: str, organisation: UUID | None, group: UUID | None, person: UUID | None, amount: int) -> None:
        """One line of the statement."""
        if what == "system":
            self.system_free = amount
        elif what == "below":  # each level has a line of its own
            self._at("group", group).below += amount if group else 0
            self._at("organisation", organisation).below += amount if organisation and not group else 0
            self._at(None, None).below += 0 if organisation else amount
        elif what == "places":
            self._at("organisation", organisation).below += amount if organisation else 0
            self._at(None, None).below += amount
        else:
            ways: list[tuple[Any, ...]] = [(None, None), ("organisation", organisation), ("group", group)]
            if person:
                ways += [("user", group, person), ("user", None, person)]
            for way in ways:
                flow = self._at(*way)
                setattr(flow, what, getattr(flow, what) + amount)

    def _at(self, *way: Any) -> Flow:
        return self._found.setdefault(way, Flow())


_FLOWS = """
    WITH own AS (
        SELECT id, organisation_id FROM accounts_group
        WHERE %(all)s OR id = ANY(%(groups)s) OR organisation_id = ANY(%(organisations)s)
    )
    SELECT 'spent' AS what, meter.organisation_id, meter.group_id,
           CASE WHEN meter.user_id = ANY(%(people)s) THEN meter.user_id END AS person, sum(transfer.amount)
    FROM billing_posting posting
    JOIN billing_meter meter ON meter.run_id = posting.meter_id
    JOIN own ON own.id = meter.group_id
    JOIN billing_transfer transfer ON transfer.id = posting.transfer_id
    WHERE posting.billed_from >= %(since)s
    GROUP BY 2, 3, 4
    UNION ALL
    SELECT 'held', meter.organisation_id, meter.group_id,
           CASE WHEN meter.user_id = ANY(%(people)s) THEN meter.user_id END AS person, sum(meter.held)
    FROM billing_meter meter
    JOIN own ON own.id = meter.group_id
    WHERE meter.settled_at IS NULL AND meter.held > 0
    GROUP BY 2, 3, 4
    UNION ALL
    SELECT 'below', organisation_id, group_id, NULL, sum(least(net, free)) FROM (
        SELECT own.organisation_id, own.id AS group_id, given.wallet_id, sum(given.net) AS net,
               max(wallet.balance - wallet.held) AS free
        FROM billing_allocation given
        JOIN billing_account parent ON parent.id = given.parent_id
        JOIN own ON own.id = parent.group_id
        JOIN billing_account wallet ON wallet.id = given.wallet_id
        GROUP BY GROUPING SETS ((own.organisation_id, own.id, given.wallet_id), (own.organisation_id, given.wallet_id),
                                (given.wallet_id))
    ) handed GROUP BY 2, 3
    UNION ALL
    SELECT 'places', own.organisation_id, NULL, NULL, sum(wallet.balance - wallet.held)
    FROM billing_account wallet JOIN own ON own.id = wallet.group_id GROUP BY 2
    UNION ALL
    SELECT 'places', NULL, NULL, NULL, coalesce(sum(wallet.balance - wallet.held), 0)
    FROM billing_account wallet WHERE %(all)s AND wallet.organisation_id IS NOT NULL
    UNION ALL
    SELECT 'system', NULL, NULL, NULL, wallet.balance - wallet.held FROM billing_account wallet
    WHERE %(all)s AND wallet.id = %(system)s
"""


def flows(administrator: Administrator, *, since: datetime, people: Collection[UUID] = ()) -> Flows:
    """Where the credits of every wallet of the scope went since then, and those of these people. One statement."""
    reach = administrator.reach
    given: dict[str, Any] = {
        "all": reach.everything,
        "groups": list(reach.groups),
        "organisations": list(reach.organisations),
        "people": list(people),
        "since": since,
        "system": SYSTEM_ID,
    }
    found = Flows()
    with connection.cursor() as cursor:
        cursor.execute(_FLOWS, given)
        for what, organisation, group, person, amount in cursor.fetchall():
            found.take(what, organisation, group, person, int(amount))
    return found


# Whose wallets --------------------------------------------------------------------------------------------------------


def _with_wallet(rows: QuerySet[Any], kind: ScopeKind, key: str = "pk") -> QuerySet[Any]:
    own = Account.objects.filter(**{f"{kind}_id": OuterRef(key)})
    return rows.annotate(
        wallet=Subquery(own.values("pk")[:1]), free=Subquery(own.values(left=F("balance") - F("held"))[:1])
    )


def organisations(administrator: Administrator, *, named: str = "") -> list[Owner]:
    """His organisations by name. One statement."""
    rows = administered_organisations(administrator.user)
    found = _with_wallet(rows.filter(name__icontains=named) if named else rows, "organisation")
    shown = found.order_by("name", "pk").values_list("pk", "name", "wallet", "free")[:MOST]
    return [Owner("organisation", key, name, None, "", wallet, free or 0) for key, name, wallet, free in shown]


def groups(administrator: Administrator, *, of: Iterable[UUID] | None = None, named: str = "") -> list[Owner]:
    """Groups of his by name: of these organisations, of this name, or those that he administers as such. One statement."""
    rows = administered_groups(administrator.user)
    if named:
        rows = rows.filter(name__icontains=named)
    elif of is not None:
        single = [key for key, _name in administrator.groups]
        rows = rows.filter(Q(organisation__in=list(of)) | Q(pk__in=single))
    shown = (
        _with_wallet(rows, "group")
        .order_by("name", "pk")
        .values_list("pk", "name", "organisation", "organisation__name", "wallet", "free")[:MOST]
    )
    return [
        Owner("group", key, name, over, over_name, wallet, free or 0)
        for key, name, over, over_name, wallet, free in shown
    ]


def people(administrator: Administrator, *, of: Iterable[UUID]) -> list[Owner]:
    """Who has a seat in these groups of his, by address. One statement."""
    rows = visible_memberships(administrator.user).filter(group__in=list(of))
    shown = (
        _with_wallet(rows, "user", "user_id")
        .order_by("user__email", "pk")
        .values_list("user_id", "user__email", "group", "group__name", "wallet", "free")[:MOST]
    )
    return [
        Owner("user", key, email, group, name, wallet, free or 0) for key, email, group, name, wallet, free in shown
    ]


def people_named(administrator: Administrator, named: str) -> list[Owner]:
    """People of his scope whose address or name holds these words. One statement."""
    rows = visible_users(administrator.user).filter(Q(email__icontains=named) | Q(name__icontains=named))
    shown = _with_wallet(rows, "user").order_by("email", "pk").values_list("pk", "email", "wallet", "free")[:MOST]
    return [Owner("user", key, email, None, "", wallet, free or 0) for key, email, wallet, free in shown]
