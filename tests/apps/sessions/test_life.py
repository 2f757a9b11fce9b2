"""The life of a session by reports: what it bills, what it frees, and that late, doubled and reordered ones change nothing."""

from datetime import timedelta

import pytest

from accounts.models import AuditEntry
from billing.models import Account, Meter, Transfer
from cluster import heartbeat
from cluster.heartbeat import INTERNAL
from cluster.models import Claim, Cluster, Desired, Heartbeat
from gshare_core.errors import DomainError
from sessions_app import reconciler
from sessions_app.models import QueueEntry, Run, TimelineEntry, Usage
from sessions_app.queue import drain
from sessions_app.services import Asked, pause_session, restart_session, resume_session, stop_session
from tests.apps.sessions.world import fresh, limit
from tests.builders import a_customer, a_user, cr

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def asked(world, session, **changes):
    return Asked(session.pk, changes.pop("by", world.alice.user), **changes)


def wallet(world):
    row = Account.objects.get(pk=world.alice.wallet)
    return row.balance, row.held


def used(world, field="max_sessions"):
    return Usage.objects.get(scope=f"user:{world.alice.user.pk}", field=field).used


def test_a_run_bills_from_ready_to_the_stop_and_no_further(world):
    session = world.create("L")
    world.time.advance(5 * MINUTE)  # the pull of the image is not billed
    world.ready(session)
    assert fresh(session).state == "running"
    world.pass_time(30 * MINUTE, session)
    stop_session(asked(world, session))
    assert fresh(session).state == "stopping"
    assert used(world) == 0, "the limits come back when the stop is asked for"
    assert world.card.used_slots == 1, "the card comes back when the pod is gone"
    world.time.advance(2 * MINUTE)  # the grace is not billed either
    world.gone(session)
    ended = fresh(session)
    assert ended.state == "stopped"
    assert ended.charged == cr("6.25")
    assert wallet(world) == (cr(1_000) - cr("6.25"), 0)
    assert (world.card.used_slots, world.card.used_vram_mib, world.card.used_milli) == (0, 0, 0)
    assert not Desired.objects.filter(session_id=session.pk).exists()
    settled = TimelineEntry.objects.get(session=session, to_state="stopped")
    assert (settled.charged, settled.billed_to - settled.billed_from) == (cr("6.25"), 30 * MINUTE)


def test_a_report_that_says_nothing_new_costs_few_statements(world, django_assert_max_num_queries):
    session = world.create("L")
    world.ready(session)
    world.pass_time(MINUTE, session)

    # Session, run, document, meter, the run written, its proof of life; a savepoint, and the question of who reports.
    with django_assert_max_num_queries(9):
        world.report(session, "running")

    assert fresh(session).state == "running"


def test_the_end_of_a_run_costs_few_statements(world, django_assert_max_num_queries):
    session = world.create("L")
    world.ready(session)
    world.pass_time(MINUTE, session)
    stop_session(asked(world, session))

    # What it was and held (8), the charge and the rest of its hold (11), metal and document (8), its own rows (4).
    with django_assert_max_num_queries(31):
        world.report(session, "gone", "stopped")

    assert fresh(session).state == "stopped"


def test_a_pod_that_never_starts_bills_nothing(world):
    session = world.create("L")
    world.time.advance(11 * MINUTE)
    reconciler.reconcile()
    assert (fresh(session).state, fresh(session).reason) == ("stopping", "start_timeout")
    world.gone(session)
    assert fresh(session).state == "failed"
    assert wallet(world) == (cr(1_000), 0)


