"""What no line may do: let somebody overtake who would fit, stop for a head that cannot start, leave anybody without a reason."""

from datetime import timedelta

import pytest

from accounts.models import PolicyValue
from billing.models import Meter
from cluster import fleets, ticks
from cluster.models import Card, Cluster, Desired, Node
from sessions_app import queue, reconciler
from sessions_app.queries import details
from sessions_app.services import Asked, pause_session, resume_session, stop_session
from sessions_app.views import words
from tests.apps.sessions.world import MODEL, a_preset, an_offering, fresh, limit, states
from tests.builders import a_cluster, a_node, cr

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
H100 = "NVIDIA H100"


@pytest.fixture(autouse=True)
def plenty(world):
    """Nobody is stopped by a limit unless a test says so."""
    PolicyValue.objects.filter(field__in=("max_sessions", "max_queued")).update(value=1_000)
    PolicyValue.objects.filter(field__in=("cpu_milli", "memory_mib", "vram_mib", "core_percent")).update(value=10**9)


def close(world, closed=True):
    Card.objects.filter(node=world.node).update(is_draining=closed)
    fleets.forget()


def end(world, session):
    stop_session(Asked(session.pk, session.owner))
    world.gone(session)


def place_of(session):
    return details([fresh(session)]).places[session.pk]


# Nobody passes who would delay (trap 17) ------------------------------------------------------------------------------


def test_a_resume_never_passes_who_waits_and_fits(world):
    back = world.run("exclusive")
    pause_session(Asked(back.pk, world.alice.user))
    world.gone(back)
    close(world)
    waits = world.create("exclusive")
    close(world, closed=False)
    world.time.advance(MINUTE)
    resume_session(Asked(back.pk, world.alice.user))
    assert states(waits, back) == ["queued", "queued"]
    assert place_of(back).position == 2
    queue.drain()
    assert states(waits, back) == ["starting", "queued"]
    end(world, waits)
    queue.drain()
    assert states(back) == ["starting"]


def test_a_blocked_head_stops_only_its_own_lane(world):
    other = an_offering(H100)
    a_node(world.cluster, "gpu-02", cards=[{"model": H100, "vram_mib": 81_559}])
    holder = world.run("exclusive")
    head = world.create("exclusive")
    on_other = world.run("exclusive", offering=other.pk)
    waits_there = world.create("exclusive", offering=other.pk)
    world.pass_time(11 * MINUTE, holder, on_other)
    queue.drain()
    end(world, on_other)
    assert queue.drain() == 1
    assert states(head, waits_there) == ["queued", "starting"]
    end(world, waits_there)
    assert world.create("exclusive", offering=other.pk).state == "starting"
    assert place_of(head).position == 1


# A head that cannot start (trap 21) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["image_pull_failed", "crash_loop"])
def test_a_head_whose_image_is_broken_gives_its_card_to_the_next(world, reason):
    holder = world.run("exclusive")
    head, behind = world.create("exclusive"), world.create("exclusive")
    end(world, holder)
    queue.drain()
    assert states(head, behind) == ["starting", "queued"]
    world.report(fresh(head), "failed", reason)
    world.gone(head)
    queue.drain()
    assert states(head, behind) == ["failed", "starting"]
    assert fresh(head).charged == 0


def test_a_head_whose_starts_fail_ends_and_lets_the_next_have_the_card(world):
    holder = world.run("exclusive")
    head, behind = world.create("exclusive"), world.create("exclusive")
    end(world, holder)
    for _attempt in range(3):
        queue.drain()
        assert states(head, behind) == ["starting", "queued"]
        world.gone(head, "node_lost")
    queue.drain()
    assert states(head, behind) == ["failed", "starting"]


def test_a_head_that_is_bound_to_a_lost_cluster_keeps_its_place_and_stops_nobody(world):
    elsewhere = a_cluster("zz-elsewhere", last_beat_at=world.time.now())
    a_node(elsewhere, "other-01", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    Node.objects.filter(cluster=elsewhere).update(is_cordoned=True)
    close(world)
    head = world.create("exclusive", cluster=world.cluster.pk)
    behind = world.create("exclusive")
    assert states(head, behind) == ["queued", "queued"]
    world.time.advance(6 * MINUTE)
    Cluster.objects.filter(pk=elsewhere.pk).update(last_beat_at=world.time.now())
    ticks.judge()
    assert Cluster.objects.get(pk=world.cluster.pk).state == "lost"
    Node.objects.filter(cluster=elsewhere).update(is_cordoned=False)
    close(world, closed=False)
    queue.drain()
    assert states(head, behind) == ["queued", "starting"]
    assert place_of(head).position == 1
    assert words.queue_reason(place_of(head))


# Everybody knows why (trap 23) ----------------------------------------------------------------------------------------


def whole_card(world):
    world.run("exclusive")
    return world.create("exclusive")


def part_of_a_card(world):
    world.run("exclusive")
    return world.create("L")


def slot(world):
    Card.objects.update(slots=1)
    world.run("S")
    return world.create("S")


def host(world):
    big = a_preset("L", cpu_milli=world.node.cpu_milli, name="the whole node")
    world.run("L", preset=big.pk)
    return world.create("S")


def who_is_before(world):
    close(world)
    world.create("L")
    close(world, closed=False)
    return world.create("S")


def own_limit(world):
    close(world)
    waits = world.create("L")
    limit("user", "max_sessions", 0, target=world.alice.user)
    close(world, closed=False)
    queue.drain()
    return waits


@pytest.mark.parametrize(
    ("story", "missing", "said"),
    [
        (whole_card, "cards", "waits for a whole card"),
        (part_of_a_card, "cores", "waits for 25 % of a card's compute"),
        (slot, "slots", "waits for a slot on a card"),
        (host, "cpu_milli", "waits for"),
        (who_is_before, None, "others are before it"),
        (own_limit, None, "passed over: a limit is reached"),
    ],
)
def test_who_waits_is_told_why_and_what_would_free_it(world, story, missing, said):
    waits = story(world)
    assert waits.state == "queued"
    place = place_of(waits)
    assert said in words.queue_reason(place)
    assert place.detail
    if missing:
        assert place.missing[missing] > 0


# A pause that is taken back (trap 27) ---------------------------------------------------------------------------------


def test_pause_then_resume_at_once_really_ends_the_first_pod_and_bills_each_run_for_itself_alone(world):
    session = world.run("L")
    world.pass_time(30 * MINUTE, session)
    pause_session(Asked(session.pk, world.alice.user))
    resume_session(Asked(session.pk, world.alice.user))
    assert Desired.objects.get(session_id=session.pk).spec["desired"] == "Paused"
    world.time.advance(MINUTE)
    world.gone(session)
    reconciler.reconcile()
    document = Desired.objects.get(session_id=session.pk)
    assert (document.run, document.spec["desired"]) == (2, "Running")
    world.report(session, "running", run=1, ready_at=world.time.now())
    assert states(session) == ["starting"]
    world.time.advance(MINUTE)
    world.ready(fresh(session))
    world.pass_time(30 * MINUTE, fresh(session))
    end(world, fresh(session))
    charged = Meter.objects.filter(reference=session.pk).order_by("number").values_list("charged", flat=True)
    assert list(charged) == [cr("6.25"), cr("6.25")]
