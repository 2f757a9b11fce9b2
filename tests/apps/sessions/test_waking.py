"""A session whose owner asked for it resumes by itself; deadlines end every state that only leads on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEntry
from billing import services as billing
from billing.models import Account
from cluster.models import Card, Cluster
from gshare_core.errors import DomainError
from gshare_core.kit import clock, locks
from sessions_app import reconciler
from sessions_app.domain.lifecycle import TRAITS, Event, State
from sessions_app.held import lock_session
from sessions_app.models import Attempt
from sessions_app.services import Asked, pause_session, restart_session, resume_session, stay_paused, stop_session
from sessions_app.timeline import Cause
from sessions_app.transition import transition
from tests.apps.sessions.world import asked, fresh
from tests.builders import a_user, cr, fund
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def spend_all(world):
    wallet = Account.objects.get(pk=world.alice.wallet)
    free = (wallet.balance or 0) - wallet.held
    to = billing.ensure_wallet("group", world.alice.group.pk)
    billing.reclaim(source=wallet.pk, to=to, amount=free, by=None)


def exhausted(world, **wishes):
    """Ran to the end of its hold, paused for want of credits."""
    session = world.run("L", **wishes)
    spend_all(world)
    world.pass_time(61 * MINUTE, session)
    reconciler.reconcile()
    world.gone(session)
    assert (fresh(session).state, fresh(session).reason) == ("paused", "credit_exhausted")
    return session


def test_after_a_top_up_it_resumes_by_itself(world):
    session = exhausted(world, auto_resume=True)
    for _minute in range(5):
        world.time.advance(MINUTE)
        reconciler.reconcile()
    assert fresh(session).state == "paused"
    assert not Attempt.objects.exists(), "waiting for credits leaves no refused attempts"

    fund(world.alice, 100)
    world.time.advance(MINUTE)
    reconciler.reconcile()

    assert (fresh(session).state, fresh(session).run_number) == ("starting", 2)
    assert world.ready(fresh(session))
    assert everything_agrees()


def test_without_the_wish_it_stays_paused(world):
    session = exhausted(world)
    fund(world.alice, 100)
    world.time.advance(MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "paused"


@pytest.mark.parametrize("reason", ["cluster_stopped", "node_lost", "evicted", "drained"])
def test_what_the_infrastructure_ended_resumes_as_soon_as_there_is_a_place(world, reason):
    session = world.run("L", auto_resume=True)
    Card.objects.update(is_draining=True)
    world.gone(session, reason)
    assert (fresh(session).state, fresh(session).reason) == ("paused", reason)

    reconciler.reconcile()

    waiting = fresh(session)
    assert (waiting.state, waiting.run_number, waiting.resume_at) == ("queued", 2, None)
    assert everything_agrees()


@pytest.mark.parametrize("reason", ["cluster_stopped", "evicted"])
def test_without_the_wish_what_the_infrastructure_ended_waits_for_its_owner(world, reason):
    session = world.run("L")
    world.gone(session, reason)
    reconciler.reconcile()
    assert fresh(session).state == "paused"


def test_a_pause_that_its_owner_asked_for_is_kept_however_the_pod_went_away(world):
    session = world.run("L", auto_resume=True)
    pause_session(asked(world, session))
    world.gone(session, "evicted")
    reconciler.reconcile()
    assert fresh(session).state == "paused"


def test_what_is_evicted_again_and_again_waits_between(world):
    session = world.run("L", auto_resume=True)
    for _time in range(2):
        world.gone(session, "evicted")
        reconciler.reconcile()
        session = fresh(session)
        if session.state == "starting":
            world.ready(session)
    assert (fresh(session).state, fresh(session).run_number) == ("paused", 2)
    world.time.advance(11 * MINUTE)
    reconciler.reconcile()
    assert (fresh(session).state, fresh(session).run_number) == ("starting", 3)


def test_what_can_never_pass_again_is_left_to_its_owner(world):
    session = world.run("L", auto_resume=True)
    world.offering.is_active = False
    world.offering.save()
    world.gone(session, "evicted")
    reconciler.reconcile()
    left = fresh(session)
    assert (left.state, left.resume_at) == ("paused", None)
    assert left.detail


def test_a_stop_takes_the_wish_with_it(world):
    session = exhausted(world, auto_resume=True)
    stop_session(asked(world, session))
    fund(world.alice, 100)
    world.time.advance(MINUTE)
    reconciler.reconcile()
    assert (fresh(session).state, fresh(session).resume_at) == ("stopped", None)


def test_who_has_it_stay_paused_keeps_it_paused_until_he_resumes_it(world):
    session = exhausted(world, auto_resume=True)
    version = fresh(session).version
    kept = stay_paused(asked(world, session))
    assert (kept.resume_at, kept.version, kept.allowed) == (None, version + 1, ["resume", "stop"])
    assert stay_paused(asked(world, session)).version == version + 1, "a repeat changes nothing"
    assert [row.actor for row in session.timeline.filter(event="stay_paused")] == [world.alice.user.email]

    fund(world.alice, 100)
    world.time.advance(10 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "paused"

    resume_session(asked(world, session))
    world.ready(fresh(session))
    world.gone(session, "evicted")
    reconciler.reconcile()
    assert (fresh(session).state, fresh(session).run_number) == ("starting", 3), "it was that one pause"
    assert everything_agrees()


def test_only_what_is_paused_can_stay_so(world):
    with pytest.raises(DomainError) as refused:
        stay_paused(asked(world, world.run("S")))
    assert refused.value.code == "invalid_transition"


def test_an_administrator_says_why_it_is_to_stay_paused_and_leaves_a_trace(world):
    session, boss = exhausted(world, auto_resume=True), a_user(world.alice.group, role="group_admin")
    with pytest.raises(DomainError) as refused:
        stay_paused(Asked(session.pk, boss))
    assert refused.value.code == "reason_required"
    stay_paused(Asked(session.pk, boss, reason="the course is over"))
    assert fresh(session).resume_at is None
    entry = AuditEntry.objects.get(act="session.stay_paused")
    assert (entry.target_id, entry.reason) == (str(session.pk), "the course is over")


# Adoption ------------------------------------------------------------------------------------------------------------


def lost(world, session):
    Cluster.objects.update(state="lost")
    reconciler.reconcile()
    assert fresh(session).state == "lost"
    Cluster.objects.update(state="connected")


def test_a_run_that_is_still_ready_is_adopted_with_a_new_hold_and_the_gap_is_not_billed(world):
    session = world.run("L")
    ready_at = world.time.now()
    world.pass_time(10 * MINUTE, session)
    world.time.advance(30 * MINUTE)
    lost(world, session)
    assert Account.objects.get(pk=world.alice.wallet).held == 0

    assert world.report(session, "running", ready_at=ready_at)

    assert (fresh(session).state, fresh(session).run_number) == ("running", 1)
    assert Account.objects.get(pk=world.alice.wallet).held == cr("12.5")
    world.pass_time(20 * MINUTE, session)
    pause_session(asked(world, session))
    world.gone(session)
    assert fresh(session).charged == cr("12.5") // 2
    assert everything_agrees()


def test_a_run_that_is_alive_and_not_ready_is_starting_again(world):
    session = world.run("L")
    world.pass_time(10 * MINUTE, session)
    lost(world, session)
    assert world.report(session, "starting")
    assert fresh(session).state == "starting"
    assert fresh(session).deadline_at is not None
    assert everything_agrees()


def test_without_credits_for_a_new_hold_it_is_paused_and_wakes_when_there_are_some(world):
    session = world.run("L", auto_resume=True)
    ready_at = world.time.now()
    world.pass_time(10 * MINUTE, session)
    lost(world, session)
    spend_all(world)

    world.report(session, "running", ready_at=ready_at)
    assert (fresh(session).state, fresh(session).reason) == ("pausing", "credit_exhausted")
    world.gone(session)
    fund(world.alice, 100)
    reconciler.reconcile()

    assert (fresh(session).state, fresh(session).run_number) == ("starting", 2)
    assert everything_agrees()


# Deadlines -----------------------------------------------------------------------------------------------------------


def happen(session, *events):
    for event in events:
        with locks.ordered():
            locked = lock_session(session.pk)
            assert locked is not None
            assert transition(locked, Cause(event, reason="user"), at=clock.now())


INTO = {
    "starting": lambda world, session: None,
    "restarting": lambda world, session: (world.ready(session), restart_session(asked(world, fresh(session)))),
    "pausing": lambda world, session: pause_session(asked(world, session)),
    "stopping": lambda world, session: stop_session(asked(world, session)),
    "yielding": lambda world, session: (world.ready(session), happen(session, Event.YIELD)),
    "resuming": lambda world, session: (
        world.ready(session),
        happen(session, Event.YIELD, Event.YIELDED, Event.RESUME),
    ),
}


@pytest.mark.parametrize("speaks", [True, False], ids=["a Ready node", "a silent node"])
@pytest.mark.parametrize("state", INTO)
def test_every_transient_state_ends_by_deadlines_alone(world, state, speaks):
    session = world.create("L")
    INTO[state](world, session)
    begun = fresh(session)
    assert TRAITS[begun.life].transient
    assert begun.deadline_at is not None
    if not speaks:
        world.node.__class__.objects.update(is_ready=False, not_ready_since=world.time.now())
    forced = False
    for _deadline in range(6):
        if not TRAITS[fresh(session).life].transient:
            break
        world.time.advance(fresh(session).deadline_at - world.time.now() + timedelta(seconds=1))
        reconciler.deadlines()
        forced |= fresh(session).forced
    assert fresh(session).life in {State.PAUSED, State.FAILED, State.STOPPED}
    assert forced == speaks, "an end is forced on a Ready node, and never on a silent one"
