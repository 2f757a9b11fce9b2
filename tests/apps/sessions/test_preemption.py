"""Room for a higher priority: who is asked, how he is told, who gets the place, and that nobody is asked in vain or again."""

from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from accounts.models import Notification, PolicyValue
from cluster import fleets
from cluster.models import Card, Claim, Earmark
from sessions_app import estimates, line, preemption, queue, reconciler
from sessions_app.domain.queue import Pass
from sessions_app.models import Preemption, QueueEntry, TimelineEntry
from sessions_app.queries import details
from sessions_app.services import Asked, restart_session, resume_session, stay_paused, stop_session
from tests.apps.sessions.world import MODEL, an_offering, fresh, limit, states
from tests.builders import a_customer, a_node, cr
from tests.dying import KilledError, every_way_to_die
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def plenty(world):
    """Nobody is stopped by a limit unless a test says so; everybody may ask for priority."""
    PolicyValue.objects.filter(field__in=("max_sessions", "max_queued")).update(value=1_000)
    PolicyValue.objects.filter(field__in=("cpu_milli", "memory_mib", "vram_mib", "core_percent")).update(value=10**9)
    limit("global", "max_priority", 10)


@pytest.fixture
def bob(world):
    """Somebody whose sessions are preemptible."""
    return a_customer(1_000)


def lower(world, bob, tier="exclusive", *, ran=30, **changes):
    """A preemptible session that has run for a while."""
    session = world.run(tier, customer=bob, preemptible=True, **changes)
    if ran:
        world.pass_time(ran * MINUTE, session)
    return session


def higher(world, tier="exclusive", *, priority=5, **changes):
    return world.create(tier, priority=priority, **changes)


def asked(*sessions):
    return [(fresh(session).state, fresh(session).reason) for session in sessions]


def end(world, session):
    stop_session(Asked(session.pk, session.owner))
    world.gone(session)


PREEMPTED = ("pausing", "preempted")


def test_a_lower_session_makes_room_and_the_higher_one_gets_its_place(world, bob):
    victim = lower(world, bob)
    head = higher(world)
    assert queue.drain() == 0
    assert asked(victim) == [PREEMPTED]
    mark = Earmark.objects.get()
    assert (mark.session_id, list(mark.leaving)) == (head.pk, [str(victim.pk)])
    assert mark.ready_at == fresh(victim).deadline_at

    world.gone(victim)
    assert asked(victim) == [("paused", "preempted")]
    queue.drain()
    assert states(head) == ["starting"]
    assert not Earmark.objects.exists()
    assert everything_agrees()


@pytest.mark.parametrize(
    ("what", "priority"),
    [({"preemptible": False}, 5), ({"priority": 5}, 5), ({"priority": 6}, 5), ({}, 0)],
    ids=["never declared it", "equal", "higher", "no priority asked"],
)
def test_nobody_is_asked_who_may_not_be(world, bob, what, priority):
    session = world.run("exclusive", customer=bob, **({"preemptible": True} | what))
    world.pass_time(30 * MINUTE, session)
    higher(world, priority=priority)
    queue.drain()
    assert states(session) == ["running"]
    assert not Preemption.objects.exists()
    assert not Earmark.objects.exists()


def test_everybody_is_left_alone_until_he_has_run_for_a_while(world, bob):
    victim = lower(world, bob, ran=0)
    higher(world)
    world.pass_time(settings.GSHARE.min_runtime - MINUTE, victim)
    queue.drain()
    assert states(victim) == ["running"]
    world.pass_time(MINUTE, victim)
    queue.drain()
    assert states(victim) == ["pausing"]


def test_a_restart_buys_no_time(world, bob):
    victim = lower(world, bob)
    restart_session(Asked(victim.pk, bob.user))
    world.gone(fresh(victim))
    world.ready(fresh(victim))
    assert (fresh(victim).state, fresh(victim).run_number) == ("running", 2)
    higher(world)
    queue.drain()
    assert states(victim) == ["pausing"]


