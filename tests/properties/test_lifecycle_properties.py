"""Whatever is asked and reported, in whatever order: the life of a session is closed, and everything that counts agrees.

Random sequences of asks, reports (doubled, late, of old runs and generations), silences, passing deadlines and sweeps are
applied through the services on the real database. After every step the state is known and everything agrees with a
recount; in the end a stop always leads out, by the cluster's word or by the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from billing import services as billing
from billing.models import Account, MeterInterval
from cluster import fleets
from cluster.models import Card, Claim, Cluster
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_site.settings.test import GIVEN
from sessions_app import draining, queue, reconciler
from sessions_app.domain.lifecycle import TERMINAL, State
from sessions_app.models import Run, Session, TimelineEntry
from sessions_app.services import (
    Asked,
    keep_alive,
    pause_session,
    restart_session,
    resume_session,
    stay_paused,
    stop_session,
)
from tests.apps.sessions.world import World, a_world, manual_clock
from tests.builders import Customer, a_customer, fund
from tests.recount import everything_agrees, lives_agree, nothing_is_held

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

VERBS: dict[str, Callable[[Asked], Any]] = {
    "pause": pause_session,
    "resume": resume_session,
    "restart": restart_session,
    "stop": stop_session,
    "keep-alive": keep_alive,
    "stay-paused": stay_paused,
}
EXAMPLES = int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "0")) or 30
FAILURES = ("image_pull_failed", "crash_loop", "claim_mismatch", "node_lock", "node_gone", "mount_failed")
ENDS = ("stopped", "vanished", "evicted", "disk_exceeded", "drained", "node_lost", "cluster_stopped")
NEVER_BILLED = frozenset({State.QUEUED, State.PAUSING, State.PAUSED, State.LOST, State.STOPPING})


@dataclass(frozen=True)
class Ask:
    """Somebody asks for a verb."""

    verb: str


@dataclass(frozen=True)
class Report:
    """The cluster says something, of this run or one before, of this generation or one before, once or twice."""

    phase: str
    reason: str | None = None
    ready: bool = False
    runs_ago: int = 0
    generations_ago: int = 0
    twice: bool = False


@dataclass(frozen=True)
class Pass:
    """Time goes by; the run was seen alive at its end, or was not."""

    seconds: int
    alive: bool


@dataclass(frozen=True)
class Tick:
    """One of the sweeps."""

    name: str


reports = st.one_of(
    st.builds(Report, st.just("running"), ready=st.just(True), twice=st.booleans()),
    st.builds(Report, st.sampled_from(["starting", "pulling", "terminating", "exited"]), ready=st.booleans()),
    st.builds(Report, st.just("gone"), st.sampled_from(ENDS), ready=st.booleans(), twice=st.booleans()),
    st.builds(Report, st.just("failed"), st.sampled_from(FAILURES), ready=st.booleans()),
    st.builds(
        Report,
        st.sampled_from(["running", "gone", "exited"]),
        st.none(),
        ready=st.booleans(),
        runs_ago=st.integers(0, 2),
        generations_ago=st.integers(0, 2),
    ),
)
steps = st.one_of(
    reports,
    reports,
    st.builds(Ask, st.sampled_from(sorted(VERBS))),
    st.builds(Pass, st.sampled_from([1, 59, 181, 601, 2_000, 3_601]), st.booleans()),
    st.builds(Tick, st.sampled_from(["reconcile", "drain", "intents", "top up", "silence", "rival", "broke", "rich"])),
)
plans = st.lists(steps, min_size=3, max_size=12)


@contextmanager
def a_stage(tier: str) -> Iterator[Stage]:
    """A world of its own, rolled back afterwards."""
    time = manual_clock()
    fleets.forget()
    with transaction.atomic(), clock.using(time):
        world = a_world(time, funds=60)
        yield Stage(world, world.create(tier))
        transaction.set_rollback(True)
    fleets.forget()


class Stage:
    """One session, and everything that can happen to it."""

    def __init__(self, world: World, session: Session) -> None:
        self.world, self.id = world, session.pk
        self.rival: Session | None = None

    @property
    def session(self) -> Session:
        return Session.objects.get(pk=self.id)

    def do(self, step: Ask | Report | Pass | Tick) -> None:
        """One step; a refusal is an answer."""
        try:
            match step:
                case Ask():
                    VERBS[step.verb](Asked(self.id, self.world.alice.user))
                case Report():
                    self.report(step)
                case Pass():
                    self.pass_time(step)
                case Tick():
                    self.tick(step.name)
        except DomainError:
            return

    def report(self, step: Report) -> None:
        session = self.session
        run = Run.objects.filter(session=session, number=session.run_number - step.runs_ago).first()
        if run is None or run.cluster_id is None:
            return  # no cluster ever heard of it
        generation = session.generation - step.generations_ago
        if generation < 1:
            return
        changes: dict[str, Any] = {"run": run.number, "generation": generation}
        if step.ready:
            changes["ready_at"] = run.ready_at or self.world.time.now()
        if step.phase == "failed" and step.reason is None:
            return
        told = self._sent(session, step, changes)
        before = self._seen()
        if step.phase != "gone" and (step.runs_ago or step.generations_ago):
            assert not told
        if step.twice:
            assert not self._sent(session, step, changes | {"sequence": 1}), "an older report is stale"
            assert self._seen() == before, "a report that comes again changes nothing"

    def _sent(self, session: Session, step: Report, changes: dict[str, Any]) -> bool:
        return self.world.report(session, step.phase, step.reason, **changes)

    def _seen(self) -> tuple[Any, ...]:
        session = self.session
        return session.state, session.version, session.charged, session.run_number, session.generation

    def pass_time(self, step: Pass) -> None:
        self.world.time.advance(timedelta(seconds=step.seconds))
        session = self.session
        if step.alive and session.life in {State.STARTING, State.RUNNING}:
            self.world.report(session, "running" if session.life is State.RUNNING else "starting")

    def tick(self, name: str) -> None:
        match name:
            case "reconcile":
                reconciler.reconcile()
            case "drain":
                queue.drain()
            case "intents":
                draining.drain()
            case "top up":
                billing.top_up_due()
            case "silence":
                self.fall_silent()
            case "rival":
                self.rival_comes_or_goes()
            case "broke":
                self.spend()
            case "rich":
                fund(self.world.alice, 20)

    def fall_silent(self) -> None:
        Cluster.objects.update(state="lost")
        reconciler.reconcile()
        Cluster.objects.update(state="connected")

    def rival_comes_or_goes(self) -> None:
        """Somebody wants the whole card, or gives it back."""
        if self.rival is None:
            bob: Customer = a_customer(1_000, group=self.world.alice.group)
            self.rival = self.world.create("exclusive", customer=bob)
        else:
            rival = Session.objects.get(pk=self.rival.pk)
            stop_session(Asked(rival.pk, rival.owner))
            rival.refresh_from_db()
            if rival.life is State.STOPPING:
                self.world.gone(rival)
            self.rival = None

    def spend(self) -> None:
        wallet = Account.objects.get(pk=self.world.alice.wallet)
        free = (wallet.balance or 0) - wallet.held
        if free:
            to = billing.ensure_wallet("group", self.world.alice.group.pk)
            billing.reclaim(source=wallet.pk, to=to, amount=free, by=None)

    def comes_back(self) -> None:
        """What is paused can be resumed, whatever it went through, and runs when its cluster says so."""
        Cluster.objects.update(state="connected")
        if self.session.life is not State.PAUSED:
            return
        fund(self.world.alice, 200)
        resume_session(Asked(self.id, self.world.alice.user))
        queue.drain()
        resumed = self.session
        if resumed.life is State.STARTING:
            self.world.ready(resumed)
            assert self.session.life is State.RUNNING
        assert lives_agree()

    # the way out ------------------------------------------------------------------------------------------------------

    def leave_by_word(self) -> None:
        """Stop, and the cluster says that it is gone."""
        self._ask_to_stop()
        if self.session.life not in TERMINAL:
            assert self.world.gone(self.session)

    def leave_by_deadline(self) -> None:
        """Stop, and nobody ever says anything: forced on a Ready node, then ended with its claim left as an orphan."""
        self._ask_to_stop()
        for _forced_then_ended in range(2):
            self.world.time.advance(timedelta(minutes=3, seconds=1))
            reconciler.reconcile()

    def _ask_to_stop(self) -> None:
        if self.session.life not in TERMINAL:
            stop_session(Asked(self.id, self.world.alice.user))
            assert self.session.life in {State.STOPPING, *TERMINAL}

    def late_word(self) -> None:
        """The cluster comes back and says of every run that it is gone."""
        session = self.session
        for run in Run.objects.filter(session=session, gone_at=None).exclude(cluster=None):
            assert self.world.report(session, "gone", "stopped", run=run.number)

    def is_billed_only_while_it_ran(self) -> bool:
        """No billed interval reaches into a stretch of the timeline in which nothing is billed."""
        rows = TimelineEntry.objects.filter(session_id=self.id).exclude(to_state="").order_by("at", "id")
        changes = [(row.at, State(row.to_state)) for row in rows]
        stretches = [(start, end, state) for (start, state), (end, _next) in pairwise(changes)]
        for interval in MeterInterval.objects.filter(meter__reference=self.id):
            assert interval.ends_at is not None
            for start, end, state in stretches:
                if state in NEVER_BILLED:
                    assert _overlap(interval.starts_at, interval.ends_at, start, end) <= timedelta(0), (state, start)
        return True


def _overlap(a: datetime, b: datetime, c: datetime, d: datetime) -> timedelta:
    return min(b, d) - max(a, c)


NEVER_CONFIRMED = [Pass(601, alive=False), Tick("reconcile")] * 2


@example("L", [Report("running", ready=True), Ask("restart"), *NEVER_CONFIRMED], True)
@example("cpu", [Report("failed", "node_lock"), Report("gone", "stopped")], False)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking on a database takes longer than reading a dozen steps
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.sampled_from(["L", "L", "cpu", "exclusive"]), plans, st.booleans())
def test_every_life_is_closed_leads_out_and_leaves_nothing_behind(
    db: None, tier: str, plan: list[Any], by_word: bool
) -> None:
    with a_stage(tier) as stage:
        for step in plan:
            stage.do(step)
            assert lives_agree(), step
        assert everything_agrees()
        stage.comes_back()
        if by_word:
            stage.leave_by_word()
        else:
            stage.leave_by_deadline()
        assert stage.session.life in TERMINAL
        assert everything_agrees()
        assert stage.is_billed_only_while_it_ran()
        stage.late_word()
        assert everything_agrees()
        assert not Claim.objects.holding().filter(session_id=stage.id).exists()
        if stage.rival is not None:
            stage.rival_comes_or_goes()
        assert nothing_is_held()
        assert {card.used_slots for card in Card.objects.all()} == {0}
