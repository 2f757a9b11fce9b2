"""The line: who comes first, who may pass, whose place is kept, and when it will be free."""

from datetime import timedelta

import pytest

from accounts.models import PolicyValue
from cluster import fleets
from cluster.models import Card, Earmark, Node
from cluster.services import holdings, keep_place
from sessions_app import estimates, idleness, queue, recent_use
from sessions_app.domain.queue import use_between
from sessions_app.ends import ends
from sessions_app.models import LaneLook, QueueEntry, RecentUse, Session
from sessions_app.queries import details
from sessions_app.services import Asked, pause_session, set_priority, stop_session
from tests.apps.sessions.world import a_preset, an_offering, fresh, limit, states
from tests.builders import a_customer, a_node, a_user

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def plenty(world):
    """Nobody is stopped by a limit unless a test says so."""
    PolicyValue.objects.filter(field__in=("max_sessions", "max_queued")).update(value=1_000)
    PolicyValue.objects.filter(field__in=("cpu_milli", "memory_mib", "vram_mib", "core_percent")).update(value=10**9)


def close(*cards, closed=True):
    Card.objects.filter(pk__in=[card.pk for card in cards]).update(is_draining=closed)
    fleets.forget()


def end(world, session):
    stop_session(Asked(session.pk, session.owner))
    world.gone(session)


def entry(session):
    return QueueEntry.objects.get(session=session)


def test_the_order_is_priority_then_the_time_of_asking_then_the_id_over_all_lanes(world):
    root = a_user(is_super_admin=True)
    other = an_offering("NVIDIA H100", vram_mib=81_559)
    a_node(world.cluster, "gpu-02", cards=[{"model": "NVIDIA H100", "vram_mib": 81_559}])
    close(*Card.objects.all())
    waiting = []
    for offering in (world.offering, other, world.offering, other):
        waiting.append(world.create("exclusive", offering=offering.pk))
        world.pass_time(MINUTE)
    set_priority(Asked(waiting[3].pk, root, reason="a deadline"), 5)
    placed = []
    for _turn in waiting:
        close(*Card.objects.all(), closed=False)
        queue.drain()
        started = [session for session in waiting if fresh(session).state == "starting" and session not in placed]
        placed += sorted(started, key=lambda session: fresh(session).state_since)
        for session in started:
            end(world, session)
    assert placed.index(waiting[3]) < placed.index(waiting[1])
    assert placed.index(waiting[0]) < placed.index(waiting[2])


def test_equal_entries_leave_in_the_order_of_their_ids(world):
    close(world.card)
    waiting = [world.create("exclusive") for _ in range(4)]
    QueueEntry.objects.update(order_at=world.time.now())
    close(world.card, closed=False)
    left = []
    for _turn in waiting:
        queue.drain()
        started = next(session for session in waiting if fresh(session).state == "starting")
        left.append(started.pk)
        end(world, started)
    assert left == sorted(session.pk for session in waiting)


def test_whoever_fits_passes_a_head_that_does_not_until_it_has_waited_long(world):
    holder = world.run("XL")
    head = world.create("exclusive")
    early = world.create("S")
    assert states(head, early) == ["queued", "starting"]
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    assert Earmark.objects.get().session_id == head.pk
    late = world.create("S")
    assert states(head, late) == ["queued", "queued"]
    end(world, early)
    queue.drain()
    assert states(head, late) == ["queued", "queued"]
    end(world, holder)
    queue.drain()
    assert states(head, late) == ["starting", "queued"]
    assert not Earmark.objects.exists()


def test_a_large_request_behind_a_stream_of_small_ones_starts_within_a_bounded_time(world):
    limit("global", "max_runtime_min", 30)
    stream = [world.run("M") for _ in range(8)]
    large = world.create("exclusive")
    asked_at = world.time.now()
    while fresh(large).state == "queued":
        for session in [*stream]:
            if world.time.now() - fresh(session).state_since >= 30 * MINUTE:
                end(world, session)
                stream.remove(session)
        newcomer = world.create("M")
        if newcomer.state == "starting":
            world.ready(newcomer)
            stream.append(newcomer)
        queue.drain()
        assert world.time.now() - asked_at < timedelta(minutes=10 + 30 + 15)
        world.pass_time(2 * MINUTE, *[fresh(session) for session in stream])


