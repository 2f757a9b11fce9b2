"""Usage reports: billing's sums, and those by offering, which only sessions know; and what a session's runs came to.

Guarantees: whatever they are grouped by, lines come to the same total as the ledger's charges; a caller sees his own use, and that of a
place only as its administrator. A run's summary is made of rows that are never deleted, so it stays when everything else is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, get_args
from uuid import UUID

from billing import queries as billing
from billing.queries import Bill, ReportAsked, UsageRow
from catalog import queries as catalog
from sessions_app.domain.lifecycle import TERMINAL
from sessions_app.models import Run, Session
from sessions_app.queries import administered_scope

if TYPE_CHECKING:
    from accounts.models import User

By = Literal["session", "user", "group", "organisation", "offering", "day"]
BY: tuple[str, ...] = get_args(By)
CHUNK = 5_000


def scoped(asked: ReportAsked, user: User, scope: str) -> ReportAsked:
    """The question narrowed to a scope: nothing for one's own, `group:<id>`, `organisation:<id>` or `all` for administrators.

    Raises `not_found` for a scope that is not his.
    """
    if not scope:
        return replace(asked, scope="user", whose=user.pk)
    kind, whose = administered_scope(user, scope)
    return replace(asked, scope=kind, whose=whose)


def usage(by: By, asked: ReportAsked) -> list[UsageRow]:
    """The report's lines."""
    return _by_offering(asked) if by == "offering" else billing.usage(by, asked)


def _by_offering(asked: ReportAsked) -> list[UsageRow]:
    rows = billing.usage("session", asked)
    lines: dict[UUID, list[UsageRow]] = {}
    for start in range(0, len(rows), CHUNK):
        part = {UUID(row.key): row for row in rows[start : start + CHUNK]}
        found = Session.objects.filter(pk__in=part, offering__isnull=False).values_list("pk", "offering_id")
        for session_id, offering_id in found:
            lines.setdefault(offering_id, []).append(part[session_id])
    names = catalog.offering_names(lines)
    merged = [replace(billing.usage_total(part), key=str(key), name=names[key]) for key, part in lines.items()]
    return sorted(merged, key=lambda row: (-row.amount, row.key))


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What one run came to. `bill` is None for a run without a card."""

    run: Run
    bill: Bill | None
    running_us: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A session's ended runs, and all of them in one. `final` once the session has ended."""

    session: Session
    runs: Sequence[RunSummary]
    final: bool

    @property
    def running_us(self) -> int:
        return sum(run.running_us for run in self.runs)

    @property
    def charged(self) -> int:
        return sum(run.bill.charged for run in self.runs if run.bill is not None)

    @property
    def not_billed(self) -> int:
        return sum(run.bill.not_billed for run in self.runs if run.bill is not None)


def summary(session: Session) -> Summary:
    """What the runs that are over came to. Two statements."""
    runs = list(Run.objects.filter(session=session, closed_at__isnull=False).order_by("number"))
    bills = billing.bills_of([run.pk for run in runs])
    found = [RunSummary(run, bills.get(run.pk), _running_us(run, bills.get(run.pk))) for run in runs]
    return Summary(session, found, session.life in TERMINAL)


def _running_us(run: Run, bill: Bill | None) -> int:
    """What was billed; without a card from ready to the end that was asked for, as far as it is known to have lived."""
    if bill is not None:
        return bill.running_us
    ends: list[datetime] = [at for at in (run.end_asked_at, run.last_alive_at, run.closed_at) if at is not None]
    if run.ready_at is None or not ends:
        return 0
    return max(0, int((min(ends) - run.ready_at).total_seconds() * 1_000_000))