def test_who_was_asked_and_does_not_end_blocks_his_card_and_another_is_asked(world, bob):
    other, stubborn = lower(world, bob, "XL", ran=1), lower(world, bob, "XL")
    head = higher(world, "XL")
    queue.drain()
    assert states(stubborn, other) == ["pausing", "running"]
    for _deadline in range(2):  # asked without grace, then given up
        world.time.advance(settings.GSHARE.end_timeout + MINUTE)
        world.beat((stubborn, 1, fresh(stubborn).generation), (other, 1, 1))
        reconciler.deadlines()
    assert states(stubborn) == ["paused"]
    queue.drain()
    assert states(stubborn, other, head) == ["paused", "pausing", "queued"]
    world.gone(other)
    queue.drain()
    assert states(head) == ["starting"]


def test_as_few_as_it_takes_and_the_youngest_first(world, bob):
    eighths = [lower(world, bob, "M", ran=1) for _ in range(8)]
    world.pass_time(15 * MINUTE, *eighths)
    higher(world, "L")
    queue.drain()
    assert states(*eighths) == ["running"] * 6 + ["pausing"] * 2


def test_nobody_is_asked_where_the_request_would_not_fit_all_the_same(world, bob):
    stays, victim = world.run("XL"), lower(world, bob, "XL")
    higher(world)
    queue.drain()
    assert states(stays, victim) == ["running", "running"]


def test_nobody_is_asked_on_cards_that_the_request_may_not_use(world, bob):
    victim = lower(world, bob)
    Card.objects.update(is_draining=True)
    fleets.forget()
    higher(world)
    queue.drain()
    assert states(victim) == ["running"]


def test_nobody_is_asked_for_who_could_not_start_for_another_reason(world, bob):
    victim = lower(world, bob)
    head = higher(world)
    limit("user", "max_sessions", 0, target=world.alice.user)
    assert preemption.make_room(next(line.in_order(Pass()))) is False, head.name
    queue.drain()
    assert states(victim) == ["running"]
    assert not Preemption.objects.exists()


def test_while_those_who_were_asked_are_ending_nobody_else_is(world, bob):
    victims = [lower(world, bob, "XL"), lower(world, bob, "XL", ran=11)]
    head = higher(world, "XL")
    for _walk in range(3):
        queue.drain()
        world.pass_time(timedelta(seconds=20), victims[0])
    assert states(*victims) == ["running", "pausing"]
    assert Preemption.objects.count() == 1
    assert TimelineEntry.objects.filter(session=head, event="preempts").count() == 1


def test_nobody_takes_what_comes_free_while_others_are_still_ending(world, bob):
    victims = [lower(world, bob, "XL") for _ in range(2)]
    head = higher(world)
    queue.drain()
    assert asked(*victims) == [PREEMPTED, PREEMPTED]
    world.gone(victims[0])
    newcomer = world.create("S", customer=a_customer(100))
    queue.drain()
    assert states(head, newcomer) == ["queued", "queued"], "the half that is free is kept"
    world.gone(victims[1])
    queue.drain()
    assert states(head, newcomer) == ["starting", "queued"]


def test_one_who_ends_by_himself_is_not_missed(world, bob):
    """Another one on the card ends while the one who was asked is ending: nobody else is asked."""
    victims = [lower(world, bob, "XL", ran=40), lower(world, bob, "XL", ran=11)]
    head = higher(world, "XL")
    queue.drain()
    assert asked(*victims)[1] == PREEMPTED
    end(world, victims[0])
    queue.drain()
    assert states(head) == ["starting"]
    world.gone(victims[1])
    assert everything_agrees()


