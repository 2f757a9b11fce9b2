"""Nodes of Kubernetes that are emptied, drained by kubectl's way, or gone: sessions leave them and come up elsewhere."""

from __future__ import annotations

import pytest

from cluster import queries
from cluster import services as cluster_services
from cluster.models import Card, Node
from sessions_app import draining, queue, reconciler
from sessions_app.models import Run
from tests.apps.sessions.world import MODEL, fresh
from tests.builders import a_node as a_node_row
from tests.kube.kubelet import Kubelet
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON
from tests.kube.test_operator import pods
from tests.kube.test_story import Site, add_metal, site  # noqa: F401 -- a fixture
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(site: Site, kubelet: Kubelet) -> Node:  # noqa: F811
    """A second node with a card like the first one's."""
    node = a_node_row(site.world.cluster, "gpu-02", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": 16}])
    add_metal(kubelet, node)
    return node


def spec_of(plane: ControlPlane, node: str) -> JSON:
    return plane.rest().get(f"/api/v1/nodes/{node}")["spec"]


def test_a_drained_node_is_cordoned_in_kubernetes_too_and_its_sessions_come_up_elsewhere(
    plane: ControlPlane,
    namespace: str,
    site: Site,  # noqa: F811
    other: Node,
) -> None:
    world = site.world
    first = world.create("L")
    site.is_in(first, "running")
    node = Node.objects.get(name=Run.objects.get(session=first).node)
    there = ({"gpu-01", "gpu-02"} - {node.name}).pop()
    cluster_services.drain_node(by=None, node_id=node.pk, mode="reschedule", reason="a fan is broken")
    site.operator.heed(frozenset(queries.cordoned_nodes(world.cluster.pk)))
    assert spec_of(plane, node.name)["unschedulable"] is True
    assert "unschedulable" not in spec_of(plane, there)
    draining.drain()
    site.is_in(first, "paused")
    reconciler.reconcile()
    site.is_in(first, "running")
    assert pods(plane, namespace) == [f"s-{first.pk.hex}-2"]
    pod = plane.rest().get(f"/api/v1/namespaces/{namespace}/pods/s-{first.pk.hex}-2")
    assert pod["spec"]["nodeName"] == there
    assert Card.objects.get(node=node).used_slots == 0
    cluster_services.cordon_node(by=None, node_id=node.pk, cordoned=False)
    site.operator.heed(frozenset(queries.cordoned_nodes(world.cluster.pk)))
    assert "unschedulable" not in spec_of(plane, node.name)
    assert everything_agrees()


def test_what_kubectl_drain_evicts_is_paused_as_drained(plane: ControlPlane, namespace: str, site: Site) -> None:  # noqa: F811
    session = site.world.create("L")
    site.is_in(session, "running")
    pod = f"s-{session.pk.hex}-1"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    plane.rest().create(f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", eviction)
    site.is_in(session, "paused")
    assert fresh(session).reason == "drained"
    assert site.world.card.used_slots == 0


def test_a_node_whose_object_is_removed_is_lost_with_what_ran_there_and_its_card_is_known_free(
    plane: ControlPlane,
    namespace: str,
    site: Site,  # noqa: F811
    kubelet: Kubelet,
    other: Node,
) -> None:
    session = site.world.create("L", auto_resume=True)
    site.is_in(session, "running")
    node = Run.objects.get(session=session).node
    kubelet.remove_node(node)
    Node.objects.filter(name=node).update(is_unschedulable=True)  # as the next beat would have it: not there
    site.is_in(session, "paused")
    assert fresh(session).reason == "node_lost"
    queue.drain()
    reconciler.reconcile()
    site.is_in(session, "running")
    assert Run.objects.get(session=session, number=2).node != node
