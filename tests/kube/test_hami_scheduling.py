"""The operator's pods behind the real kube-scheduler with HAMi: pods land on exactly the claimed cards, or wait and say why."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from cluster.operator.manifests import ManifestSettings, Owner, manifests_of
from cluster.operator.reading.nodes import node_state, read_node
from cluster.operator.reading.pods import Surroundings, read_pod
from cluster.operator.reading.troubles import Patience
from cluster.operator.state import Pod
from gshare_core.contract import GpuShare, Reason, SessionSpec, session_name
from gshare_core.ids import uuid7
from tests.kube.hami import LOCK_SECONDS, hami_scheduler
from tests.kube.kubelet import Fate, Kubelet
from tests.kube.nodes import NODES, a_card, a_node
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON
from tests.unit.operator.build import gpu, spec
from tests.waiting import until

NUMBERS = itertools.count(1)
A, B, C = "GPU-a", "GPU-b", "GPU-c"


@pytest.fixture(scope="module")
def hami(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hami_scheduler(plane, tmp_path_factory.mktemp("hami")) as url:
        yield url


class Metal:
    """One node with three cards of sixteen slots, in this test's namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, kubelet: Kubelet) -> None:
        self.rest, self.namespace = plane.rest(), namespace
        self.node = f"gpu-{next(NUMBERS)}-{namespace}"
        cards = [a_card(self.uuid(name), index=index) for index, name in enumerate((A, B, C))]
        kubelet.add_node(a_node(self.node, cards))

    def uuid(self, name: str) -> str:
        """The UUID of a card of this node: no other node has it."""
        return f"{name}-{self.node}"

    def share(self, *names: str, **fields: object) -> GpuShare:
        return gpu(self.node, tuple(map(self.uuid, names)), **fields)

    def create(self, share: GpuShare, session: UUID | None = None) -> SessionSpec:
        """Make the pod of a document."""
        document = spec(session=session or uuid7(), gpu=share)
        owner = Owner(session_name(document.session_id), "u")
        pod = manifests_of(document, owner, "token", ManifestSettings(namespace=self.namespace)).pod
        self.rest.create(f"/api/v1/namespaces/{self.namespace}/pods", pod)
        return document

    def object(self, document: SessionSpec) -> JSON:
        return self.rest.get(self.path(document))

    def path(self, document: SessionSpec) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{session_name(document.session_id)}-{document.run}"

    def pod(self, document: SessionSpec, patience: Patience | None = None) -> Pod:
        """The pod as the operator reads it."""
        nodes = {node["metadata"]["name"]: node_state(node) for node in self.rest.items(NODES)}
        around = Surroundings(nodes, datetime.now(UTC), patience=patience or Patience())
        found = read_pod(self.object(document), around)
        assert found is not None
        return found

    def runs(self, document: SessionSpec, within: float = 60) -> Pod:
        until(lambda: self.pod(document).ready, within=within, what="the pod runs")
        return self.pod(document)

    def runs_anew(self, share: GpuShare) -> Pod:
        """As the control plane does, a start that is refused by a stale choice is made anew.

        HAMi may not have heard yet that a reservation has gone when it is asked, and the scheduler asks again only when
        something changes, or after five minutes.
        """
        return until(lambda: self._try(share), within=60, what="a start that is made anew runs")

    def _try(self, share: GpuShare) -> Pod | None:
        document = self.create(share)
        until(lambda: self.pod(document).ready or _refusal(self.object(document)), within=30, what="an answer")
        found = self.pod(document)
        if found.ready:
            return found
        self.rest.delete(self.path(document), grace=0)
        return None

    def refusal(self, document: SessionSpec) -> str:
        """What the scheduler says of a pod that does not fit."""
        until(lambda: _refusal(self.object(document)), within=60, what="the scheduler refuses")
        return _refusal(self.object(document))

    def held(self) -> list[int]:
        """How many pods hold each card."""
        pods = self.rest.items("/api/v1/pods")
        return [len(card.bound) for card in read_node(self.rest.get(f"{NODES}/{self.node}"), pods).row.cards]


def _refusal(pod: JSON) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next(
        (
            each.get("message", "")
            for each in conditions
            if each["type"] == "PodScheduled" and each["status"] == "False"
        ),
        "",
    )


@pytest.fixture
def metal(plane: ControlPlane, hami: str, namespace: str, kubelet: Kubelet) -> Metal:
    return Metal(plane, namespace, kubelet)


