"""HAMi's own count of what it gave away travels with the inventory: from the scheduler that leads, and from nobody's pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from cluster.operator.substrates.kubernetes.exporters import HAMI_SCHEDULER
from tests.kube.documents import CARD
from tests.kube.kubelet import Kubelet
from tests.kube.machines import Machine, says
from tests.kube.operating import Operating, operating
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON
from tests.waiting import until


@pytest.fixture
def operator(plane: ControlPlane, cluster: str) -> Iterator[Operating]:
    with operating(plane, cluster) as made:
        yield made


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    made = [Machine(number) for number in (1, 2, 3)]
    yield made
    for machine in made:
        machine.stop()


def test_the_leader_is_asked_and_no_session_speaks_for_it(
    plane: ControlPlane, cluster: str, kubelet: Kubelet, operator: Operating, machines: list[Machine]
) -> None:
    kubelet.ip_of = lambda pod: machines[int(pod["metadata"]["labels"]["machine"])].address
    somewhere = plane.namespace("hami")

    def scheduler(namespace: str, number: int, mib: int, role: str) -> None:
        said = f'hami_gpu_memory_allocated_bytes{{device_uuid="{CARD}",node="gpu-01"}} {mib * 2**20}\n'
        machines[number].serve(HAMI_SCHEDULER.port, {"/metrics": says(said)})
        labels = {"machine": str(number), "hami.io/scheduler-role": role}
        spec: JSON = {"nodeName": "gpu-01", "containers": [{"name": "vgpu-scheduler-extender", "image": "i"}]}
        pods = f"/api/v1/namespaces/{namespace}/pods"
        plane.rest().create(pods, {"metadata": {"name": f"s{number}", "labels": labels}, "spec": spec})
        followed = operator.parts.followed
        address = machines[number].address
        until(
            lambda: address in {(each.get("status") or {}).get("podIP") for each in followed.every_pod()},
            within=20,
            what="its address is known",
        )

    def counted() -> list[int | None]:
        rows = operator.do(operator.parts.substrate.nodes(datetime.now(UTC)))
        return [card.counted_mib for row in rows for card in row.cards]

    assert counted() == [None]
    scheduler(cluster, 0, 3, "leader")
    assert counted() == [None], "it is in the sessions' namespace"
    scheduler(somewhere, 1, 5_000, "follower")
    assert counted() == [5_000], "the only one there is"
    scheduler(somewhere, 2, 6_000, "leader")
    assert counted() == [6_000]
    machines[2].stop()
    assert counted() == [None]
