"""Idle and longest runs, from what a cluster's beat says to the pause: warned before, told after, never by our own deafness."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import translation

from accounts.models import Notification
from cluster.heartbeat import INTERNAL
from cluster.models import Deafness, Heartbeat
from gshare_core.contract import Activity, AppUse, GpuSource, GpuUse, Inventory, Phase, SessionRow
from gshare_core.errors import DomainError
from sessions_app import idle_words, idleness, reconciler, reports
from sessions_app.domain.countdown import leads
from sessions_app.models import Run, RunActivity, Session, TimelineEntry
from sessions_app.representation import represent_one
from sessions_app.services import Asked, keep_alive, restart_session, resume_session
from tests.apps.sessions.world import NOON, World, limit
from tests.builders import a_customer

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
LOOK = timedelta(minutes=5)


def fresh(session: Session) -> Session:
    return Session.objects.get(pk=session.pk)


def verdict(session: Session) -> RunActivity:
    return RunActivity.objects.get(run__session=session, run__number=fresh(session).run_number)


def row(session: Session, at: datetime, **said: Any) -> SessionRow:
    """A session's row of a beat; by default everything is at rest."""
    session = fresh(session)
    sample = {
        "at": at,
        "cpu_usec": 0,
        "gpu": GpuUse(source=GpuSource.DECLARED, healthy=True),
        "apps": (AppUse(app="lab"), AppUse(app="terminal")),
    }
    return SessionRow(
        id=session.pk,
        run=session.run_number,
        generation=session.generation,
        phase=Phase.RUNNING,
        last_alive_at=at,
        activity=Activity(**(sample | said)),
    )


def beat(world: World, *rows: SessionRow, sent_at: datetime | None = None) -> None:
    """One inventory, observed and sent now."""
    now = sent_at or world.time.now()
    reports.receive_inventory(world.cluster.pk, Inventory(observed_at=now, sent_at=now, sessions=rows))


def rest(world: World, span: timedelta, *sessions: Session, each: timedelta = LOOK, **said: Any) -> None:
    """Let time pass; at each look the sessions do what is said (by default nothing) and are judged."""
    end = world.time.now() + span
    while world.time.now() < end:
        world.time.advance(min(each, end - world.time.now()))
        now = world.time.now()
        figures = {name: value(now) if callable(value) else value for name, value in said.items()}
        beat(world, *(row(session, now, **figures) for session in sessions))
        idleness.judge()


def notices(session: Session) -> list[tuple[str, str]]:
    kinds = ("idle_warning", "runtime_warning", "session_paused")
    rows = Notification.objects.filter(user=session.owner_id, kind__in=kinds).order_by("at", "pk")
    return [(notice.kind, notice.title) for notice in rows]


def busy_lab(now: datetime) -> tuple[AppUse, ...]:
    return (AppUse(app="lab", busy=True), AppUse(app="terminal"))


def test_who_idles_for_the_whole_window_is_warned_twice_then_paused_and_told_with_the_evidence(world: World) -> None:
    session = world.run("L")
    rest(world, 44 * MINUTE, session)
    assert notices(session) == []
    shown = represent_one(fresh(session), now=world.time.now())["idle"]
    assert (shown["idle_since"], shown["will_pause_at"]) == ("2026-10-14T12:00:00Z", "2026-10-14T13:00:00Z")
    assert shown["evidence"]["gpu"]["state"] == "idle"
    rest(world, MINUTE, session)
    assert notices(session) == [("idle_warning", f"{session.name} is idle and pauses at 13:00")]
    rest(world, 10 * MINUTE, session)
    assert [kind for kind, _ in notices(session)] == ["idle_warning", "idle_warning"]
    rest(world, 4 * MINUTE, session)
    assert fresh(session).state == "running", "not before the window is over"
    rest(world, MINUTE, session)
    paused = fresh(session)
    assert (paused.state, paused.reason, paused.detail) == ("pausing", "idle", "idle for 60 min")
    assert notices(session)[2:] == [("session_paused", f"{session.name} was paused, it was idle")]
    body = Notification.objects.filter(user=session.owner_id, kind="session_paused").get().body
    assert "GPU never used; CPU, mean 0.0 % quiet below 5 % of 4 cores; JupyterLab not used" in body
    world.gone(session)
    assert fresh(session).state == "paused", "never ended, and what is paused can be resumed"
    settled = TimelineEntry.objects.get(session=session, to_state="paused")
    assert settled.billed_to == NOON + 60 * MINUTE
    kept = represent_one(fresh(session), now=world.time.now())["idle"]
    assert (kept["will_pause_at"], kept["idle_since"]) == (None, "2026-10-14T12:00:00Z")