def test_doubled_late_and_reordered_reports_change_nothing(world):
    session = world.run("L")
    ready_at = Run.objects.get(session=session).ready_at
    world.pass_time(10 * MINUTE, session)
    version = fresh(session).version
    assert not world.report(session, "starting", sequence=5)
    assert not world.report(session, "running", ready_at=ready_at, sequence=5)
    assert world.report(session, "running", ready_at=ready_at)
    assert fresh(session).version == version
    pause_session(asked(world, session))
    late = world.report(session, "running", ready_at=ready_at)
    assert not late, "a report of the generation before is stale"
    assert fresh(session).state == "pausing"
    world.gone(session)
    assert not world.gone(session)
    assert fresh(session).state == "paused"
    assert wallet(world)[0] == cr(1_000) - cr(50) // 4 // 6


def test_a_gone_that_overtook_running_bills_what_ran(world):
    session = world.create("L")
    ready_at = world.time.advance(MINUTE)
    world.time.advance(12 * MINUTE)
    world.gone(session, "evicted", ready_at=ready_at)
    ended = fresh(session)
    assert (ended.state, ended.reason) == ("paused", "evicted")
    assert ended.charged == cr("2.5")


def test_a_ready_that_comes_after_the_stop_bills_nothing(world):
    session = world.create("L")
    stop_session(asked(world, session))
    world.time.advance(MINUTE)
    world.report(session, "running", ready_at=world.time.now(), generation=1)
    world.gone(session, ready_at=world.time.now())
    assert fresh(session).state == "stopped"
    assert fresh(session).charged == 0
    assert wallet(world) == (cr(1_000), 0)


def test_pause_gives_card_and_hold_back_and_resume_is_admission_again(world):
    session = world.run("L")
    world.pass_time(30 * MINUTE, session)
    pause_session(asked(world, session))
    world.gone(session)
    assert fresh(session).state == "paused"
    assert wallet(world) == (cr(1_000) - cr("6.25"), 0)
    assert world.card.used_slots == 0
    world.time.advance(timedelta(days=3))
    resume_session(asked(world, session))
    resumed = fresh(session)
    assert (resumed.state, resumed.run_number) == ("starting", 2)
    assert wallet(world)[1] == cr("12.5")
    world.ready(resumed)
    world.pass_time(30 * MINUTE, resumed)
    stop_session(asked(world, session))
    world.gone(session)
    assert fresh(session).charged == cr("12.5")
    assert wallet(world) == (cr(1_000) - cr("12.5"), 0)
    assert fresh(session).running_us == 3_600_000_000


def test_a_late_gone_of_an_old_run_never_frees_the_new_runs_card(world):
    session = world.run("L")
    pause_session(asked(world, session))
    old = fresh(session)
    world.gone(session)
    resume_session(asked(world, session))
    assert world.card.used_slots == 1
    assert not world.report(old, "gone", "stopped")
    assert not world.report(old, "running", ready_at=world.time.now())
    assert world.card.used_slots == 1
    assert (fresh(session).state, fresh(session).run_number) == ("starting", 2)


def test_resume_while_pausing_is_kept_and_honoured(world):
    session = world.run("L")
    pause_session(asked(world, session))
    resume_session(asked(world, session))
    assert (fresh(session).state, fresh(session).resume_wanted) == ("pausing", True)
    world.gone(session)
    assert fresh(session).state == "paused"
    reconciler.reconcile()
    assert (fresh(session).state, fresh(session).run_number) == ("starting", 2)
    assert not fresh(session).resume_wanted
    assert Meter.objects.filter(reference=session.pk, settled_at=None).count() == 1


def test_restart_keeps_card_and_hold_and_bills_each_run_exactly(world):
    session = world.run("L")
    card = Run.objects.get(session=session).card_uuids
    world.pass_time(6 * MINUTE, session)
    restart_session(asked(world, session))
    assert (fresh(session).state, fresh(session).restarting) == ("starting", True)
    assert Desired.objects.get(session_id=session.pk).spec["desired"] == "Paused"
    world.time.advance(MINUTE)
    world.gone(session)
    second = fresh(session)
    assert (second.state, second.run_number, second.restarting) == ("starting", 2, False)
    assert Run.objects.get(session=session, number=2).card_uuids == card
    assert world.card.used_slots == 1
    assert wallet(world) == (cr(1_000) - cr("1.25"), cr("11.25"))
    world.ready(second)
    world.pass_time(6 * MINUTE, second)
    stop_session(asked(world, session))
    world.gone(session)
    assert fresh(session).charged == cr("2.5")
    assert wallet(world) == (cr(1_000) - cr("2.5"), 0)


