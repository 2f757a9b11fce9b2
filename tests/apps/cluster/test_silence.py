"""A cluster is silent when it does not speak while we listen; our own silence is nobody's."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster import heartbeat, queries, services
from cluster.models import Deafness, Heartbeat, Node
from tests.builders import a_cluster, a_node
from tests.waiting import until

pytestmark = pytest.mark.django_db
BEGIN = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nobody_listened_before(db):
    """A real listener of another test of this run may have stamped the row; here it begins with nothing."""
    Heartbeat.objects.all().delete()
    Deafness.objects.all().delete()


def seconds(number):
    return timedelta(seconds=number)


def listen(since, until_):
    """Stamp every ten seconds."""
    at = since
    while at <= until_:
        heartbeat.stamp(at)
        at += seconds(10)


@pytest.mark.parametrize(("silence", "state"), [(89, "connected"), (90, "suspect"), (299, "suspect"), (300, "lost")])
def test_a_cluster_that_is_silent_becomes(silence, state):
    cluster = a_cluster(last_beat_at=BEGIN)
    listen(BEGIN, BEGIN + seconds(400))

    services.judge_clusters(at=BEGIN + seconds(silence))

    cluster.refresh_from_db()
    assert cluster.state == state


def test_a_change_is_told_once():
    cluster = a_cluster(last_beat_at=BEGIN)
    listen(BEGIN, BEGIN + seconds(400))
    at = BEGIN + seconds(301)

    assert [(change.before, change.after) for change in services.judge_clusters(at=at)] == [("connected", "lost")]
    assert services.judge_clusters(at=at) == []
    assert queries.cluster_states() == {cluster.pk: "lost"}


def test_a_cluster_that_never_spoke_stays_pending():
    a_cluster(state="pending")
    listen(BEGIN, BEGIN + seconds(400))

    assert services.judge_clusters(at=BEGIN + seconds(9_000)) == []


def test_time_in_which_nobody_listened_is_added_before_a_silence_is_judged():
    a_cluster(last_beat_at=BEGIN)
    listen(BEGIN, BEGIN + seconds(20))
    listen(BEGIN + seconds(1_020), BEGIN + seconds(1_400))

    assert services.judge_clusters(at=BEGIN + seconds(1_089)) == []
    assert len(services.judge_clusters(at=BEGIN + seconds(1_090))) == 1


def test_while_nobody_listens_nothing_gets_worse():
    a_cluster(last_beat_at=BEGIN)
    listen(BEGIN, BEGIN + seconds(20))

    assert services.judge_clusters(at=BEGIN + timedelta(hours=5)) == []


def test_before_the_first_stamp_ever_nobody_was_listening():
    a_cluster(last_beat_at=BEGIN)

    assert services.judge_clusters(at=BEGIN + timedelta(hours=5)) == []


def test_several_listeners_are_deaf_together_only():
    listen(BEGIN, BEGIN + seconds(10))
    heartbeat.stamp(BEGIN + seconds(25))
    heartbeat.stamp(BEGIN + seconds(24))

    assert not Deafness.objects.exists()
    assert Heartbeat.objects.get().stamped_at == BEGIN + seconds(25)


@pytest.mark.parametrize(
    ("since", "until_", "deaf"),
    [(0, 20, 0), (0, 60, 40), (30, 60, 30), (30, 200, 90), (-50, 0, 0), (150, 140, 0), (0, 180, 100)],
)
def test_deaf_time_is_the_part_of_a_stretch_without_stamps(since, until_, deaf):
    listen(BEGIN, BEGIN + seconds(20))
    listen(BEGIN + seconds(120), BEGIN + seconds(200))

    assert heartbeat.deaf_time(BEGIN + seconds(since), BEGIN + seconds(until_)) == seconds(deaf)


def test_a_node_is_lost_when_it_was_not_ready_for_long_on_a_cluster_that_speaks():
    cluster, quiet = a_cluster(), a_cluster(state="lost")
    for each in (cluster, quiet):
        a_node(each, "gone", is_ready=False)
        a_node(each, "fine")
    Node.objects.filter(name="gone").update(not_ready_since=BEGIN)
    listen(BEGIN, BEGIN + seconds(400))

    assert queries.lost_nodes(BEGIN + seconds(299)) == set()
    assert queries.lost_nodes(BEGIN + seconds(300)) == {(cluster.pk, "gone")}


@pytest.mark.django_db(transaction=True)
def test_the_listener_stamps_from_a_thread_of_its_own_until_it_is_stopped(gshare):
    gshare(heartbeat_period=timedelta(milliseconds=20))
    stamping = heartbeat.Stamping()

    stamping.start()
    first = until(Heartbeat.objects.first, what="a stamp").stamped_at
    until(lambda: Heartbeat.objects.get().stamped_at > first, what="the next stamp")
    stamping.stop()

    last = Heartbeat.objects.get().stamped_at
    assert Heartbeat.objects.get().stamped_at == last