def test_pods_land_on_exactly_the_claimed_cards(metal: Metal) -> None:
    for names, fields in (
        ((B,), {"vram_mib": 20389, "core_percent": 25}),
        ((A,), {"vram_mib": 10194, "core_percent": 12}),
        ((B,), {"vram_mib": 9000, "core_percent": 12}),
    ):
        document = metal.create(metal.share(*names, **fields))
        pod = metal.runs(document)
        assert pod.node == metal.node and pod.trouble is None
        assert pod.cards == tuple(map(metal.uuid, names))
    assert metal.held() == [1, 2, 0]


def test_whole_cards_are_all_bound_and_nobody_else_fits_on_them(metal: Metal) -> None:
    whole = metal.create(metal.share(A, C, mode="exclusive", vram_mib=81920, core_percent=100))
    assert set(metal.runs(whole).cards) == {metal.uuid(A), metal.uuid(C)}
    late = metal.create(metal.share(C, vram_mib=1024, core_percent=1))
    assert "CardInsufficientMemory" in metal.refusal(late)
    trouble = metal.pod(late, Patience(scheduling=Patience().scheduling * 0)).trouble
    assert trouble is not None and trouble.reason is Reason.CLAIM_MISMATCH
    assert "1/3 CardInsufficientMemory, 2/3 CardUuidMismatch" in trouble.message


def test_sixteen_sixteenths_made_one_after_the_other_fill_a_card_and_the_next_waits(metal: Metal) -> None:
    for _ in range(16):
        metal.runs(metal.create(metal.share(A, vram_mib=5120, core_percent=6)))
    assert metal.held() == [16, 0, 0]
    assert "CardTimeSlicingExhausted" in metal.refusal(metal.create(metal.share(A, vram_mib=5120, core_percent=1)))


def test_pods_that_contend_for_the_nodes_lock_all_run_in_the_end(metal: Metal) -> None:
    documents = [metal.create(metal.share(name, vram_mib=1024, core_percent=1)) for name in (A, B, C, A)]
    for document in documents:
        assert metal.runs(document, within=90).trouble is None
    assert metal.held() == [2, 1, 1]


def test_a_lock_whose_pod_is_stuck_is_named_and_outlived(metal: Metal, kubelet: Kubelet) -> None:
    stuck = metal.create(metal.share(A, vram_mib=1024, core_percent=1))
    metal.runs(stuck)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = metal.path(stuck).rpartition("/")[2]
    lock = {"hami.io/mutex.lock": f"{now},{metal.namespace},{name}"}
    metal.rest.patch(f"{NODES}/{metal.node}", {"metadata": {"annotations": lock}})
    waits = metal.create(metal.share(B, vram_mib=1024, core_percent=1))
    assert "node lock contention" in metal.refusal(waits)
    trouble = metal.pod(waits, Patience(node_lock=Patience().node_lock * 0)).trouble
    assert trouble is not None and trouble.reason is Reason.NODE_LOCK
    assert metal.runs(waits, within=LOCK_SECONDS + 40).cards == (metal.uuid(B),)


def test_a_reservation_that_never_ran_goes_with_its_pod(metal: Metal, kubelet: Kubelet) -> None:
    kubelet.fate_of = lambda pod: Fate.NEVER_READY
    phantom = metal.create(metal.share(A, vram_mib=81920, core_percent=50))
    until(lambda: metal.pod(phantom).cards, within=60, what="HAMi has chosen")
    late = metal.create(metal.share(A, vram_mib=1024, core_percent=1))
    assert "CardInsufficientMemory" in metal.refusal(late)
    metal.rest.delete(metal.path(phantom), grace=0)
    kubelet.fate_of = lambda pod: Fate.RUN
    metal.rest.delete(metal.path(late), grace=0)
    assert metal.runs_anew(metal.share(A, vram_mib=1024, core_percent=1)).cards == (metal.uuid(A),)


def test_a_pod_without_a_card_is_not_hamis(metal: Metal, plane: ControlPlane) -> None:
    plane.start_scheduler()
    document = spec(session=uuid7(), node=metal.node)
    owner = Owner(session_name(document.session_id), "u")
    pod = manifests_of(document, owner, "token", ManifestSettings(namespace=metal.namespace)).pod
    metal.rest.create(f"/api/v1/namespaces/{metal.namespace}/pods", pod)
    assert metal.runs(document).cards == ()
    assert not any("hami.io" in key for key in metal.object(document)["metadata"]["annotations"])
