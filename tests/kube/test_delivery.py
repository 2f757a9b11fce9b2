"""Documents go to Kubernetes clusters by hint, tick and sweep: in order, once, and over outages."""

from __future__ import annotations

from datetime import timedelta
from queue import Empty

import pytest

from cluster.adapters.kube import KubeCluster
from cluster.adapters.kube.api import Api
from cluster.adapters.kube.circuit import Circuit
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from cluster.delivery import deliver
from cluster.hints import DELIVER
from cluster.models import Cluster
from gshare_core.contract import Access, session_name
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_site.celery import app
from sessions_app.services import pause_session
from sessions_app.sweep import sweep
from tests.apps.sessions.world import a_world, asked, manual_clock
from tests.builders import a_cluster
from tests.cluster_acts import a_spec, want
from tests.kube.between import Answer
from tests.kube.documents import sessions

pytestmark = pytest.mark.django_db


@pytest.fixture
def ports(plane, between):
    """The port of each cluster: a namespace of its own, all behind `between`."""
    made = {}
    opened = []

    def port(cluster_id):
        if cluster_id not in made:
            target = read_kubeconfig(between.kubeconfig(), allow_local=True)
            opened.append(Api(target, allow_local=True, circuit=Circuit(failures=1000)))
            made[cluster_id] = KubeCluster(opened[-1], namespace=plane.namespace())
        return made[cluster_id]

    yield port
    for api in opened:
        api.close()


def a_kube_cluster():
    return a_cluster(kind="kube", kubeconfig="main")


def seen(port):
    return {(each.session, each.run, each.generation, each.is_tombstone) for each in port.observe()}


def delivered(cluster):
    return Cluster.objects.get(pk=cluster.pk).delivered_seq


def test_what_changed_is_handed_over_once_and_a_local_clusters_documents_are_left_to_it(between, ports):
    cluster, local = a_kube_cluster(), a_cluster()
    session, ended = uuid7(), uuid7()
    want(cluster, a_spec(session))
    want(cluster, None, session=ended, run=3, generation=4)
    want(local, a_spec(uuid7()))

    assert deliver(ports) == 2

    assert seen(ports(cluster.pk)) == {(session, 1, 1, False), (ended, 3, 4, True)}
    asked_before = len(between.requests)
    assert deliver(ports) == 0
    assert len(between.requests) == asked_before

    want(cluster, a_spec(session, generation=2, desired="Paused"))
    assert deliver(ports) == 1
    assert (session, 1, 2, False) in seen(ports(cluster.pk))


def test_an_outage_in_the_middle_loses_nothing_and_leaves_other_clusters_alone(between, ports):
    cluster, other = a_kube_cluster(), a_kube_cluster()
    wanted = [uuid7() for _ in range(4)]
    for session in wanted:
        want(cluster, a_spec(session))
    want(other, a_spec(uuid7()))
    refused = session_name(wanted[2])
    between.before = lambda _method, path: Answer(503) if refused in path else None

    assert deliver(ports) == 3

    assert {session for session, *_ in seen(ports(cluster.pk))} == set(wanted[:2])
    assert len(seen(ports(other.pk))) == 1
    between.before = lambda _method, _path: None
    assert deliver(ports) == 2
    assert {session for session, *_ in seen(ports(cluster.pk))} == set(wanted)


def test_a_document_that_the_cluster_will_never_take_stops_none_behind_it(ports):
    cluster, good = a_kube_cluster(), uuid7()
    want(cluster, a_spec(uuid7(), access=Access(host="x.example", token_secret="s-0-access")))
    want(cluster, a_spec(good))

    assert deliver(ports) == 1

    assert seen(ports(cluster.pk)) == {(good, 1, 1, False)}
    before = delivered(cluster)
    assert deliver(ports) == 0 and delivered(cluster) == before


def test_a_cluster_whose_kubeconfig_is_missing_keeps_its_documents_for_later():
    cluster = a_kube_cluster()
    want(cluster, a_spec(uuid7()))

    assert deliver() == 0

    assert delivered(cluster) == 0


def hints():
    """The tasks that were sent since the last look."""
    names = []
    with app.connection_for_read() as connection, connection.SimpleQueue("gshare") as queue:
        while True:
            try:
                message = queue.get_nowait()
            except Empty:
                return names
            message.ack()
            names.append(message.headers["task"])


@pytest.mark.django_db(transaction=True)
def test_a_written_document_wakes_who_hands_it_over_after_the_commit():
    cluster, local, session = a_kube_cluster(), a_cluster(), uuid7()
    hints()

    want(local, a_spec(uuid7()))
    assert hints() == []
    want(cluster, a_spec(session))
    assert hints() == [DELIVER]
    assert want(cluster, a_spec(session)) is None
    assert hints() == []
    want(cluster, None, session=session)
    assert hints() == [DELIVER]


@pytest.fixture
def world(db):
    time = manual_clock()
    with clock.using(time):
        yield a_world(time, cards=2)


def test_a_sessions_document_follows_its_life_and_is_put_back_where_a_hand_took_it(plane, world, ports):
    port = ports(world.cluster.pk)
    session = world.run("L")
    sweep(lambda _cluster: port)
    assert {(run, ended) for _session, run, _generation, ended in seen(port)} == {(1, False)}

    path = sessions(port._namespace, session_name(session.pk))
    labels = plane.rest().get(path)["metadata"]["labels"]
    assert labels["gshare.io/group"] == str(session.group_id)
    assert labels["gshare.io/organisation"] == str(session.organisation_id)

    plane.rest().delete(path)
    sweep(lambda _cluster: port)
    assert plane.rest().get(path)["spec"]["desired"] == "Running"

    pause_session(asked(world, session))
    sweep(lambda _cluster: port)
    assert plane.rest().get(path)["spec"]["desired"] == "Paused"

    world.gone(session)
    world.time.advance(timedelta(minutes=1))
    world.beat()
    sweep(lambda _cluster: port)
    assert seen(port) == set()
