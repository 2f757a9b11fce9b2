"""Rows for `bench billing`: people with wallets and sessions that run, all of them due.

`python -m gshare_site.benches.money_rows fill|bare|tick|check …` is a process of its own, because it serves the throw-away
database and its secrets. Guarantees: what it fills in agrees with itself (trial balance), as if the services had written it
one by one; that would take longer than the bench.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django

from gshare_site.benches import scratch

RATE = 50_000_000
HOLD = 12_500_000  # an hour of a quarter of a card
START = datetime(2026, 1, 10, 9, tzinfo=UTC)
DUE = START + timedelta(minutes=31)
TICK = START + timedelta(minutes=35)
WARM = 2_000
BATCH = 1_000

# One statement a table, over the rows that a tick writes.
_BARE = (
    (
        "INSERT INTO billing_transfer (id, at, kind, debit_id, credit_id, amount, debit_number, debit_balance, reference,"
        " label, note, key) SELECT gen_random_uuid(), now(), 'charge', wallet_id, %(revenue)s, 7291666,"
        " 100 + row_number() OVER (PARTITION BY wallet_id), 1, reference, label, '', 'bare/' || run_id FROM billing_meter"
    ),
    (
        "INSERT INTO billing_posting (transfer_id, meter_id, billed_from, billed_to)"
        " SELECT t.id, m.run_id, m.charged_until, m.charged_until + interval '35 minutes'"
        " FROM billing_meter m JOIN billing_transfer t ON t.key = 'bare/' || m.run_id"
    ),
    (
        "UPDATE billing_meter SET held = held + 1, charged = 7291666, charged_until = charged_until + interval '35 minutes',"
        " hold_ends_at = hold_ends_at + interval '35 minutes', due_at = due_at + interval '35 minutes'"
    ),
    "UPDATE billing_account SET balance = balance - 1, held = held + 1, entries = entries + 10 WHERE kind = 'user'",
    "UPDATE billing_budget SET held = held + 1",
    "UPDATE billing_budgetperiod SET spent = spent + 1",
)


def main() -> None:
    """Run one of the acts and print what it found as JSON."""
    parser = ArgumentParser()
    parser.add_argument("act", choices=["fill", "bare", "tick", "check"])
    for name in ("sessions", "users", "groups"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    json.dump({"fill": fill, "bare": bare, "tick": tick, "check": check}[options.act](options), sys.stdout)


def fill(options: Namespace) -> dict[str, Any]:
    """People, budgets, wallets with credits, and sessions that have run for half of their holds."""

    scopes = _people(options)
    budgets = _budgets(scopes, options)
    each = options.sessions // options.users
    for part in _batches(scopes):
        _wallets(part, each, budgets)
    scratch.analyse()
    return {"sessions": each * options.users}


def _people(options: Namespace) -> list[Any]:
    from accounts.models import Group, Organisation, User  # noqa: PLC0415 -- after django.setup()
    from billing.domain.facts import Scopes  # noqa: PLC0415 -- likewise

    place = Organisation.objects.create(name="Bench", created_at=START)
    groups = [Group(organisation=place, name=f"group {n:05d}", created_at=START) for n in range(options.groups)]
    Group.objects.bulk_create(groups)
    users = [
        User(email=f"u{n}@bench.example", name=f"u{n}", organisation=place, created_at=START, password="!")  # noqa: S106 -- nobody signs in
        for n in range(options.users)
    ]
    User.objects.bulk_create(users, batch_size=BATCH)
    return [Scopes(user.pk, groups[n % len(groups)].pk, place.pk) for n, user in enumerate(users)]


def _budgets(scopes: Sequence[Any], options: Namespace) -> dict[Any, Any]:
    from billing.models import Budget, BudgetPeriod  # noqa: PLC0415 -- after django.setup()

    people: dict[Any, int] = {}
    for scope in scopes:
        people[scope.group_id] = people.get(scope.group_id, 0) + 1
    each = options.sessions // options.users
    budgets = [
        Budget(
            group_id=group,
            limit=10**15,
            mode="block",
            time_zone="Asia/Seoul",
            held=count * each * HOLD,
            created_at=START,
        )
        for group, count in people.items()
    ]
    Budget.objects.bulk_create(budgets, batch_size=BATCH)
    first, last = datetime(2025, 12, 31, 15, tzinfo=UTC), datetime(2026, 1, 31, 15, tzinfo=UTC)
    BudgetPeriod.objects.bulk_create(
        [BudgetPeriod(budget=budget, starts_at=first, ends_at=last) for budget in budgets], batch_size=BATCH
    )
    return {budget.group_id: budget.pk for budget in budgets}


def _wallets(scopes: Sequence[Any], each: int, budgets: dict[Any, Any]) -> None:
    from billing import ledger  # noqa: PLC0415 -- after django.setup()
    from billing.models import MINT_ID, Meter, MeterInterval, TransferKind  # noqa: PLC0415 -- likewise
    from billing.services import ensure_wallets  # noqa: PLC0415 -- likewise
    from gshare_core.ids import uuid7  # noqa: PLC0415 -- likewise
    from gshare_core.kit import locks  # noqa: PLC0415 -- likewise

    known = ensure_wallets("user", [scope.user_id for scope in scopes])
    wallets = [known[scope.user_id] for scope in scopes]
    with locks.ordered():
        purses = ledger.lock_purses(wallets)
        credit = [
            ledger.Movement(TransferKind.ADJUST, MINT_ID, wallet, 4 * each * HOLD, f"fill/{wallet}", START)
            for wallet in wallets
        ]
        ledger.post(credit, purses, dict.fromkeys(wallets, each * HOLD))
        meters = [
            _meter(Meter, uuid7(), scope, wallet, budgets[scope.group_id])
            for scope, wallet in zip(scopes, wallets, strict=True)
            for _session in range(each)
        ]
        _copy(meters)
        _copy([MeterInterval(meter=meter, starts_at=START) for meter in meters])


def _copy(rows: Sequence[Any]) -> None:
    """All columns of new rows of one model, as fast as PostgreSQL takes them."""
    from django.db import connection  # noqa: PLC0415 -- after django.setup()

    fields = rows[0]._meta.concrete_fields
    columns = ", ".join(f'"{field.column}"' for field in fields)
    with connection.cursor() as cursor, cursor.copy(f'COPY "{rows[0]._meta.db_table}" ({columns}) FROM STDIN') as copy:
        for row in rows:
            copy.write_row([getattr(row, field.attname) for field in fields])


def _meter(model: Any, key: Any, scope: Any, wallet: Any, budget: Any) -> Any:
    return model(
        run_id=key,
        reference=key,
        number=1,
        label="bench",
        user_id=scope.user_id,
        group_id=scope.group_id,
        organisation_id=scope.organisation_id,
        wallet_id=wallet,
        rate_micro_per_hour=RATE,
        occupancy_numerator=1,
        occupancy_denominator=4,
        opened_at=START,
        billable_from=START,
        started_at=START,
        charged_until=START,
        proven_until=TICK,
        held=HOLD,
        target=HOLD,
        counted_by=[budget],
        hold_ends_at=START + timedelta(hours=1),
        due_at=DUE,
    )


def bare(_options: Namespace) -> dict[str, Any]:
    """How long the rows take by themselves; taken back afterwards."""
    from django.db import connection, transaction  # noqa: PLC0415 -- after django.setup()

    from billing.models import REVENUE_ID  # noqa: PLC0415 -- likewise

    with transaction.atomic(), connection.cursor() as cursor:
        began, worked = time.perf_counter(), _database_cpu()
        for statement in _BARE:
            cursor.execute(statement, {"revenue": REVENUE_ID})
        seconds, cpu = time.perf_counter() - began, _database_cpu() - worked
        transaction.set_rollback(True)
    connection.close()
    scratch.analyse()
    return {"seconds": seconds, "cpu": cpu}


def _database_cpu() -> float:
    """Processor seconds of this process' own server process, which runs on the same machine."""
    from django.db import connection  # noqa: PLC0415 -- after django.setup()

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    user, system = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def tick(options: Namespace) -> dict[str, Any]:
    """A small tick first, which shows what one takes by itself; then all that is due."""
    from billing import services as billing  # noqa: PLC0415 -- after django.setup()
    from gshare_core.clock import ManualClock  # noqa: PLC0415 -- likewise
    from gshare_core.kit import clock  # noqa: PLC0415 -- likewise

    with clock.using(ManualClock(TICK)):
        few = min(WARM, options.sessions // 10)
        first = billing.top_up_due(limit=few)
        before = resource.getrusage(resource.RUSAGE_SELF)
        began, worked = time.perf_counter(), _database_cpu()
        rest = billing.top_up_due()
        seconds, database = time.perf_counter() - began, _database_cpu() - worked
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    whole = options.sessions / max(1, rest.posted)  # as if those of the first tick had been in it
    return {
        "seconds": seconds * whole,
        "cpu": cpu * whole,
        "database_cpu": database * whole,
        "posted": first.posted + rest.posted,
        "filled": first.filled + rest.filled,
        "growth_mib": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }


def check(_options: Namespace) -> dict[str, Any]:
    """The trial balance."""
    from billing.trial import differences  # noqa: PLC0415 -- after django.setup()

    return {"differences": [str(found) for found in differences()[:10]]}


def _batches(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


if __name__ == "__main__":
    django.setup()
    main()
