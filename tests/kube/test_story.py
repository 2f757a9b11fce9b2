"""Two people and one card on Kubernetes: the control plane's own code, the adapter, a real API server, the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from billing.models import Meter, Transfer
from billing.trial import differences
from cluster.adapters.kube import KubeCluster
from cluster.adapters.kube.api import Api
from cluster.adapters.kube.circuit import Circuit
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from cluster.delivery import deliver
from cluster.models import Card, Cluster, Node
from gshare_core.kit import clock
from sessions_app import queue, recounting, reports
from sessions_app.models import Session
from sessions_app.services import Asked, pause_session, resume_session, stop_session
from tests.apps.sessions.world import MODEL, NOON, World, a_world, fresh, manual_clock
from tests.builders import Customer, a_cluster, a_customer
from tests.builders import a_node as a_node_row
from tests.kube.kubelet import Kubelet
from tests.kube.nodes import a_card, a_node
from tests.kube.operating import Binder, Operating, operating
from tests.kube.plane import ControlPlane
from tests.kube.test_operator import pods
from tests.waiting import until

pytestmark = pytest.mark.django_db


class Site:
    """A control plane and its clusters; `settle` carries documents there and reports back until something is true."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ports: dict[UUID, KubeCluster] = {}
        self._operators: dict[UUID, Operating] = {}

    def connect(self, cluster: UUID, port: KubeCluster, operator: Operating) -> None:
        self._ports[cluster], self._operators[cluster] = port, operator

    @property
    def operator(self) -> Operating:
        """That of the first cluster."""
        return next(iter(self._operators.values()))

    def settle(self, condition: Callable[[], bool], what: str) -> None:
        def turn() -> bool:
            deliver(self._ports.__getitem__)
            for cluster, operator in self._operators.items():
                self._take_reports(cluster, operator)
            return condition()

        until(turn, within=60, what=what)

    def _take_reports(self, cluster: UUID, operator: Operating) -> None:
        assert operator.parts is not None
        for session, record in operator.parts.store.pending():
            assert record.report is not None
            sent = record.report.model_copy(update={"sent_at": datetime.now(UTC)})
            reports.receive_status(cluster, session, sent)
            operator.acknowledge(session, record.report)

    def is_in(self, session: Session, state: str) -> None:
        self.settle(lambda: fresh(session).state == state, f"the session is {state}")


@contextmanager
def connected(site: Site, cluster: Cluster, plane: ControlPlane, namespace: str) -> Iterator[None]:
    """The cluster's row has an API server behind it, with an operator and a scheduler."""
    Cluster.objects.filter(pk=cluster.pk).update(kind="kube", kubeconfig="main")
    binder = Binder(plane, namespace)
    binder.start()
    api = Api(read_kubeconfig(plane.kubeconfig(), allow_local=True), allow_local=True, circuit=Circuit())
    with operating(plane, namespace, deaf=True) as operator:
        site.connect(cluster.pk, KubeCluster(api, namespace=namespace), operator)
        yield
    api.close()
    binder.stop()


def add_metal(kubelet: Kubelet, node: Node) -> None:
    """The node's row and its cards exist on the API server."""
    cards = [a_card(card.uuid, devmem=card.vram_mib, index=card.index) for card in node.cards.order_by("index")]
    kubelet.add_node(a_node(node.name, cards))


@pytest.fixture
def site(plane: ControlPlane, kubelet: Kubelet, namespace: str) -> Iterator[Site]:
    time = manual_clock()
    with clock.using(time):
        made = Site(a_world(time))
        add_metal(kubelet, made.world.node)
        with connected(made, made.world.cluster, plane, namespace):
            yield made


def asked(session: Session, who: Customer) -> Asked:
    return Asked(session.pk, who.user)


def test_the_second_starts_when_the_first_pauses_and_the_first_comes_back(
    plane: ControlPlane, namespace: str, site: Site
) -> None:
    world, bob = site.world, a_customer(1_000)
    first = world.create("exclusive")
    second = world.create("exclusive", customer=bob)
    assert fresh(second).state == "queued"
    site.is_in(first, "running")
    assert pods(plane, namespace) == [f"s-{first.pk.hex}-1"]
    world.time.advance(timedelta(minutes=30))
    pause_session(asked(first, world.alice))
    site.is_in(first, "paused")
    assert (pods(plane, namespace), Card.objects.get(pk=world.card.pk).used_slots) == ([], 0)
    queue.drain()
    site.is_in(second, "running")
    resume_session(asked(first, world.alice))
    assert fresh(first).state == "queued"
    world.time.advance(timedelta(minutes=20))
    stop_session(asked(second, bob))
    site.is_in(second, "stopped")
    queue.drain()
    site.is_in(first, "running")
    assert pods(plane, namespace) == [f"s-{first.pk.hex}-2"]
    stop_session(asked(first, world.alice))
    site.is_in(first, "stopped")
    assert pods(plane, namespace) == []
    assert (list(differences()), recounting.differences()) == ([], [])
    charged = sum(Transfer.objects.filter(kind="charge").values_list("amount", flat=True))
    assert charged == sum(Meter.objects.values_list("charged", flat=True)) > 0
    assert Card.objects.get(pk=world.card.pk).used_slots == 0


def test_the_outage_of_one_cluster_leaves_the_other_admitting(
    plane: ControlPlane, second_plane: ControlPlane, site: Site, tmp_path: Path
) -> None:
    other = a_cluster("other", last_beat_at=NOON)
    node = a_node_row(other, "gpu-02", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    with Kubelet(second_plane, tmp_path) as kubelet:
        add_metal(kubelet, node)
        with connected(site, other, second_plane, second_plane.namespace()):
            plane.stop_api()
            here = site.world.create("L", cluster=site.world.cluster.pk)
            there = site.world.create("L", cluster=other.pk)
            site.is_in(there, "running")
            assert fresh(here).state == "starting", "admitted; its document waits"
            plane.start_api()
            site.is_in(here, "running")