def unknown() -> dict[tuple[str, str], float]:
    """What the metric says of parts that are not known."""
    samples = [sample for metric in idleness.USE_UNKNOWN.collect() for sample in metric.samples]
    return {(each.labels["part"], each.labels["why"]): each.value for each in samples if each.value}


def test_the_loss_of_a_monitor_or_of_any_measure_is_counted_for_an_alarm_and_so_is_its_return(world: World) -> None:
    sessions = [world.run("L"), world.run("L")]
    rest(world, LOOK, *sessions)
    assert unknown() == {}
    rest(world, LOOK, *sessions, gpu=GpuUse(source=GpuSource.HAMI, healthy=False))
    assert unknown() == {("gpu", "monitor_down"): 2}
    rest(world, LOOK, sessions[0], apps=(AppUse(app="lab", known=False),))
    silent = {("gpu", "no_sample"): 1, ("cpu", "no_sample"): 1, ("apps", "no_sample"): 1}
    assert unknown() == {("apps", "no_answer"): 1, **silent}
    rest(world, LOOK, *sessions)
    assert unknown() == {}


def test_one_kernel_of_the_gpu_begins_the_window_anew_and_the_next_pause_is_announced_anew(world: World) -> None:
    session = world.run("L")
    rest(world, 50 * MINUTE, session)
    at = world.time.now()
    used = GpuUse(source=GpuSource.HAMI, healthy=True, present=True, last_kernel_at=at, use_percent=0.0)
    rest(world, 40 * MINUTE, session, gpu=used)
    assert fresh(session).state == "running"
    assert (verdict(session).idle_since, verdict(session).pause_at) == (at, at + 60 * MINUTE)
    assert len(notices(session)) == 1
    rest(world, 6 * MINUTE, session, gpu=used)
    assert [kind for kind, _ in notices(session)] == ["idle_warning", "idle_warning"]


@pytest.mark.parametrize(
    "said",
    [
        {"apps": busy_lab},
        {"gpu": GpuUse(source=GpuSource.HAMI, healthy=False)},
        {"gpu": None},
        {"cpu_usec": lambda now: int((now - NOON).total_seconds() * 4 * 0.06 * 1_000_000)},
        {"apps": (AppUse(app="lab", known=False),)},
        {"apps": ()},
    ],
    ids=["a busy kernel", "monitor down", "no word of the GPU", "6 % CPU", "no answer", "no applications"],
)
def test_who_is_busy_or_unknown_is_never_paused(world: World, said: dict[str, Any]) -> None:
    session = world.run("L")
    rest(world, 120 * MINUTE, session, each=15 * MINUTE, **said)
    assert fresh(session).state == "running"
    assert [kind for kind, _ in notices(session)] == []


def test_the_neighbour_on_the_card_neither_wakes_nor_is_paused_with_the_idle_one(world: World) -> None:
    idle, busy = world.run("L"), world.run("L")
    for _ in range(14):
        world.time.advance(LOOK)
        now = world.time.now()
        kernel = GpuUse(source=GpuSource.HAMI, healthy=True, present=True, last_kernel_at=now, use_percent=99.0)
        beat(world, row(idle, now), row(busy, now, gpu=kernel))
        idleness.judge()
    assert (fresh(idle).state, fresh(busy).state) == ("pausing", "running")


