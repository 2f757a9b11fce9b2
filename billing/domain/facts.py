"""What billing is asked with and answers with: frozen, without a reference to any row.

Amounts are micro-credits, times aware UTC. A scope in words is `user:<id>`, `group:<id>` or `organisation:<id>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from billing.domain.budgets import Mode

ScopeKind = Literal["user", "group", "organisation"]


@dataclass(frozen=True, slots=True)
class Scopes:
    """Who runs something, in which group of which organisation: whose wallet pays and whose budgets count."""

    user_id: UUID
    group_id: UUID
    organisation_id: UUID

    def as_pairs(self) -> tuple[tuple[ScopeKind, UUID], ...]:
        """Kind and id of each scope, the narrowest first."""
        return ("user", self.user_id), ("group", self.group_id), ("organisation", self.organisation_id)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a meter is for: the session and its name, which statements show."""

    reference: UUID
    label: str


@dataclass(frozen=True, slots=True)
class BudgetFact:
    """A budget that counts the scopes: limit, spent in the present period, held."""

    budget_id: UUID
    scope: str
    limit: int
    spent: int
    held: int
    mode: Mode

    @property
    def room(self) -> int:
        """What may still be held or spent; never negative."""
        return max(0, self.limit - self.spent - self.held)

    @property
    def blocks(self) -> bool:
        """Whether it refuses what would exceed it."""
        return self.mode == "block"


@dataclass(frozen=True, slots=True)
class MoneyFacts:
    """What there is to pay with. `wallet_id` is None while the user has no wallet yet (then all is 0)."""

    wallet_id: UUID | None
    balance: int
    held: int
    budgets: tuple[BudgetFact, ...]

    @property
    def available(self) -> int:
        """What is free to be held."""
        return self.balance - self.held


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a run came to: totals of the run, what this call gave back, and the stretch of its last interval.

    All zero for what has no meter.
    """

    charged: int = 0
    released: int = 0
    not_billed: int = 0
    billed_from: datetime | None = None
    billed_to: datetime | None = None
    running_us: int = 0


Shortage = Literal["credit_exhausted", "budget_exhausted"]


@dataclass(frozen=True, slots=True)
class Cost:
    """A run's money as it stands: per hour, accrued since the last posting, posted, held, how far the hold reaches."""

    hourly: int
    accrued: int
    charged: int
    held: int
    hold_ends_at: datetime | None
    short: Shortage | None = None

    @property
    def total(self) -> int:
        """What the run has cost so far."""
        return self.charged + self.accrued


@dataclass(frozen=True, slots=True)
class TickResult:
    """What one tick did: meters looked at, charges posted, holds filled wholly and partly, credits charged."""

    looked_at: int = 0
    posted: int = 0
    filled: int = 0
    short: int = 0
    charged: int = 0

    def __add__(self, other: TickResult) -> TickResult:
        return TickResult(
            self.looked_at + other.looked_at,
            self.posted + other.posted,
            self.filled + other.filled,
            self.short + other.short,
            self.charged + other.charged,
        )