def test_a_kept_place_binds_other_lanes_and_sessions_without_a_card(world):
    world.card.__class__.objects.update(slots=20)
    node_cpu = world.node.cpu_milli
    holder = world.run("XL")
    big = a_preset("exclusive", cpu_milli=node_cpu, name="the whole node")
    head = world.create("exclusive", preset=big.pk)
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    assert Earmark.objects.get().cpu_milli == node_cpu
    bob = a_customer(100)
    assert world.create("S", customer=bob).state == "queued"
    with pytest.raises(Exception, match="room") as refusal:
        world.create("cpu", customer=bob)
    assert refusal.value.code == "no_capacity"
    end(world, holder)
    queue.drain()
    assert fresh(head).state == "starting"


def test_only_who_must_have_ended_before_the_place_is_ready_may_pass(world):
    limit("global", "max_runtime_min", 600)
    holder = world.run("XL")
    head = world.create("exclusive")
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    mark = Earmark.objects.get()
    assert mark.ready_at is not None
    quick = a_customer(100)
    limit("group", "max_runtime_min", 60, target=quick.group)
    slow = a_customer(100)
    assert world.create("S", customer=slow).state == "queued"
    assert world.create("S", customer=quick).state in {"starting", "queued"}
    queue.drain()
    in_time = Session.objects.filter(owner=quick.user).get()
    too_slow = Session.objects.filter(owner=slow.user).get()
    assert states(in_time, too_slow, head) == ["starting", "queued", "queued"]


def test_kept_places_never_promise_more_than_there_is(world):
    other = a_customer(1_000)
    holder = world.run("exclusive")
    first = world.create("XL")
    for session in (world.create("XL", customer=other), world.create("XL", customer=other)):
        request = queue.request_of(fresh(session))
        keep_place(session.pk, request, held={}, at=world.time.now())
    assert Earmark.objects.count() == 0, "nothing says that what runs there ends"

    held = holdings({holder.pk: (world.time.now() + 30 * MINUTE, True)})
    kept = [
        keep_place(session.pk, queue.request_of(fresh(session)), held=held, at=world.time.now())
        for session in (first, *Session.objects.filter(owner=other.user).order_by("pk"))
    ]
    assert [place is not None for place in kept] == [True, True, False]


def test_a_place_is_given_up_when_its_session_stops_waiting(world):
    holder = world.run("XL")
    head = world.create("exclusive")
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    assert Earmark.objects.filter(session_id=head.pk).exists()
    stop_session(Asked(head.pk, world.alice.user))
    queue.drain()
    assert not Earmark.objects.exists()
    assert world.create("XL").state == "starting"


def test_who_is_refused_by_another_gate_neither_holds_the_line_nor_a_place(world):
    limit("user", "max_sessions", 1, target=world.alice.user)
    holder = world.run("XL")
    bob = a_customer(100)
    QueueEntry.objects.all()
    close(world.card)
    limit("user", "max_sessions", 2, target=world.alice.user)
    blocked = world.create("L")
    limit("user", "max_sessions", 1, target=world.alice.user)
    behind = world.create("L", customer=bob)
    close(world.card, closed=False)
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    assert states(blocked, behind) == ["queued", "starting"]
    assert entry(blocked).reason == "quota_exceeded"
    assert not Earmark.objects.exists()


def test_all_who_are_alike_share_one_reason(world):
    world.run("exclusive")
    waiting = [world.create("XL") for _ in range(3)]
    queue.drain()
    look = LaneLook.objects.get()
    assert look.missing
    found = details([fresh(session) for session in waiting]).places
    assert {found[session.pk].detail for session in waiting} == {look.detail}


def test_looks_of_lanes_that_nobody_waits_in_are_forgotten(world):
    world.run("exclusive")
    waiting = world.create("XL")
    queue.drain()
    stop_session(Asked(waiting.pk, world.alice.user))
    queue.drain()
    assert not LaneLook.objects.exists()


# Recent use -----------------------------------------------------------------------------------------------------------


def test_who_used_much_lately_stands_behind_who_did_not_and_not_for_ever(world):
    heavy = world.run("exclusive")
    world.pass_time(timedelta(hours=5), heavy)
    recent_use.refresh()
    light = a_customer(100)
    first = world.create("XL")
    world.pass_time(MINUTE, heavy)
    second = world.create("XL", customer=light)
    assert entry(second).order_at < entry(first).order_at
    world.pass_time(timedelta(hours=2), heavy)
    third = world.create("XL", customer=light)
    assert entry(first).order_at < entry(third).order_at