def test_a_cluster_that_stopped_saying_what_its_sessions_do_makes_nobody_idle(world: World) -> None:
    session = world.run("L")
    rest(world, 40 * MINUTE, session)
    for _ in range(12):
        world.pass_time(LOOK, session)  # it is alive, and says no more than that
        idleness.judge()
    assert fresh(session).state == "running"
    assert verdict(session).state == "unknown"
    assert notices(session) == []


def test_time_in_which_the_control_plane_was_deaf_is_added_before_the_pause(world: World) -> None:
    session = world.run("L")
    rest(world, 10 * MINUTE, session)
    since = world.time.now()
    world.time.advance(30 * MINUTE)
    Deafness.objects.create(since=since, until=world.time.now())
    rest(world, MINUTE, session)
    assert verdict(session).pause_at == NOON + 90 * MINUTE
    rest(world, 48 * MINUTE, session)
    assert fresh(session).state == "running"
    rest(world, 2 * MINUTE, session)
    assert fresh(session).state == "pausing"


def test_while_nobody_listens_the_verdict_is_unknown(world: World) -> None:
    session = world.run("L")
    rest(world, 50 * MINUTE, session)
    Heartbeat.objects.filter(pk=INTERNAL).update(stamped_at=world.time.now())
    super(type(world.time), world.time).advance(30 * MINUTE)  # without a stamp
    idleness.judge()
    assert fresh(session).state == "running"
    assert verdict(session).state == "unknown"


def test_a_resume_resets_the_clock(world: World) -> None:
    session = world.run("L")
    rest(world, 61 * MINUTE, session)
    world.gone(session)
    resume_session(Asked(session.pk, world.alice.user))
    world.time.advance(MINUTE)
    world.ready(fresh(session))
    up = world.time.now()
    rest(world, 10 * MINUTE, session)
    assert (verdict(session).idle_since, verdict(session).pause_at) == (up, up + 60 * MINUTE)


def test_keep_alive_puts_the_pause_off_within_the_policy_and_is_followed_by_new_warnings(world: World) -> None:
    session = world.run("L")
    rest(world, 56 * MINUTE, session)
    limit("global", "keep_alive_max_min", 30)
    kept = keep_alive(Asked(session.pk, world.alice.user))
    assert kept.kept_alive_until == NOON + 86 * MINUTE
    rest(world, 14 * MINUTE, session)
    assert verdict(session).pause_at == NOON + 86 * MINUTE
    assert len(notices(session)) == 2
    rest(world, 15 * MINUTE, session, each=MINUTE)
    assert fresh(session).state == "running"
    assert len(notices(session)) == 4, "warned anew"
    rest(world, 2 * MINUTE, session)
    assert fresh(session).state == "pausing"


def test_a_keep_alive_policy_that_shrinks_binds_who_was_kept_alive_before(world: World) -> None:
    session = world.run("L")
    rest(world, 30 * MINUTE, session)
    keep_alive(Asked(session.pk, world.alice.user))
    limit("global", "keep_alive_max_min", 45)
    rest(world, MINUTE, session)
    assert verdict(session).pause_at == NOON + 75 * MINUTE


def test_where_the_policy_allows_no_keep_alive_it_is_refused_with_the_field(world: World) -> None:
    session = world.run("L")
    limit("global", "keep_alive_max_min", 0)
    with pytest.raises(DomainError) as refused:
        keep_alive(Asked(session.pk, world.alice.user))
    assert (refused.value.code, refused.value.facts["field"]) == ("quota_exceeded", "keep_alive_max_min")


