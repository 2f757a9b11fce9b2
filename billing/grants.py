"""Monthly grants: what a parent promises a wallet each month, and the tick that keeps the promise.

Guarantees: a grant moves nothing by itself; at the start of a month in `GSHARE_TIME_ZONE`, top-down, a wallet below the
sum of its grants is raised by its parents, each by its share and as far as it has it, one above is left alone; once per
wallet, parent and month, whatever ticks come late, twice, at once, or are killed; what was missing is recorded and told to
who administers the parent, once a month. A grant that is new begins with the next month.
Refuses: more to the children than the parent's own grants (`grant_exceeds_parent`), at both ends of a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Case, Exists, OuterRef, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from accounts import audit, notices
from accounts.services.common import authorise, in_language_of
from accounts.standings import locked
from billing import ledger
from billing.domain.shares import split
from billing.hierarchy import act_between, administrators_of, check_receiver, target_between, wallet_named
from billing.models import SYSTEM_ID, Account, AccountKind, GrantRefill, MonthlyGrant, TransferKind
from billing.models.ledger import owners_of
from billing.moving import Order, hand_over
from gshare_core.errors import DomainError, invalid
from gshare_core.kit import clock, locks
from gshare_core.money import MAX_MICRO, display_credits, format_credits

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.standings import People

LIMIT = 100_000
_LEVELS = (AccountKind.ORGANISATION, AccountKind.GROUP, AccountKind.USER)


def month_of(at: datetime) -> date:
    """The first day of the month that grants count as the present one."""
    return at.astimezone(ZoneInfo(settings.GSHARE.time_zone)).date().replace(day=1)


def next_month(month: date) -> date:
    """The first day of the month after."""
    return (month + timedelta(days=31)).replace(day=1)


# Promising ------------------------------------------------------------------------------------------------------------


def set_monthly_grant(*, wallet: UUID, parent: UUID, amount: int, by: User | None) -> None:
    """What `parent` gives `wallet` each month from the next one on; 0 ends it. Moves no credits.

    Raises DomainError `not_found`, `forbidden`, `invalid`, `grant_exceeds_parent`.
    """
    if not 0 <= amount <= MAX_MICRO:
        raise invalid("amount", _("Give an amount of 0 or more."))
    above, below = wallet_named(parent), wallet_named(wallet)
    act = act_between(above, below)
    with locks.ordered():
        people = locked(share=[by.pk if by else None, below.user_id])
        authorise(people, by, act, target_between(above, below, people))
        if amount:
            check_receiver(above, below, people)
        ledger.lock_purses((wallet, parent))  # who grants above or below this pair waits here
        known = MonthlyGrant.objects.filter(wallet=below, parent=above).first()
        before = known.amount if known else 0
        if amount == before:
            return
        _check_sums(above, below, amount - before)
        at = clock.now()
        if amount == 0:
            MonthlyGrant.objects.filter(wallet=below, parent=above).delete()
        elif not MonthlyGrant.objects.filter(wallet=below, parent=above).update(amount=amount):
            since = next_month(month_of(at))
            MonthlyGrant.objects.create(wallet=below, parent=above, amount=amount, since=since)
        _record(above, below, before, amount, by, at)


def granted_to(wallet: UUID) -> int:
    """The sum of a wallet's grants: what the start of a month raises it to."""
    return _sum(MonthlyGrant.objects.filter(wallet_id=wallet))


def _check_sums(above: Account, below: Account, change: int) -> None:
    """Per parent, the children's grants cannot exceed its own; the system's are its administrators' affair."""
    if change > 0 and above.pk != SYSTEM_ID:
        own, given = granted_to(above.pk), _sum(MonthlyGrant.objects.filter(parent=above))
        if given + change > own:
            raise _exceeds(above, own, given + change)
    if change < 0 and below.kind != AccountKind.USER:
        own, given = granted_to(below.pk) + change, _sum(MonthlyGrant.objects.filter(parent=below))
        if given > own:
            raise _exceeds(below, own, given)


def _sum(grants: QuerySet[MonthlyGrant]) -> int:
    total: int = grants.aggregate(total=Coalesce(Sum("amount"), 0))["total"]
    return total


def _exceeds(parent: Account, own: int, given: int) -> DomainError:
    words = {"name": parent.owner_name, "own": display_credits(own), "given": display_credits(given)}
    return DomainError(
        "grant_exceeds_parent",
        _("%(name)s gets %(own)s cr a month and would give %(given)s cr.") % words,
        remedy=_("Grant less, or raise what the parent gets first."),
        facts={"parent": str(parent.pk), "own": format_credits(own), "given": format_credits(given)},
    )