def test_a_start_that_fails_goes_back_in_line_with_its_hold_and_the_third_time_fails(world):
    session = world.create("L")
    for attempt in (1, 2):
        world.gone(session, "node_lost")
        waiting = fresh(session)
        assert (waiting.state, waiting.failed_starts) == ("queued", attempt)
        assert world.card.used_slots == 0
        assert wallet(world) == (cr(1_000), cr("12.5"))
        assert QueueEntry.objects.get(session=session).enqueued_at == waiting.line_at
        assert drain() == 1
        assert fresh(session).state == "starting"
    world.gone(session, "node_lost")
    assert (fresh(session).state, fresh(session).reason) == ("failed", "placement_failed")
    assert wallet(world) == (cr(1_000), 0)


def test_the_line_moves_when_the_card_is_gone_and_not_when_its_end_is_asked_for(world):
    holder = world.run("exclusive")
    waiting = world.create("L")
    stop_session(asked(world, holder))
    assert drain() == 0
    assert fresh(waiting).state == "queued"
    world.gone(holder)
    assert drain() == 1
    assert fresh(waiting).state == "starting"
    assert used(world) == 1
    assert used(world, "max_queued") == 0


def test_a_waiting_session_can_be_cancelled_and_everything_comes_back(world):
    world.run("exclusive")
    waiting = world.create("L")
    held = wallet(world)[1]
    stop_session(asked(world, waiting))
    assert fresh(waiting).state == "stopped"
    assert wallet(world)[1] == held - cr("12.5")
    assert used(world, "max_queued") == 0
    assert not QueueEntry.objects.filter(session=waiting).exists()


def test_an_entry_that_a_limit_stops_keeps_its_place_and_shows_why(world):
    holder = world.run("exclusive")
    first = world.create("L")
    bob = a_customer(100, group=world.alice.group)
    second = world.create("L", customer=bob)
    limit("user", "max_sessions", 0, target=world.alice.user)
    stop_session(asked(world, holder))
    world.gone(holder)
    assert drain() == 1
    assert (fresh(first).state, fresh(second).state) == ("queued", "starting")
    assert QueueEntry.objects.get(session=first).reason == "quota_exceeded"


def test_an_entry_whose_right_is_gone_leaves_the_line_with_its_hold(world):
    holder = world.run("exclusive")
    waiting = world.create("L")
    world.image.is_active = False
    world.image.save()
    stop_session(asked(world, holder))
    world.gone(holder)
    drain()
    assert (fresh(waiting).state, fresh(waiting).reason) == ("failed", "not_found")
    assert wallet(world)[1] == 0