def test_a_shorter_and_a_longer_timeout_act_on_running_sessions_at_the_next_tick(world: World) -> None:
    session = world.run("L")
    rest(world, 30 * MINUTE, session)
    limit("group", "idle_timeout_min", 240, target=world.alice.group)
    idleness.judge()
    assert verdict(session).pause_at == NOON + 240 * MINUTE
    limit("user", "idle_timeout_min", 20, target=world.alice.user)
    idleness.judge()
    warned_at = world.time.now()
    assert [kind for kind, _ in notices(session)] == ["idle_warning"], "what is over already is announced first"
    assert verdict(session).pause_at == warned_at + 5 * MINUTE
    rest(world, 5 * MINUTE, session)
    assert fresh(session).state == "pausing"


def test_a_timeout_of_zero_means_never(world: World) -> None:
    session = world.run("L")
    limit("user", "idle_timeout_min", 0, target=world.alice.user)
    rest(world, 120 * MINUTE, session, each=30 * MINUTE)
    assert (fresh(session).state, verdict(session).state) == ("running", "off")


def test_a_session_without_a_card_is_judged_by_cpu_and_applications(world: World) -> None:
    session = world.run("cpu")
    rest(world, 61 * MINUTE, session, gpu=None)
    assert (fresh(session).state, fresh(session).reason) == ("pausing", "idle")


def test_samples_of_a_cluster_whose_clock_is_wrong_are_put_on_ours_and_none_lies_in_the_future(world: World) -> None:
    session = world.run("L")
    ahead = timedelta(hours=3)
    for _ in range(10):
        world.time.advance(LOOK)
        theirs = world.time.now() + ahead
        apps = (AppUse(app="lab", last_activity_at=NOON + 20 * MINUTE + ahead), AppUse(app="terminal"))
        beat(world, row(session, theirs, apps=apps), sent_at=theirs)
        idleness.judge()
    assert verdict(session).idle_since == NOON + 20 * MINUTE
    now = world.time.now()
    beat(world, row(session, now + timedelta(seconds=20), apps=busy_lab(now)))
    idleness.judge()
    assert verdict(session).state == "idle", "a sample from the future is dropped"


def test_doubled_and_late_beats_change_nothing(world: World) -> None:
    session = world.run("L")
    rest(world, 10 * MINUTE, session)
    before = verdict(session).memory
    beat(world, row(session, world.time.now() - 5 * MINUTE, apps=busy_lab(NOON)))
    beat(world, row(session, world.time.now(), apps=busy_lab(NOON)))
    assert verdict(session).memory == before


def test_what_another_cluster_or_an_ended_run_says_counts_for_nothing(world: World) -> None:
    session = world.run("L")
    now = world.time.now()
    stranger = row(session, now).model_copy(update={"run": 9})
    beat(world, stranger)
    assert not RunActivity.objects.exists()


def test_one_session_whose_row_is_broken_stops_nobody(world: World) -> None:
    broken, session = world.run("L"), world.run("L")
    rest(world, 59 * MINUTE, broken, session)
    RunActivity.objects.filter(run__session=broken).update(memory={"cpu": "nonsense"})
    for _ in range(3):
        world.time.advance(MINUTE)
        beat(world, row(session, world.time.now()))
        idleness.judge()
    assert (fresh(broken).state, fresh(session).state) == ("running", "pausing")


def test_a_tick_reads_a_constant_number_of_statements(world: World, django_assert_max_num_queries: Any) -> None:
    sessions = [world.run("S") for _ in range(6)]
    world.time.advance(MINUTE)
    beat(world, *(row(session, world.time.now()) for session in sessions))
    with django_assert_max_num_queries(16):
        assert idleness.judge() == 6
    with django_assert_max_num_queries(10):
        assert idleness.judge() == 6, "nothing changed: nothing is written"


# The longest run -----------------------------------------------------------------------------------------------------


def busy(world: World, span: timedelta, session: Session, *, each: timedelta = 15 * MINUTE) -> None:
    rest(world, span, session, each=each, apps=busy_lab)


