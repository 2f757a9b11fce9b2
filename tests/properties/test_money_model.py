"""Money against a plain model: thousands of random acts on random clocks, every balance and counter to the micro-credit.

Each seed is a story of acts on a real database, played at the same time on paper (`money_model`, `money_play`). After every act
both must agree on everything that is stored. A story that fails is made shorter before it is told.
`GSHARE_TEST_SOAK_ROUNDS` says how many stories.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from billing.models import (
    REVENUE_ID,
    Account,
    Allocation,
    Budget,
    BudgetAlert,
    BudgetPeriod,
    CreditRequest,
    GrantRefill,
    Meter,
    MonthlyGrant,
    Transfer,
)
from billing.trial import differences
from gshare_core.clock import ManualClock
from gshare_core.kit import clock
from gshare_site.settings.test import GIVEN
from tests.properties.money_model import Paper
from tests.properties.money_parts import Clockwork, micros
from tests.properties.money_play import Act, Both, month_number

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3600)]

STORIES = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0")) or 12
LENGTH = 100
STARTS = (
    datetime(2026, 3, 30, tzinfo=UTC),
    datetime(2028, 2, 26, 22, tzinfo=UTC),
    datetime(2026, 10, 30, 3, tzinfo=UTC),
)
MOVES = tuple(
    timedelta(seconds=seconds) for seconds in (0, 1, 60, 20 * 60, 45 * 60, 3 * 3600, 26 * 3600, 6 * 86_400, -1, -1_200)
)
ACTS = (
    *["open", "ready", "tick", "alive"] * 4,
    *["ask_end", "settle", "suspend", "reopen", "carry"],
    *["allocate", "reclaim", "bulk", "issue", "adjust", "grant", "refill", "ask", "decide"],
    *["budget", "change_budget", "close_budget", "rederive", "leave", "join", "join", "deactivate", "reprice", "month"],
)


def a_story(seed: int) -> tuple[datetime, list[Act]]:
    """Where the clock begins, and what is done."""
    random = Random(seed)
    return random.choice(STARTS), [
        (
            random.choice(MOVES),
            random.choice(ACTS),
            random.randrange(60),
            random.randrange(60),
            random.randrange(10**6),
        )
        for _act in range(LENGTH)
    ]


def what_differs(start: datetime, acts: list[Act]) -> str:
    """Play the story; answers the first disagreement, or nothing. The database is as before afterwards."""
    time = ManualClock(start)
    with transaction.atomic(), clock.using(time):
        both = Both.build(time)
        try:
            for act in acts:
                both.play(act)
                compare(both.paper, act)
            assert both.paper.minted == both.paper.earned + sum(purse.balance for purse in both.paper.purses.values())
            assert differences() == []
        except AssertionError as fault:
            return str(fault) or "disagree"
        finally:
            transaction.set_rollback(True)
    return ""


def shortest(start: datetime, acts: list[Act]) -> list[Act]:
    """Leave out whatever the disagreement does not need."""
    kept = list(acts)
    for number in reversed(range(len(acts))):
        fewer = kept[:number] + kept[number + 1 :]
        if what_differs(start, fewer):
            kept = fewer
    return kept


def compare(paper: Paper, act: Act) -> None:
    """Everything that is stored against the paper."""
    told = on_paper(paper)
    for what, kept in stored().items():
        assert kept == told[what], f"{what} after {act}: {kept} on paper {told[what]}"
    for row in BudgetPeriod.objects.filter(budget__is_active=True):
        spent = paper.spent(paper.limits[row.budget_id], micros(row.starts_at))
        assert row.spent == spent, f"spent in {row} after {act}: {row.spent} on paper {spent}"


@pytest.mark.parametrize("seed", range(STORIES))
def test_every_balance_and_counter_is_what_the_plain_model_says(seed: int) -> None:
    start, acts = a_story(seed)
    if fault := what_differs(start, acts):
        short = shortest(start, acts)
        pytest.fail(
            f"seed {seed}: {fault}\nshort: {what_differs(start, short)}\n{start!r}\n" + "\n".join(map(repr, short))
        )


# Comparing -----------------------------------------------------------------------------------------------------------


def stored() -> dict[str, Any]:
    """Everything that money keeps."""
    return {
        "wallets": {row.pk: (row.balance, row.held, row.entries) for row in Account.objects.wallets()},
        "earned": sum(Transfer.objects.filter(credit_id=REVENUE_ID).values_list("amount", flat=True)),
        "net": {(row.wallet_id, row.parent_id): row.net for row in Allocation.objects.filter(net__gt=0)},
        "budgets": {row.pk: (row.held, row.limit, row.is_active) for row in Budget.objects.all()},
        "alerts": set(_alerts()),
        "meters": {row.run_id: _meter(row) for row in Meter.objects.all()},
        "grants": {
            (row.wallet_id, row.parent_id): (row.amount, month_number(row.since)) for row in MonthlyGrant.objects.all()
        },
        "refills": {
            (row.wallet_id, row.parent_id, month_number(row.month)): (row.moved, row.shortfall)
            for row in GrantRefill.objects.all()
        },
        "asks": {row.pk: (row.wallet_id, row.parent_id, row.amount, row.state) for row in CreditRequest.objects.all()},
    }


def _alerts() -> list[tuple[UUID, int, int]]:
    rows = BudgetAlert.objects.select_related("period")
    return [(row.budget_id, micros(row.period.starts_at), row.threshold) for row in rows]


def _meter(row: Meter) -> dict[str, Any]:
    return {
        "held": row.held,
        "charged": row.charged,
        "closed": row.closed_us,
        "not_billed": row.not_billed,
        "short": row.short,
        "counted": set(row.counted_by),
        "settled": row.settled_at is not None,
        "running": row.started_at is not None,
        "until": micros(row.charged_until) if row.charged_until else None,
        "due": micros(row.due_at) if row.due_at else None,
    }


def on_paper(paper: Paper) -> dict[str, Any]:
    """The same from the model."""
    return {
        "wallets": {key: (purse.balance, purse.held, purse.entries) for key, purse in paper.purses.items()},
        "earned": paper.earned,
        "net": {key: net for key, net in paper.net.items() if net},
        "budgets": {key: (limit.held, limit.limit, limit.active) for key, limit in paper.limits.items()},
        "alerts": set(paper.alerts),
        "meters": {key: _clockwork(meter) for key, meter in paper.meters.items()},
        "grants": dict(paper.grants),
        "refills": dict(paper.refills),
        "asks": dict(paper.asks),
    }


def _clockwork(meter: Clockwork) -> dict[str, Any]:
    running = meter.start is not None
    return {
        "held": meter.held,
        "charged": meter.charged,
        "closed": meter.closed,
        "not_billed": meter.not_billed,
        "short": meter.short,
        "counted": meter.counted,
        "settled": meter.settled,
        "running": running,
        "until": meter.until if running else None,
        "due": meter.due,
    }
