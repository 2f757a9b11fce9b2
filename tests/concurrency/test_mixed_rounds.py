"""A thousand mixed acts of eight threads on shared people, cards and wallets: no deadlock, no lock out of order, no drift.

Each seed is a quarter of the thousand; `GSHARE_TEST_SOAK_ROUNDS` makes each seed as many rounds. The clock runs a few
hundred times as fast as the real one, so that holds run out, top-ups come due and deadlines pass within a run.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
import structlog

from accounts.domain.roles import Role
from accounts.models import Group, Membership
from accounts.services import add_membership, remove_membership
from accounts.services.memberships import place_of
from billing import services as billing
from billing.domain.budgets import Rule
from cluster import fleets
from cluster.models import Card, Cluster
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_site.settings.test import GIVEN
from sessions_app import draining, queue, reconciler, recounting
from sessions_app.models import Run, Session
from sessions_app.services import Asked, create_session, pause_session, restart_session, resume_session, stop_session
from tests.apps.sessions.world import NOON, World, a_world, limit
from tests.builders import Customer, a_customer, cr, fund_group
from tests.concurrency.reporting import report
from tests.concurrency.rivals import together
from tests.recount import everything_agrees, nothing_is_held

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
THREADS = 8
SEEDS = range(4)
ROUNDS = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0")) or 250
SPEED = 300
PATIENCE = 500


@dataclass(frozen=True)
class FastClock:
    """One clock for all threads: noon, and then faster than the real one."""

    began: float = field(default_factory=time.monotonic)

    def now(self) -> datetime:
        return NOON + timedelta(seconds=(time.monotonic() - self.began) * SPEED)


class Actor:
    """One thread's random acts; refusals are answers, anything else fails the test."""

    def __init__(self, seed: int, world: World, people: list[Customer], time_: FastClock) -> None:
        self.random = random.Random(seed)
        self.world, self.people, self.time = world, people, time_
        self.done: Counter[str] = Counter()

    def __call__(self) -> Counter[str]:
        acts = [
            *[self.create] * 6,
            *[self.ready] * 8,
            *[self.gone] * 8,
            *[self.stop] * 2,
            *[self.pause] * 3,
            *[self.resume] * 3,
            self.restart,
            self.fails,
            self.old_report,
            self.fall_silent,
            *[self.found] * 3,
            self.top_up,
            self.drain_queue,
            self.drain_queue,
            self.reconcile,
            self.drain_intents,
            *[self.recount] * 2,
            self.allocate,
            self.reclaim,
            self.join_or_leave,
        ]
        with clock.using(self.time):
            for _round in range(max(1, ROUNDS // THREADS)):
                act = self.random.choice(acts)
                try:
                    act()
                    self.done[act.__name__] += 1
                except DomainError as refused:
                    self.done[refused.code] += 1
        return self.done

    # what people do ---------------------------------------------------------------------------------------------------

    def create(self) -> None:
        person = self.random.choice(self.people)
        tier = self.random.choice(["S", "M", "L", "XL", "exclusive", "cpu"])
        create_session(self.world.ask(tier, customer=person), by=person.user)

    def stop(self) -> None:
        self._verb(stop_session)

    def pause(self) -> None:
        self._verb(pause_session, "running", "starting")

    def resume(self) -> None:
        self._verb(resume_session, "paused", "pausing")

    def restart(self) -> None:
        self._verb(restart_session, "running")

    def allocate(self) -> None:
        person = self.random.choice(self.people)
        source = billing.ensure_wallet("group", person.group.pk)
        billing.allocate(source=source, to=person.wallet, amount=cr(self.random.randint(1, 9)), by=None)

    def reclaim(self) -> None:
        person = self.random.choice(self.people)
        to = billing.ensure_wallet("group", person.group.pk)
        billing.reclaim(source=person.wallet, to=to, amount=cr(self.random.randint(1, 9)), by=None)

    def join_or_leave(self) -> None:
        person = self.random.choice(self.people[1:])
        seat = Membership.objects.filter(user=person.user, group=person.group).first()
        if seat is None:
            place = place_of(None, group_id=person.group.pk)
            add_membership(user_id=person.user.pk, place=place, role=Role.MEMBER, by=None)
        elif self.random.random() < 0.4:
            remove_membership(membership_id=seat.pk, by=None)

    # what clusters report ---------------------------------------------------------------------------------------------

    def ready(self) -> None:
        self._report("running", None, "starting", ready=True)

    def gone(self) -> None:
        reason = self.random.choice(["stopped"] * 5 + ["evicted", "vanished", "node_lost"])
        self._report("gone", reason, "stopping", "pausing", "starting" if self.random.random() < 0.2 else "stopping")

    def fails(self) -> None:
        reason = self.random.choice(["image_pull_failed", "crash_loop", "claim_mismatch"])
        self._report("failed", reason, "starting", "running")

    def old_report(self) -> None:
        self._report("gone", "stopped", "running", "starting", "paused", run_before=True)

    def fall_silent(self) -> None:
        """The cluster is lost for the length of a sweep."""
        Cluster.objects.update(state="lost")
        reconciler.silent()
        Cluster.objects.update(state="connected")

    def found(self) -> None:
        self._report("running", None, "lost", ready=True)

    # what ticks do ----------------------------------------------------------------------------------------------------

    def top_up(self) -> None:
        billing.top_up_due()

    def drain_queue(self) -> None:
        queue.drain()

    def reconcile(self) -> None:
        reconciler.reconcile()

    def drain_intents(self) -> None:
        draining.drain()

    def recount(self) -> None:
        assert recounting.differences() == []
        assert recounting.repair() == []

    # how --------------------------------------------------------------------------------------------------------------

    def _pick(self, *states: str) -> Session | None:
        rows = Session.objects.filter(state__in=states) if states else Session.objects.live()
        found = list(rows.order_by("id").select_related("owner"))
        return self.random.choice(found) if found else None

    def _verb(self, verb: Any, *states: str) -> None:
        session = self._pick(*states)
        if session is not None:
            verb(Asked(session.pk, session.owner))

    def _report(
        self, phase: str, reason: str | None, *states: str, ready: bool = False, run_before: bool = False
    ) -> None:
        session = self._pick(*states)
        if session is None:
            return
        number = session.run_number - int(run_before)
        report(session, phase, reason, run=number, ready=ready)


def end_all() -> None:
    """Stop whatever lives, and let the cluster confirm it."""
    for session in Session.objects.live().select_related("owner"):
        stop_session(Asked(session.pk, session.owner))
    for session in Session.objects.live():
        report(session, "gone", "stopped")
    for run in Run.objects.filter(gone_at=None).exclude(closed_at=None).select_related("session"):
        report(run.session, "gone", "stopped", run=run.number)


@contextmanager
def no_deadlocks(owner: psycopg.Connection) -> Iterator[None]:
    """PostgreSQL's own count of deadlocks in this database does not move."""
    before = _deadlocks(owner)
    yield
    assert _deadlocks(owner) == before


def _deadlocks(owner: psycopg.Connection) -> int:
    owner.execute("SELECT pg_stat_clear_snapshot()")
    row = owner.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_mixed_acts_of_eight_threads_deadlock_nobody_and_everything_agrees(
    seed: int, owner_connection: psycopg.Connection, gshare: Any
) -> None:
    fleets.forget()
    gshare(intent_settle=timedelta(0))
    time_ = FastClock()
    with clock.using(time_):
        world = a_world(time_, cards=3)  # type: ignore[arg-type]  # -- it tells the time
        groups = [
            world.alice.group,
            Group.objects.create(organisation=world.alice.group.organisation, name="the other", created_at=NOON),
        ]
        people = [world.alice, *(a_customer(60, group=groups[number % 2]) for number in range(5))]
        for group in groups:
            fund_group(group, 200)
            limit("group", "max_sessions", 12, kind="total", target=group)
            scope = billing.BudgetScope("group", group.pk)
            billing.create_budget(scope=scope, limit=cr(500), mode="block", rule=Rule("UTC"), by=None)
    with no_deadlocks(owner_connection), structlog.testing.capture_logs() as said:
        actors = [Actor(seed * 100 + number, world, people, time_) for number in range(THREADS)]
        results = together(*actors, patience=PATIENCE)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    swallowed = [
        entry for entry in said if entry["event"] in {"step_failed", "dequeue_failed", "dequeue_together_failed"}
    ]
    assert not swallowed, swallowed[:3]
    done = sum(results, Counter())
    assert done["create"] and done["ready"] and done["gone"] and done["pause"], done
    assert everything_agrees()
    with clock.using(time_):
        end_all()
    assert everything_agrees()
    assert nothing_is_held()
    assert not Session.objects.live().exists()
    assert {card.used_slots for card in Card.objects.all()} == {0}
