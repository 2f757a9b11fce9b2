"""The operator on Kubernetes as processes of their own: two of them, one leads, and the other goes on when it is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from gshare_core.ids import uuid7
from tests.apps.operator.control_plane import ControlPlane as Listener
from tests.kube.documents import CARD, sessions
from tests.kube.plane import ControlPlane
from tests.kube.test_operator import pods, want
from tests.unit.operator.local import KEY
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "gshare-system"


class Operators:
    """Operator processes of one cluster, and the control plane that hears them."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.folder, self.namespace = folder, namespace
        self.system = plane.namespace("system")
        self.listener = Listener()
        (folder / "kubeconfig").write_text(plane.kubeconfig())
        token = {"token": self.listener.book.token, "cluster": str(uuid4()), "cluster_key": KEY.hex()}
        (folder / "token.json").write_text(json.dumps(token))
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.environ["PATH"],
            "GSHARE_OPERATOR_SUBSTRATE": "kubernetes",
            "GSHARE_OPERATOR_NAMESPACE": self.namespace,
            "GSHARE_OPERATOR_SYSTEM_NAMESPACE": self.system,
            "GSHARE_OPERATOR_KUBECONFIG": str(self.folder / "kubeconfig"),
            "GSHARE_OPERATOR_CONSOLE_URL": "https://gshare.example",
            "GSHARE_OPERATOR_TOKEN_FILE": str(self.folder / "token.json"),
            "GSHARE_INTERNAL_URL": self.listener.url,
        }
        with (self.folder / "operator.log").open("ab") as log:
            command = [sys.executable, "-m", "cluster.operator"]
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.running.append(process)
        return process

    @property
    def log(self) -> str:
        return (self.folder / "operator.log").read_text()[-3000:]

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        self.listener.stop()


@pytest.fixture
def operators(plane: ControlPlane, cluster: str, tmp_path: Path) -> Iterator[Operators]:
    made = Operators(plane, cluster, tmp_path)
    yield made
    made.close()


def leader(plane: ControlPlane, system: str) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{system}/leases/gshare-operator"
    found = plane.rest().find(path)
    return str((found or {}).get("spec", {}).get("holderIdentity") or "")


def test_one_leads_and_the_other_goes_on_when_it_is_killed(
    plane: ControlPlane, cluster: str, operators: Operators
) -> None:
    session = uuid7()
    first = operators.start()
    until(lambda: leader(plane, operators.system), within=40, what="somebody leads")
    led_by = leader(plane, operators.system)
    operators.start()
    want(plane, cluster, session)
    phases = operators.listener.book.phases
    until(lambda: "running" in phases(session), within=40, what="it is reported")
    first.kill()
    first.wait()
    want(plane, cluster, session, generation=2, desired="Stopped")
    until(lambda: "gone" in phases(session), within=60, what=f"the other ends it: {operators.log}")
    assert leader(plane, operators.system) not in {"", led_by}
    assert pods(plane, cluster) == []
    status = plane.rest().get(sessions(cluster, f"s-{session.hex}"))["status"]
    assert status["phase"] == "Gone"


def test_an_inventory_tells_nodes_cards_and_what_is_bound(
    plane: ControlPlane, cluster: str, operators: Operators
) -> None:
    session = uuid7()
    operators.start()
    want(plane, cluster, session)
    until(lambda: "running" in operators.listener.book.phases(session), within=60, what=operators.log)

    def bound() -> list[tuple[str, int]]:
        beats = operators.listener.book.inventories
        cards = [card for node in beats[-1].nodes for card in node.cards] if beats else []
        return [(card.uuid, len(card.bound)) for card in cards]

    until(lambda: bound() == [(CARD, 1)], within=60, what="the card and its share are told")


def test_a_volume_that_was_given_up_goes_when_nothing_mounts_it(
    plane: ControlPlane, cluster: str, operators: Operators
) -> None:
    session = uuid7()
    operators.start()
    want(plane, cluster, session)
    phases = operators.listener.book.phases
    until(lambda: "running" in phases(session), within=60, what="it runs")
    claim = f"/api/v1/namespaces/{cluster}/persistentvolumeclaims/vol-1"
    operators.listener.book.removed_volumes = ("vol-1",)
    beats = len(operators.listener.book.asked_after)
    until(lambda: len(operators.listener.book.asked_after) > beats, within=60, what="the operator has heard of it")
    assert not plane.rest().get(claim)["metadata"].get("deletionTimestamp"), "a session has it still"
    want(plane, cluster, session, generation=2, desired="Paused", volumes=[])
    until(lambda: "gone" in phases(session), within=60, what="it is paused")
    until(
        lambda: (plane.rest().find(claim) or {"metadata": {"deletionTimestamp": "gone"}})["metadata"].get(
            "deletionTimestamp"
        ),
        within=60,
        what="its end is asked for",
    )


def test_a_variable_that_means_nothing_is_refused_by_name(operators: Operators) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "GSHARE_OPERATOR_SUBSTRATE": "kubernetes",
        "GSHARE_OPERATOR_SESSIONS": "/tmp",
    }
    command = [sys.executable, "-m", "cluster.operator"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "GSHARE_OPERATOR_SESSIONS" in done.stderr


def test_a_node_that_is_cordoned_in_the_control_plane_is_told_back_as_such(
    plane: ControlPlane, cluster: str, operators: Operators
) -> None:
    operators.listener.book.cordoned_nodes = ("gpu-01",)
    operators.start()
    node = "/api/v1/nodes/gpu-01"
    until(lambda: plane.rest().get(node)["spec"].get("unschedulable"), within=60, what="the node is cordoned")
    plane.rest().patch(node, {"spec": {"unschedulable": None}})
    until(lambda: plane.rest().get(node)["spec"].get("unschedulable"), within=60, what="it is cordoned again")