def test_terminating_for_ever_is_forced_and_then_ends_with_the_card_blocked(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    stop_session(asked(world, session))
    world.time.advance(4 * MINUTE)
    reconciler.reconcile()
    forced = fresh(session)
    assert (forced.state, forced.forced) == ("stopping", True)
    assert Desired.objects.get(session_id=session.pk).spec["deadlines"]["stopGraceSeconds"] == 0
    world.time.advance(4 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "stopped"
    assert wallet(world) == (cr(1_000) - cr("1.25"), 0)
    assert world.card.used_slots == 1, "nobody gets a card that may still be in use"
    assert Claim.objects.get(session_id=session.pk).state == "orphaned"
    world.gone(session)
    assert world.card.used_slots == 0
    assert wallet(world) == (cr(1_000) - cr("1.25"), 0)


def test_nothing_is_forced_on_a_silent_node(world):
    session = world.run("L")
    stop_session(asked(world, session))
    world.node.__class__.objects.update(is_ready=False, not_ready_since=world.time.now())
    world.time.advance(4 * MINUTE)
    reconciler.reconcile()
    assert (fresh(session).state, fresh(session).forced) == ("stopped", False)
    assert Claim.objects.get(session_id=session.pk).state == "orphaned"


def test_a_crash_loop_is_named_with_the_containers_own_words_and_is_never_called_running(world):
    session = world.create("L")
    world.report(session, "failed", "crash_loop", message="ImportError: no module named torch")
    assert fresh(session).state == "stopping"
    world.gone(session)
    ended = fresh(session)
    assert (ended.state, ended.reason) == ("failed", "crash_loop")
    assert "ImportError" in Run.objects.get(session=session).message or "ImportError" in ended.detail


def test_an_image_that_cannot_be_pulled_is_named(world):
    session = world.create("L")
    world.report(session, "failed", "image_pull_failed", message="manifest unknown")
    world.gone(session)
    rows = TimelineEntry.objects.filter(session=session, reason="image_pull_failed")
    assert [row.detail for row in rows] == ["manifest unknown"]


def test_pulling_an_image_has_its_own_deadline(world):
    session = world.create("L")
    world.report(session, "pulling")
    world.time.advance(29 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "starting"
    world.report(session, "starting")
    world.time.advance(9 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "starting"
    world.time.advance(2 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "stopping"


def test_a_program_that_ends_by_itself_is_stopped(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    world.report(session, "exited")
    world.gone(session)
    assert (fresh(session).state, fresh(session).charged) == ("stopped", cr("1.25"))


def test_a_pod_that_vanishes_comes_back_once_and_fails_the_second_time(world):
    session = world.run("L")
    world.gone(session, "vanished", ready_at=Run.objects.get(session=session).ready_at)
    again = fresh(session)
    assert (again.state, again.run_number) == ("starting", 2)
    assert world.card.used_slots == 1
    world.ready(again)
    world.gone(session, "vanished", ready_at=Run.objects.get(session=session, number=2).ready_at)
    assert (fresh(session).state, fresh(session).reason) == ("failed", "vanished")
    assert world.card.used_slots == 0


def test_somebody_elses_session_needs_a_reason_and_leaves_a_trace(world):
    session = world.run("L")
    boss = a_user(world.alice.group, role="group_admin")
    with pytest.raises(DomainError) as caught:
        stop_session(asked(world, session, by=boss))
    assert caught.value.code == "reason_required"
    stop_session(asked(world, session, by=boss, reason="the node is needed"))
    assert (fresh(session).state, fresh(session).reason) == ("stopping", "admin")
    trace = AuditEntry.objects.get(act="session.stop")
    assert (trace.target_id, trace.reason) == (str(session.pk), "the node is needed")


def test_what_a_state_does_not_allow_is_refused_with_what_it_does(world):
    session = world.create("L")
    with pytest.raises(DomainError) as caught:
        restart_session(asked(world, session))
    assert caught.value.code == "invalid_transition"
    assert caught.value.facts["allowed"] == ["pause", "stop"]


def test_stopping_twice_is_harmless(world):
    session = world.run("L")
    stop_session(asked(world, session))
    stop_session(asked(world, session))
    world.gone(session)
    assert fresh(session).state == "stopped"


def test_ending_a_paused_session_bills_nothing(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    pause_session(asked(world, session))
    world.gone(session)
    before = Transfer.objects.count()
    world.time.advance(timedelta(days=30))
    stop_session(asked(world, session))
    assert fresh(session).state == "stopped"
    assert Transfer.objects.count() == before


def test_paused_sessions_do_not_eat_the_limit_of_running_ones(world):
    limit("global", "max_sessions", 1)
    session = world.run("L")
    pause_session(asked(world, session))
    assert world.create("M").state == "starting"
    assert used(world, "max_paused") == 1


def test_a_run_whose_credits_end_is_paused_and_can_be_told_why(world):
    poor = a_customer("12.5", group=world.alice.group)
    session = world.create("L", customer=poor)
    world.ready(session)
    for _ in range(59):
        world.pass_time(MINUTE, session)
        reconciler.reconcile()
    assert fresh(session).state == "running", "the own hold is not an empty wallet"
    world.pass_time(MINUTE, session)
    reconciler.reconcile()
    ended = fresh(session)
    assert (ended.state, ended.reason) == ("pausing", "credit_exhausted")
    world.gone(session)
    assert fresh(session).charged == cr("12.5")
    assert Account.objects.get(pk=poor.wallet).balance == 0


def test_time_in_which_nobody_listened_is_added_to_every_deadline(world):
    session = world.create("L")
    Heartbeat.objects.update_or_create(name=INTERNAL, defaults={"stamped_at": world.time.now()})
    world.time.set(world.time.now() + 11 * MINUTE)  # without a stamp: our own outage
    reconciler.reconcile()
    assert fresh(session).state == "starting"
    heartbeat.stamp(world.time.now())
    world.time.advance(9 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "starting"
    world.time.advance(3 * MINUTE)
    reconciler.reconcile()
    assert fresh(session).state == "stopping"


def test_a_dead_cluster_stops_billing_at_the_last_proof_and_keeps_the_card_blocked(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    world.time.advance(6 * MINUTE)
    Cluster.objects.update(state="lost")
    reconciler.reconcile()
    lost = fresh(session)
    assert (lost.state, lost.reason) == ("lost", "cluster_lost")
    assert wallet(world) == (cr(1_000) - cr("1.25"), 0)
    assert used(world) == 0
    assert world.card.used_slots == 1


def test_what_comes_back_after_silence_goes_on_with_a_new_hold(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    Cluster.objects.update(state="lost")
    reconciler.reconcile()
    world.time.advance(30 * MINUTE)
    Cluster.objects.update(state="connected")
    world.report(session, "running", ready_at=Run.objects.get(session=session).ready_at)
    back = fresh(session)
    assert (back.state, back.run_number) == ("running", 1)
    assert wallet(world) == (cr(1_000) - cr("1.25"), cr("12.5"))
    world.pass_time(6 * MINUTE, session)
    stop_session(asked(world, session))
    world.gone(session)
    assert fresh(session).charged == cr("2.5")
    assert fresh(session).running_us == 12 * 60_000_000


def test_what_comes_back_to_an_empty_wallet_is_paused(world):
    poor = a_customer("12.5", group=world.alice.group)
    session = world.create("L", customer=poor)
    world.ready(session)
    world.pass_time(6 * MINUTE, session)
    Cluster.objects.update(state="lost")
    reconciler.reconcile()
    Cluster.objects.update(state="connected")
    world.report(session, "running", ready_at=Run.objects.get(session=session).ready_at)
    assert (fresh(session).state, fresh(session).reason) == ("pausing", "credit_exhausted")
    assert fresh(session).wanted == "Paused"


def test_the_timeline_of_a_session_that_was_lost_tells_each_charge_once(world):
    session = world.run("L")
    world.pass_time(6 * MINUTE, session)
    Cluster.objects.update(state="lost")
    reconciler.reconcile()
    Cluster.objects.update(state="connected")
    world.report(session, "starting", last_alive_at=world.time.now())
    assert fresh(session).state == "starting"
    world.time.advance(6 * MINUTE)
    stop_session(asked(world, session))
    world.gone(session, ready_at=Run.objects.get(session=session).ready_at)
    ended = fresh(session)
    assert ended.charged == cr("1.25"), "it never was ready again"
    told = sum(TimelineEntry.objects.filter(session=session).values_list("charged", flat=True))
    assert told == ended.charged