def test_use_counts_half_after_a_half_life_and_once_however_often_it_is_taken_in(world):
    session = world.run("XL")
    world.pass_time(timedelta(hours=10), session)
    recent_use.refresh()
    recent_use.refresh()
    hours = recent_use.hours_of(f"user:{world.alice.user.pk}", at=world.time.now())
    now = world.time.now()
    assert hours == pytest.approx(use_between(now - timedelta(hours=10), now, now, timedelta(days=7)) / 2)
    end(world, session)
    recent_use.refresh()
    world.pass_time(timedelta(days=7))
    recent_use.refresh()
    assert recent_use.hours_of(f"user:{world.alice.user.pk}", at=world.time.now()) == pytest.approx(hours / 2, rel=0.01)
    kept = recent_use.hours_of(f"user:{world.alice.user.pk}", at=world.time.now())
    recent_use.rebuild()
    assert recent_use.hours_of(f"user:{world.alice.user.pk}", at=world.time.now()) == pytest.approx(kept, rel=0.001)


def test_a_refresh_moves_who_waits_already(world):
    holder = world.run("exclusive")
    waiting = world.create("XL")
    before = entry(waiting).order_at
    world.pass_time(timedelta(hours=3), holder)
    assert recent_use.refresh() == 1
    assert entry(waiting).order_at > before
    assert entry(waiting).enqueued_at == before


# Estimates ------------------------------------------------------------------------------------------------------------


def test_an_estimate_rests_on_what_must_end(world):
    limit("global", "max_runtime_min", 60)
    holder = world.run("exclusive")
    waiting = [world.create("exclusive") for _ in range(2)]
    estimates.refresh()
    began = fresh(holder).state_since
    first, second = (entry(session) for session in waiting)
    assert (first.basis, second.basis) == ("max_runtime", "max_runtime")
    assert began + timedelta(minutes=60) <= first.estimate_at <= began + timedelta(minutes=70)
    assert second.estimate_at >= first.estimate_at + timedelta(minutes=60)


def test_without_bounds_it_rests_on_how_long_such_sessions_last_and_says_so(world):
    for _run in range(5):
        session = world.run("exclusive")
        world.pass_time(40 * MINUTE, session)
        end(world, session)
    world.run("exclusive")
    waiting = world.create("exclusive")
    estimates.refresh()
    assert entry(waiting).basis == "typical"
    assert 35 * MINUTE < entry(waiting).estimate_at - world.time.now() < 45 * MINUTE


def test_where_nothing_says_when_others_end_it_is_unknown(world):
    world.run("exclusive")
    waiting = world.create("exclusive")
    estimates.refresh()
    assert (entry(waiting).basis, entry(waiting).estimate_at) == ("unknown", None)


def test_an_estimate_changes_with_what_happens_and_a_pause_frees_the_place(world):
    limit("global", "max_runtime_min", 600)
    holder = world.run("exclusive")
    waiting = world.create("exclusive")
    estimates.refresh()
    assert entry(waiting).estimate_at > world.time.now() + timedelta(hours=9)
    pause_session(Asked(holder.pk, world.alice.user))
    estimates.refresh()
    assert entry(waiting).estimate_at < world.time.now() + 5 * MINUTE
    assert Node.objects.count() == 1


def test_taking_in_use_writes_only_who_used_something(world):
    now = world.time.now()
    RecentUse.objects.bulk_create([RecentUse(scope=f"user:{n}", hours=1, as_of=now) for n in range(50)])
    session = world.run("XL")
    world.pass_time(timedelta(hours=1), session)
    recent_use.refresh()
    assert RecentUse.objects.filter(scope__startswith="user:", as_of=now).count() == 50
    assert {row.as_of for row in RecentUse.objects.filter(scope=f"user:{world.alice.user.pk}")} == {world.time.now()}


def test_a_runs_end_is_the_one_that_is_enforced(world):
    limit("global", "max_runtime_min", 60)
    session = world.run("exclusive")
    world.pass_time(10 * MINUTE, session)
    idleness.judge()
    limit("global", "max_runtime_min", 120)
    before = ends(world.time.now())[session.pk]
    idleness.judge()
    after = ends(world.time.now())[session.pk]
    assert before.hard
    assert after.at - before.at == 60 * MINUTE
