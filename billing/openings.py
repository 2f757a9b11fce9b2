"""Opening meters: what somebody who wants to run something may have held, and the hold itself.

Guarantees: budgets, periods and wallets of all who open together are locked once, in the documented order; each sees what
was set aside for those before him; `close` writes each row once.
Refuses: a hold that the wallet or a blocking budget does not allow, before anything is written.

Everything runs inside `locks.ordered()` and takes `at`, read after the caller's locks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from billing.books import Books
from billing.domain.facts import BudgetFact, Cost, MoneyFacts, Purpose, Scopes
from billing.domain.pricing import Price
from billing.models import Meter
from billing.queries import cost_of
from gshare_core.errors import DomainError
from gshare_core.kit import locks
from gshare_core.kit.rows import insert
from gshare_core.money import display_credits, format_credits


@dataclass(frozen=True, slots=True)
class Opening:
    """The meter of a run, or of the wait for it, to be opened; `hold` is what a full hold is from then on."""

    run_id: UUID
    purpose: Purpose
    scopes: Scopes
    price: Price
    hold: int


class Openings:
    """The open books of those who want to run something at the same instant. See the module."""

    def __init__(self, scopes: Collection[Scopes], *, at: datetime) -> None:
        self._at = at
        self._books, self._wallets = Books.open_at(scopes, at)
        self._meters: dict[UUID, Meter] = {}

    def facts(self, scopes: Scopes) -> MoneyFacts:
        """What gates 5 and 6 look at, beside what was set aside here before."""
        return self._books.facts(scopes, self._wallets.get(scopes.user_id))

    def open(self, opening: Opening, *, number: int = 1) -> Meter:
        """Set the hold aside: on the wallet and on every budget that counts. Written at `close`.

        Raises DomainError `budget_exceeded` or `insufficient_credit`, ValueError for a hold that is not positive.
        """
        if opening.hold <= 0:
            raise ValueError("a paid run needs a hold above 0")
        scopes, price = opening.scopes, opening.price
        meter = Meter(
            run_id=opening.run_id,
            reference=opening.purpose.reference,
            number=number,
            label=opening.purpose.label,
            user_id=scopes.user_id,
            group_id=scopes.group_id,
            organisation_id=scopes.organisation_id,
            wallet_id=check_room(self.facts(scopes), opening.hold),
            rate_micro_per_hour=price.rate_micro_per_hour,
            occupancy_numerator=price.occupancy.numerator,
            occupancy_denominator=price.occupancy.denominator,
            factor_milli=price.factor_milli,
            opened_at=self._at,
            billable_from=self._at,
            target=opening.hold,
        )
        self._books.join(meter)
        self._books.hold(meter, opening.hold)
        self._meters[opening.run_id] = meter
        return meter

    def drop(self, run_id: UUID) -> None:
        """Take a meter back that was opened here, as if it had never been asked for."""
        self._books.release(self._meters.pop(run_id))

    def cost(self, run_id: UUID) -> Cost:
        """What a meter that was opened here says of its run's cost."""
        return cost_of(self._meters[run_id], self._at)

    def close(self) -> None:
        """Write holds and meters."""
        self._books.close()
        if self._meters:
            insert(*self._meters.values())


def lock_money(scopes: Scopes, *, at: datetime) -> MoneyFacts:
    """Lock the budgets, periods and wallet of somebody who wants to run something; what gates 5 and 6 look at."""
    with locks.ordered():
        return Openings([scopes], at=at).facts(scopes)


def open_meter(opening: Opening, *, at: datetime, first: bool = False) -> Meter:
    """Open the meter of one run. See `Openings.open`; `first` when nothing can have been metered for this purpose before."""
    with locks.ordered():
        openings = Openings([opening.scopes], at=at)
        number = 1 if first else Meter.objects.filter(reference=opening.purpose.reference).count() + 1
        meter = openings.open(opening, number=number)
        openings.close()
        return meter


def check_room(facts: MoneyFacts, hold: int) -> UUID:
    """The wallet that can hold this much. Raises the refusals of gates 5 and 6."""
    for budget in facts.budgets:
        if budget.blocks and hold > budget.room:
            raise _budget_exceeded(budget, hold)
    if facts.wallet_id is None or hold > facts.available:
        raise DomainError(
            "insufficient_credit",
            f"It needs {display_credits(hold)} cr, {display_credits(facts.available)} cr are available.",
            remedy="Take a smaller size, or request credits from your group.",
            facts={"needed": format_credits(hold), "available": format_credits(facts.available)},
            gate=6,
        )
    return facts.wallet_id


def _budget_exceeded(budget: BudgetFact, hold: int) -> DomainError:
    return DomainError(
        "budget_exceeded",
        f"The budget has {display_credits(budget.room)} of {display_credits(budget.limit)} cr left;"
        f" this needs {display_credits(hold)} cr.",
        remedy="Wait for the next period, take a smaller size, or ask who set the budget.",
        facts={
            "scope": budget.scope,
            "limit": format_credits(budget.limit),
            "spent": format_credits(budget.spent),
            "held": format_credits(budget.held),
            "needed": format_credits(hold),
        },
        gate=5,
    )
