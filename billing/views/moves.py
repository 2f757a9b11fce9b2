"""What moving credits, or promising them monthly, would come to: now and then, in words, before it is done. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.forms import ValidationError
from django.utils.translation import gettext as _

from billing import queries
from billing.models import Account, Allocation, MonthlyGrant
from billing.views.fields import AmountField, short_words
from gshare_core.kit import wording
from gshare_core.money import display_credits

ACTS = ("allocate", "reclaim", "grant")
_FAR = timedelta(days=365)


def effect(
    act: str, wallet: Account, parents: Sequence[Account], asked: dict[str, str], now: datetime
) -> dict[str, Any]:
    """The rows of the panel (name, now, then), what stands in the way, and the words of the button. Two statements at most."""
    parent = next((row for row in parents if str(row.pk) == asked.get("parent")), parents[0])
    amount = _amount(asked.get("amount", ""))
    made = {"allocate": _allocate, "reclaim": _reclaim, "grant": _grant}[act](wallet, parent, amount, now)
    return {"rows": made[0], "problem": made[1], "submit": made[2]}


def _amount(text: str) -> int | None:
    try:
        found = AmountField().clean(text)
    except ValidationError:
        return None
    return int(found)


Made = tuple[list[dict[str, Any]], str, str]


def _row(name: str, now: int, then: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "unit": True,
        "now": display_credits(now),
        "then": "" if then is None else display_credits(then),
    }


def _allocate(wallet: Account, parent: Account, amount: int | None, now: datetime) -> Made:
    names = {"parent": short_words(parent), "who": short_words(wallet), "free": display_credits(parent.available)}
    rows = [
        _row(_("%(parent)s, free") % names, parent.available, _less(parent.available, amount)),
        _row(_("%(who)s, available") % names, wallet.available, _more(wallet.available, amount)),
        *_lasting(wallet, amount, now),
    ]
    if amount is None:
        return rows, "", _("Allocate credits to %(who)s") % names
    problem = _("%(parent)s has %(free)s cr free.") % names if amount > parent.available else ""
    return rows, problem, _("Allocate %(amount)s cr to %(who)s") % (names | {"amount": display_credits(amount)})


def _reclaim(wallet: Account, parent: Account, amount: int | None, now: datetime) -> Made:
    net = Allocation.objects.filter(wallet=wallet, parent=parent).values_list("net", flat=True).first() or 0
    most = min(net, wallet.available)
    names = {"parent": short_words(parent), "who": short_words(wallet), "most": display_credits(most)}
    less = None if amount is None else -amount
    rows = [
        _row(_("%(parent)s, free") % names, parent.available, _more(parent.available, amount)),
        _row(_("%(who)s, available") % names, wallet.available, _less(wallet.available, amount)),
        *_lasting(wallet, less, now),
    ]
    problem = ""
    if amount is None or amount > most:
        problem = _("At most %(most)s cr come back: what %(parent)s gave and is free.") % names
    if amount is None:
        return rows, problem, _("Take credits back from %(who)s") % names
    return rows, problem, _("Take %(amount)s cr back from %(who)s") % (names | {"amount": display_credits(amount)})


def _grant(wallet: Account, parent: Account, amount: int | None, _now: datetime) -> Made:
    given = dict(MonthlyGrant.objects.filter(parent=parent).values_list("wallet", "amount"))
    own, whole = given.get(wallet.pk, 0), sum(given.values())
    names = {"parent": short_words(parent), "who": short_words(wallet)}
    rows = [
        _row(_("%(who)s gets each month") % names, own, amount),
        _row(_("%(parent)s gives each month") % names, whole, None if amount is None else whole - own + amount),
    ]
    if amount is None:
        return rows, "", _("Set the grant")
    if not amount:
        return rows, "", _("End the grant of %(who)s") % names
    return rows, "", _("Give %(who)s %(amount)s cr a month") % (names | {"amount": display_credits(amount)})


def _less(free: int, amount: int | None) -> int | None:
    return None if amount is None or amount > free else free - amount


def _more(free: int, amount: int | None) -> int | None:
    return None if amount is None else free + amount


def _lasting(wallet: Account, more: int | None, now: datetime) -> list[dict[str, Any]]:
    """Until when a person's credits last for what runs; nothing where nothing runs."""
    if wallet.user_id is None:
        return []
    purse = queries.purse_of(wallet.user_id, now)
    costs = [purse.costs[hold.run_id] for hold in purse.holds if hold.running]
    rate, left = sum(cost.hourly for cost in costs), purse.wallet.available
    left += sum(max(0, cost.held - cost.accrued) for cost in costs)
    if not rate:
        return []
    return [
        {
            "name": _("lasts until"),
            "unit": False,
            "now": _until(left, rate, now),
            "then": "" if more is None else _until(max(0, left + more), rate, now),
        }
    ]


def _until(left: int, rate: int, now: datetime) -> str:
    span = timedelta(seconds=left * 3600 // rate)
    return wording.clock(now + span, now) if span < _FAR else _("more than a year")
