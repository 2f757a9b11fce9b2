"""Restarts and misplaced starts that end otherwise than hoped: the next run begins as if nothing had been."""

from datetime import timedelta

import pytest

from billing.models import Account, Meter
from cluster.models import Desired
from sessions_app import queue, reconciler
from sessions_app.models import Run, TimelineEntry
from sessions_app.services import pause_session, restart_session, resume_session, stop_session
from tests.apps.sessions.world import asked, fresh
from tests.builders import a_customer

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def test_a_session_whose_restart_was_never_confirmed_can_be_resumed_and_runs_again(world):
    session = world.run("L")
    restart_session(asked(world, session))
    for _forced_then_ended in range(2):
        world.time.advance(4 * MINUTE)
        reconciler.reconcile()
    assert fresh(session).state == "paused"
    resume_session(asked(world, session))
    resumed = fresh(session)
    assert (resumed.state, resumed.restarting) == ("starting", False)
    assert resumed.deadline_at - world.time.now() == 10 * MINUTE, "it has the whole time of a start"
    world.ready(resumed)
    assert fresh(session).state == "running"


def test_a_cpu_session_that_was_misplaced_can_be_resumed_and_runs_again(world):
    session = world.create("cpu")
    world.report(session, "failed", "node_lock")
    world.gone(session)
    assert fresh(session).state == "paused"
    resume_session(asked(world, session))
    world.ready(fresh(session))
    assert fresh(session).state == "running"


def test_the_row_that_settles_a_restarted_run_names_that_run(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    restart_session(asked(world, session))
    world.gone(session)
    second = fresh(session)
    world.ready(second)
    world.pass_time(6 * MINUTE, second)
    stop_session(asked(world, session))
    world.gone(session)
    settled = TimelineEntry.objects.filter(session=session).exclude(billed_from=None).order_by("at", "id")
    assert list(settled.values_list("run", flat=True)) == [1, 2]
    assert [row.charged for row in settled] == list(
        Run.objects.filter(session=session).order_by("number").values_list("charged", flat=True)
    )


def test_a_restart_that_had_to_be_forced_leaves_the_next_run_its_grace(world):
    session = world.run("L")
    restart_session(asked(world, session))
    world.time.advance(4 * MINUTE)
    reconciler.reconcile()
    assert Desired.objects.get(session_id=session.pk).spec["deadlines"]["stopGraceSeconds"] == 0
    world.gone(session)
    assert (fresh(session).run_number, fresh(session).forced) == (2, False)
    assert Desired.objects.get(session_id=session.pk).spec["deadlines"]["stopGraceSeconds"] > 0


def test_a_session_without_a_card_counts_the_running_time_of_every_run(world):
    session = world.run("cpu")
    world.pass_time(10 * MINUTE, session)
    restart_session(asked(world, session))
    world.gone(session)
    second = fresh(session)
    world.ready(second)
    world.pass_time(6 * MINUTE, second)
    stop_session(asked(world, session))
    world.gone(session)
    assert fresh(session).running_us == 16 * 60 * 1_000_000


@pytest.mark.parametrize(("first", "again"), [(stop_session, stop_session), (pause_session, resume_session)])
def test_asking_again_puts_no_deadline_off(world, first, again):
    session = world.run("L")
    first(asked(world, session))
    deadline = fresh(session).deadline_at
    world.time.advance(2 * MINUTE)
    again(asked(world, session))
    assert fresh(session).deadline_at == deadline


def test_a_restarted_session_whose_start_failed_leaves_the_line_with_what_is_left_of_its_hold(world):
    world.alice = a_customer("12.5", group=world.alice.group)  # just the hold
    session = world.run("L")
    world.pass_time(20 * MINUTE, session)
    restart_session(asked(world, session))
    world.gone(session)
    world.gone(session, "node_lost")
    assert (fresh(session).state, fresh(session).run_number) == ("queued", 3)
    assert queue.drain() == 1
    assert fresh(session).state == "starting"
    wallet = Account.objects.get(pk=world.alice.wallet)
    assert wallet.held == wallet.balance == Meter.objects.get(reference=session.pk, settled_at=None).held
