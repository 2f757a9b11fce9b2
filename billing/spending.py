"""What places spend: this month, today, per hour now, and of which budget. For administrators' pages.

Guarantees: one statement whatever the number of places, runs and charges; sums are those of the ledger's charges by the
time they bill. Only places that have spent, run or have a budget are in the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    CharField,
    Count,
    DateField,
    DateTimeField,
    DecimalField,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
)
from django.db.models.functions import Cast, Coalesce, Floor

from accounts.permissions import Reach
from billing.domain.pricing import FULL_PRICE_MILLI
from billing.models import SYSTEM_ID, Account, Budget, BudgetPeriod, CreditRequest, Meter, Posting, RequestState

Level = Literal["organisation", "group"]
_COLUMNS = ("what", "key", "name", "amount", "more", "how")


@dataclass(slots=True)
class SpendOfPlace:
    """What an organisation or a group spends. `limit` is that of its tightest budget in force, None without one."""

    id: UUID
    name: str
    month: int = 0
    today: int = 0
    hourly: int = 0
    limit: int | None = None
    used: int = 0
    mode: str = ""

    @property
    def percent(self) -> int:
        """How much of the budget is used; 0 without one."""
        return self.used * 100 // self.limit if self.limit else 0


def scope_frame(reach: Reach, viewer_id: UUID, level: Level | None, place_id: UUID | None) -> tuple[int, int]:
    """What is free in the wallet of a place (without one the system's), and how many requests the viewer may decide.

    The same requests for credits as his inbox holds. One statement, two before the wallet's first use.
    """
    asked = open_requests(reach, viewer_id).order_by().values("state").annotate(n=Count("pk")).values("n")
    rows = (
        Account.objects.filter(pk=SYSTEM_ID) if level is None else Account.objects.filter(**{f"{level}_id": place_id})
    )
    waiting = Coalesce(Subquery(asked), 0, output_field=IntegerField())
    found = rows.annotate(waiting=waiting).values_list("balance", "held", "waiting").first()
    if found is None:
        return 0, open_requests(reach, viewer_id).count()
    return (found[0] or 0) - found[1], found[2]


def open_requests(reach: Reach, viewer_id: UUID) -> QuerySet[CreditRequest]:
    """What somebody with this reach may decide: asked of his places, and never asked by himself."""
    rows = CreditRequest.objects.filter(state=RequestState.OPEN).exclude(asked_by_id=viewer_id)
    if reach.everything:
        return rows
    return rows.filter(Q(parent__group__in=reach.groups) | Q(parent__organisation__in=reach.organisations))


def spend_of_places(
    level: Level, *, month: datetime, today: datetime, at: datetime, within: Collection[UUID] | None = None
) -> list[SpendOfPlace]:
    """Every place of a level (or those `within`), the dearest of this month first. One statement."""
    parts = (_charged(level, month, today), _running(level), _budgets(level, at))
    rows: list[QuerySet[Any]] = [
        part if within is None else part.filter(**{f"{'' if model is Budget else way}{level}__in": list(within)})
        for (part, model, way) in parts
    ]
    shown = [row.values_list(*_COLUMNS) for row in rows]
    found: dict[UUID, SpendOfPlace] = {}
    for kind, key, name, amount, more, mode in shown[0].union(*shown[1:], all=True):
        place = found.setdefault(key, SpendOfPlace(key, name))
        _take(place, kind, int(amount), int(more), mode)
    return sorted(found.values(), key=lambda place: (-place.month, -place.hourly, place.name))


def _take(place: SpendOfPlace, kind: str, amount: int, more: int, mode: str) -> None:
    if kind == "charged":
        place.month, place.today = amount, more
    elif kind == "running":
        place.hourly = amount
    elif place.limit is None or more * place.limit > place.used * amount:
        place.limit, place.used, place.mode = amount, more, mode


def _named(rows: QuerySet[Any], kind: str, way: str, level: Level) -> QuerySet[Any]:
    return rows.order_by().values(
        what=Value(kind, CharField()), key=F(f"{way}{level}_id"), name=F(f"{way}{level}__name"), how=_mode(kind)
    )


def _mode(kind: str) -> Any:
    return F("mode") if kind == "budget" else Value("", CharField())


def _charged(level: Level, month: datetime, today: datetime) -> tuple[QuerySet[Any], type, str]:
    amount, nothing = Sum("transfer__amount"), Value(0, BigIntegerField())
    rows = _named(Posting.objects.filter(billed_from__gte=month), "charged", "meter__", level).annotate(
        amount=Cast(amount, BigIntegerField()),
        more=Cast(Coalesce(Sum("transfer__amount", filter=Q(billed_from__gte=today)), nothing), BigIntegerField()),
    )
    return rows, Posting, "meter__"


def _running(level: Level) -> tuple[QuerySet[Any], type, str]:
    """Products beyond 64 bits: the price of an hour is computed in `numeric`, floored for each run."""
    wide = DecimalField(max_digits=40, decimal_places=0)
    product = Cast("rate_micro_per_hour", wide) * Cast("occupancy_numerator", wide) * Cast("factor_milli", wide)
    hourly = Floor(product / (Cast("occupancy_denominator", wide) * Value(FULL_PRICE_MILLI, wide)), output_field=wide)
    rows = _named(Meter.objects.running(), "running", "", level).annotate(
        amount=Cast(Sum(hourly), BigIntegerField()), more=Value(0, BigIntegerField())
    )
    return rows, Meter, ""


def _budgets(level: Level, at: datetime) -> tuple[QuerySet[Any], type, str]:
    now = BudgetPeriod.objects.filter(budget=OuterRef("pk"), starts_at__lte=at, ends_at__gt=at).order_by("-starts_at")
    day = Cast(Func(F("time_zone"), Value(at), function="timezone", output_field=DateTimeField()), DateField())
    in_force = Q(first_day=None) | Q(
        first_day__lte=day, last_day__gte=day
    )  # days of the budget's own zone, both included
    rows = Budget.objects.filter(in_force, **{"is_active": True, f"{level}__isnull": False})
    spent = Coalesce(Subquery(now.values("spent")[:1]), Value(0, BigIntegerField()))
    found = _named(rows, "budget", "", level).annotate(
        amount=Cast(F("limit"), BigIntegerField()), more=Cast(spent + F("held"), BigIntegerField())
    )
    return found, Budget, ""