def _record(above: Account, below: Account, before: int, after: int, by: User | None, at: datetime) -> None:
    audit.record(
        by=by,
        act="credits.monthly_grant",
        target_kind="wallet",
        target_id=below.pk,
        target_label=below.owner_name,
        organisation_id=below.organisation_id or above.organisation_id,
        group_id=below.group_id or above.group_id,
        before={"amount": format_credits(before), "from": above.owner_name},
        after={"amount": format_credits(after), "from": above.owner_name},
        at=at,
    )


# Keeping the promise --------------------------------------------------------------------------------------------------


def refill_due(*, limit: int = LIMIT) -> int:
    """The tick: this month's refills that are not made yet, from the top down. Answers how many wallets it looked at."""
    month = month_of(clock.now())
    due = list(_due(month).values_list("wallet_id", flat=True).distinct()[:limit])
    for wallet_id in due:
        _refill(wallet_id, month)
    return len(due)


def _due(month: date) -> QuerySet[MonthlyGrant]:
    level = Case(*(When(wallet__kind=kind, then=Value(number)) for number, kind in enumerate(_LEVELS)))
    return _unmade(MonthlyGrant.objects.all(), month).annotate(level=level).order_by("level", "wallet_id")


def _unmade(grants: QuerySet[MonthlyGrant], month: date) -> QuerySet[MonthlyGrant]:
    made = GrantRefill.objects.filter(wallet=OuterRef("wallet"), parent=OuterRef("parent"), month=month)
    return grants.filter(~Exists(made), since__lte=month)


def _refill(wallet_id: UUID, month: date) -> None:
    """One wallet's month in one transaction. The race it prevents: two ticks that both raise it."""
    child = wallet_named(wallet_id)
    with locks.ordered():
        people = locked(share=[child.user_id])
        seen = MonthlyGrant.objects.filter(wallet=child).values_list("parent_id", flat=True)
        purses = ledger.lock_purses((wallet_id, *seen))
        grants = list(
            _unmade(MonthlyGrant.objects.filter(wallet=child, parent_id__in=purses), month)
            .select_related(*owners_of("parent"))
            .order_by("pk")
        )
        if grants:
            _raise_to_target(child, grants, month, people, purses)


def _raise_to_target(
    child: Account, grants: Sequence[MonthlyGrant], month: date, people: People, purses: dict[UUID, ledger.Purse]
) -> None:
    weights = [grant.amount if _entitled(grant.parent, child, people) else 0 for grant in grants]
    target = sum(weights)
    shares = split(max(0, target - purses[child.pk].balance), weights)
    moved = [min(share, purses[grant.parent_id].available) for grant, share in zip(grants, shares, strict=True)]
    orders = {
        grant.parent_id: Order(TransferKind.GRANT, grant.parent_id, child.pk, part, f"{month:%Y-%m}")
        for grant, part in zip(grants, moved, strict=True)
        if part > 0
    }
    done = dict(zip(orders, hand_over(list(orders.values()), None, purses), strict=True)) if orders else {}
    at = clock.now()
    for grant, share, part in zip(grants, shares, moved, strict=True):
        if share > part:
            _tell_of_shortfall(grant.parent, child, share - part, month, at)
        GrantRefill.objects.create(
            wallet=child,
            parent_id=grant.parent_id,
            month=month,
            amount=grant.amount,
            moved=part,
            shortfall=share - part,
            transfer=done.get(grant.parent_id),
            at=at,
        )


def _entitled(parent: Account, child: Account, people: People) -> bool:
    """Who left, or is deactivated, is raised by nobody."""
    try:
        check_receiver(parent, child, people)
    except DomainError:
        return False
    return True


def _tell_of_shortfall(parent: Account, child: Account, lacking: int, month: date, at: datetime) -> None:
    """The first shortfall of a parent in a month is told; the report has the others. The parent's wallet is locked."""
    if GrantRefill.objects.filter(parent=parent, month=month, shortfall__gt=0).exists():
        return
    for person in administrators_of(parent):
        with in_language_of(person):
            words = {"place": parent.owner_name, "name": child.owner_name, "amount": display_credits(lacking)}
            notices.notify(
                user_id=person.pk,
                kind="grant_shortfall",
                title=_("%(place)s cannot pay all its monthly grants") % words,
                body=_("%(name)s is %(amount)s credits short; there may be others.") % words,
                at=at,
                link="/admin/credits/refills/",
            )