def test_a_walk_that_is_killed_anywhere_is_gone_on_with_and_preempts_nobody_more(world, bob):
    older = [lower(world, bob, "XL", ran=ran) for ran in (1, 1)]
    a_node(world.cluster, "gpu-02", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    younger = [lower(world, bob, "XL", ran=ran) for ran in (10, 11)]
    head = higher(world)
    every_way_to_die(queue.drain, lambda: None)
    assert states(*older, *younger) == ["running", "running", "pausing", "pausing"]
    assert Preemption.objects.exclude(asked_at=None).count() == Preemption.objects.count() == 2
    assert TimelineEntry.objects.filter(session=head, event="preempts").count() == 1
    assert Notification.objects.filter(user=bob.user, kind="session_paused").count() == 2
    for victim in younger:
        world.gone(victim)
    every_way_to_die(queue.drain, lambda: None)
    assert states(head) == ["starting"]
    assert not Earmark.objects.exists()
    assert everything_agrees()


@contextmanager
def before(text, number, act):
    """Do something before the statement that has this text for the `number`th time."""
    seen = []

    def send(execute, sql, *args):
        if text in sql:
            seen.append(sql)
            if len(seen) == number:
                act()
        return execute(sql, *args)

    with connection.execute_wrapper(send):
        yield


def die():
    raise KilledError


def test_who_was_chosen_and_not_asked_is_left_alone_when_the_request_is_cancelled(world, bob):
    victims = [lower(world, bob, "XL", ran=ran) for ran in (20, 11)]
    head = higher(world)
    telling = 'INSERT INTO "accounts_notification"'  # of the request, of the first, of the second
    with before(telling, 3, die), pytest.raises(KilledError):
        queue.drain()
    assert states(*victims) == ["running", "pausing"]
    assert Preemption.objects.filter(asked_at=None).count() == 1
    stop_session(Asked(head.pk, world.alice.user))
    queue.drain()
    assert states(*victims) == ["running", "pausing"]


def test_the_place_stays_kept_when_who_was_asked_to_pause_is_stopped_instead(world, bob):
    victim = lower(world, bob)
    head = higher(world)
    queue.drain()
    stop_session(Asked(victim.pk, bob.user))
    queue.drain()
    assert states(victim, head) == ["stopping", "queued"]
    assert Earmark.objects.get().session_id == head.pk
    world.gone(victim)
    newcomer = world.create("S", customer=a_customer(100))
    queue.drain()
    assert states(head, newcomer) == ["starting", "queued"]


def test_a_higher_head_takes_over_what_is_coming_and_asks_nobody_else(world, bob):
    victims = [lower(world, bob, "XL", ran=ran) for ran in (30, 11)]
    first = higher(world, "XL", priority=3)
    queue.drain()
    assert states(*victims) == ["running", "pausing"]
    second = higher(world, "XL", priority=7, customer=a_customer(100))
    queue.drain()
    assert states(*victims) == ["running", "pausing"]
    assert Earmark.objects.get().session_id == second.pk
    assert details([fresh(second)]).places[second.pk].reason == "preempting"
    world.gone(victims[1])
    queue.drain()
    assert states(first, second) == ["queued", "starting"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["nobody lower is left", "somebody lower runs elsewhere"])
def test_a_place_that_nobody_makes_any_more_is_not_kept(world, bob, elsewhere):
    victim = lower(world, bob)
    head = higher(world)
    queue.drain()
    assert Earmark.objects.exists()
    world.gone(victim)
    Card.objects.update(is_draining=True)
    fleets.forget()
    others = [lower_elsewhere(world, bob)] if elsewhere else []
    queue.drain()
    assert states(head, *others) == ["queued"] + ["running"] * elsewhere
    assert not Earmark.objects.exists()


def lower_elsewhere(world, bob):
    """One that might be asked, but whose card the request may not use."""
    model = an_offering("NVIDIA T4", vram_mib=15_360)
    a_node(world.cluster, "gpu-09", cards=[{"model": model.model, "vram_mib": 15_360}])
    return lower(world, bob, offering=model.pk)


# Told ------------------------------------------------------------------------------------------------------------------


def test_both_sides_are_told(world, bob):
    victim = lower(world, bob)
    head = higher(world)
    queue.drain()
    told = Notification.objects.get(user=bob.user, kind="session_paused")
    assert told.title == f"{victim.name} was paused, it made room for a higher priority"
    assert "Resume it" in told.body
    assert world.alice.user.email not in told.body
    said = Notification.objects.get(user=world.alice.user, kind="room_made")
    assert said.title == f"Room is made for {head.name}"
    row = TimelineEntry.objects.filter(session=victim).latest("at")
    assert (row.event, row.reason, row.actor, row.to_state) == ("pause", "preempted", "system", "pausing")


def test_who_waits_for_that_is_told_so_and_when(world, bob):
    victim = lower(world, bob)
    head = higher(world)
    queue.drain()
    place = details([fresh(head)]).places[head.pk]
    assert (place.reason, place.making_room, place.is_passed_over) == ("preempting", 1, False)
    estimates.refresh()
    entry = QueueEntry.objects.get(session=head)
    assert (entry.basis, entry.estimate_at) == ("preempted", fresh(victim).deadline_at)
    world.gone(victim)
    place = details([fresh(head)]).places[head.pk]
    assert (place.reason, place.making_room) == ("not_now", 0)


# Not again (trap 20) -----------------------------------------------------------------------------------------------------


def test_the_same_pair_is_not_preempted_again_within_the_hour(world, bob):
    victim = lower(world, bob)
    head = higher(world)
    queue.drain()
    world.gone(victim)
    queue.drain()
    world.ready(fresh(head))
    end(world, fresh(head))
    resume_session(Asked(victim.pk, bob.user))
    world.ready(fresh(victim))
    assert states(victim) == ["running"]
    began = Preemption.objects.get().asked_at

    again = higher(world)  # another request of the same person
    world.pass_time(15 * MINUTE, fresh(victim))
    queue.drain()
    assert states(victim, again) == ["running", "queued"]
    while world.time.now() - began < settings.GSHARE.preempt_again_after:
        world.pass_time(5 * MINUTE, fresh(victim))
    queue.drain()
    assert states(victim, again) == ["pausing", "queued"]


def test_who_was_preempted_is_not_admitted_only_to_be_preempted_again(world, bob):
    """Trap 20: woken by himself while the other victim is still ending, he gets neither the kept place nor a way past it."""
    victims = [lower(world, bob, "XL", auto_resume=True) for _ in range(2)]
    head = higher(world)
    queue.drain()
    assert asked(*victims) == [PREEMPTED, PREEMPTED]
    world.gone(victims[0])
    reconciler.reconcile()
    assert states(*victims, head) == ["queued", "pausing", "queued"], "he waits behind whom he made room for"
    assert details([fresh(victims[0])]).places[victims[0].pk].position == 2
    for _walk in range(3):
        queue.drain()
        world.time.advance(timedelta(seconds=10))
    assert states(*victims, head) == ["queued", "pausing", "queued"]

    world.gone(victims[1])
    reconciler.reconcile()
    queue.drain()
    assert states(*victims, head) == ["queued", "queued", "starting"]
    world.ready(fresh(head))
    world.pass_time(2 * MINUTE, fresh(head))
    end(world, fresh(head))
    queue.drain()
    assert states(*victims) == ["starting", "starting"]
    assert Preemption.objects.count() == 2
    assert everything_agrees()


def test_who_was_preempted_may_go_on_where_the_higher_one_would_not_fit_and_is_safe_from_it_there(world, bob):
    """Backfill: half of a card that somebody else is on helps nobody who waits for a whole one."""
    victims = [lower(world, bob, "XL", auto_resume=True) for _ in range(2)]
    other = a_node(world.cluster, "gpu-02", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    stays = world.run("XL", customer=a_customer(100))
    assert Claim.objects.get(session_id=stays.pk).node_id == other.pk
    head = higher(world)
    queue.drain()
    assert asked(*victims) == [PREEMPTED, PREEMPTED]
    world.gone(victims[0])
    reconciler.reconcile()
    assert states(victims[0], head) == ["starting", "queued"]
    assert Claim.objects.get(session_id=victims[0].pk, state="open").node_id == other.pk

    world.ready(fresh(victims[0]))
    world.gone(victims[1])
    queue.drain()
    end(world, stays)
    again = higher(world)
    world.pass_time(15 * MINUTE, fresh(victims[0]))
    queue.drain()
    assert states(victims[0], head, again) == ["running", "starting", "queued"], "the same person leaves him alone"


def test_who_calls_his_wish_off_stays_paused_after_he_made_room(world, bob):
    victim = lower(world, bob, auto_resume=True)
    head = higher(world)
    queue.drain()
    world.gone(victim)
    assert fresh(victim).resume_at == world.time.now()
    stay_paused(Asked(victim.pk, bob.user))
    reconciler.reconcile()
    queue.drain()
    assert states(victim, head) == ["paused", "starting"]


def test_a_preempted_session_pays_to_the_moment_it_was_asked_and_at_the_lower_price(world, bob):
    victim = lower(world, bob, ran=30)
    higher(world)
    queue.drain()
    world.time.advance(2 * MINUTE)
    world.gone(victim)
    assert fresh(victim).charged == cr(50) * 3 // 10 // 2
    assert everything_agrees()