def test_the_longest_run_is_warned_of_twice_then_paused_however_busy(world: World) -> None:
    session = world.run("L")
    limit("user", "max_runtime_min", 120, target=world.alice.user)
    busy(world, 104 * MINUTE, session)
    assert notices(session) == []
    busy(world, 12 * MINUTE, session, each=MINUTE)
    assert [kind for kind, _ in notices(session)] == ["runtime_warning", "runtime_warning"]
    shown = represent_one(fresh(session), now=world.time.now())["runtime"]
    assert shown == {"max_min": 120, "ends_at": "2026-10-14T14:00:00Z"}
    busy(world, 5 * MINUTE, session, each=MINUTE)
    paused = fresh(session)
    assert (paused.state, paused.reason, paused.detail) == ("pausing", "max_runtime", "ran for 120 min")
    body = Notification.objects.filter(kind="session_paused").get().body
    assert body == "It ran for 2 h, the longest that its limits allow. Resume it for another run of full length."


def test_after_the_longest_run_a_resume_gives_another_of_full_length(world: World) -> None:
    session = world.run("L")
    limit("user", "max_runtime_min", 60, target=world.alice.user)
    busy(world, 66 * MINUTE, session, each=LOOK)
    world.gone(session)
    resume_session(Asked(session.pk, world.alice.user))
    world.time.advance(7 * MINUTE)
    world.ready(fresh(session))
    up = world.time.now()
    busy(world, 30 * MINUTE, session)
    assert verdict(session).runtime_ends_at == up + 60 * MINUTE


def test_starting_and_pausing_do_not_count_and_a_restart_goes_on_counting(world: World) -> None:
    limit("user", "max_runtime_min", 120, target=world.alice.user)
    session = world.create("L")
    world.time.advance(9 * MINUTE)
    world.ready(session)
    busy(world, 50 * MINUTE, session)
    restart_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    world.time.advance(3 * MINUTE)
    world.ready(fresh(session))
    busy(world, MINUTE, session)
    assert verdict(session).runtime_ends_at == world.time.now() + 69 * MINUTE


def test_silence_does_not_count(world: World) -> None:
    limit("user", "max_runtime_min", 120, target=world.alice.user)
    session = world.run("L")
    busy(world, 20 * MINUTE, session)
    world.time.advance(40 * MINUTE)
    world.cluster.state = "lost"
    world.cluster.save()
    reconciler.silent()
    assert fresh(session).state == "lost"
    world.cluster.state = "connected"
    world.cluster.save()
    world.report(fresh(session), "running", ready_at=Run.objects.get(session=session).ready_at)
    assert fresh(session).state == "running"
    busy(world, MINUTE, session)
    assert verdict(session).runtime_ends_at == world.time.now() + 99 * MINUTE


def test_a_limit_that_is_set_on_who_ran_longer_already_is_announced_before_it_acts(world: World) -> None:
    session = world.run("L")
    busy(world, 180 * MINUTE, session)
    limit("user", "max_runtime_min", 60, target=world.alice.user)
    idleness.judge()
    assert [kind for kind, _ in notices(session)] == ["runtime_warning"]
    assert verdict(session).runtime_ends_at == world.time.now() + leads(60 * MINUTE)[1]
    busy(world, 5 * MINUTE, session)
    assert fresh(session).reason == "max_runtime"


def test_the_words_are_the_owners(world: World) -> None:
    bora = a_customer(1_000, group=world.alice.group)
    bora.user.language = "ko"
    bora.user.save()
    session = world.run("L", customer=bora)
    rest(world, 46 * MINUTE, session)
    (_, title) = notices(session)[0]
    with translation.override("ko"):
        assert title == idle_words.warning(fresh(session), verdict(session), "idle", at=NOON + 60 * MINUTE)[0]
    assert "is idle" not in title
