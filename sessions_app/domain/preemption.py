"""Who may be asked to make room for whom. Pure.

Guarantees: only who declared himself preemptible, runs, and has a strictly lower priority; nobody before he has run for
`min_runtime`; nobody twice within `again_after` for the same person. Which of them are asked, and whether that helps, is the
metal's to say (`cluster.domain.preemption`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Rules:
    """How long everybody is left alone at first, and between two preemptions for the same person."""

    min_runtime: timedelta
    again_after: timedelta


@dataclass(frozen=True, slots=True)
class Runner:
    """A session as the rules see it.

    `ran`: since it was last admitted, so that a restart buys no time; None when it does not run. `asked_at`: the last time for
    the same person.
    """

    preemptible: bool
    priority: int
    ran: timedelta | None
    asked_at: datetime | None = None


def may_be_asked(runner: Runner, *, priority: int, rules: Rules, now: datetime) -> bool:
    """Whether a session may be asked to make room for a request of this priority."""
    if not runner.preemptible or runner.priority >= priority or runner.ran is None:
        return False
    if runner.ran < rules.min_runtime:
        return False
    return runner.asked_at is None or now - runner.asked_at >= rules.again_after
