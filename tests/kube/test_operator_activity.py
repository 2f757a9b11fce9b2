"""What sessions do on a real API server: applications by real HTTP, cards by monitors' own text, CPU by the metrics API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID

import pytest

from gshare_core.contract import Activity, AppUse
from gshare_core.ids import uuid7
from tests.kube.documents import CARD, a_card_share
from tests.kube.kubelet import Kubelet
from tests.kube.machines import Answers, Machine, metrics_served, says
from tests.kube.operating import Operating, operating
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON
from tests.kube.test_operator import reported, want
from tests.kube.test_operator_rights import operator_account
from tests.waiting import until

__all__ = ["operator_account"]

APPS = [{"name": "lab", "port": 8888}, {"name": "terminal", "port": 7681}]
NEVER = {"input_at": None, "edited_at": None}
HOST = f'hami_host_gpu_memory_used_bytes{{device_index="0",device_uuid="{CARD}",node="gpu-01",zone="vGPU"}} 5e+08\n'


def moment(ago: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()


def kernel(state: str = "idle", ago: float = 3600) -> JSON:
    return {"id": "k", "name": "python3", "execution_state": state, "last_activity": moment(ago), "connections": 0}


class Place:
    """A cluster whose pods answer: each session has a machine of its own, the node another."""

    def __init__(self, plane: ControlPlane, namespace: str, kubelet: Kubelet, operator: Operating) -> None:
        self.plane, self.namespace, self.operator = plane, namespace, operator
        self.machines: dict[str, Machine] = {}
        self.node = Machine(1)
        kubelet.ip_of = self._ip_of

    def _ip_of(self, pod: JSON) -> str:
        machine = self.machines.get(pod["metadata"].get("labels", {}).get("gshare.io/session", ""), self.node)
        return machine.address

    def session(self, lab: Answers | None = None, inside: Any = NEVER, **fields: Any) -> UUID:
        """A session that runs and answers: Jupyter's paths, and the reporter (None: it has none)."""
        session = uuid7()
        machine = self.machines[str(session)] = Machine(len(self.machines) + 2)
        machine.serve(8888, {"/lab/api/kernels": says([])} if lab is None else lab)
        if inside is not None:
            machine.serve(8790, {"/activity": says(inside)})
        want(self.plane, self.namespace, session, **({"apps": APPS} | fields))
        reported(self.operator, session, "running")
        until(lambda: self.pod(session)["status"].get("podIP") == machine.address, what="its address")
        until(lambda: (session, 1) in self.operator.samples(), what="its first sample")
        return session

    def pod(self, session: UUID) -> JSON:
        return self.plane.rest().get(f"/api/v1/namespaces/{self.namespace}/pods/s-{session.hex}-1")

    def monitor(self, answers: Answers, *, namespace: str = "", container: str = "vgpu-monitor", **labels: str) -> None:
        """A pod of a monitor on the node, which answers with the text; it is there when the operator knows its address."""
        port = self.node.serve(0, answers)
        where = namespace or self.plane.namespace("monitors")
        pod = {
            "metadata": {"name": f"monitor-{port}", "labels": labels},
            "spec": {
                "nodeName": "gpu-01",
                "containers": [{"name": container, "image": "i", "ports": [{"containerPort": port}]}],
            },
        }
        self.plane.rest().create(f"/api/v1/namespaces/{where}/pods", pod)
        assert self.operator.parts is not None
        seen = self.operator.parts.followed
        until(
            lambda: any(
                (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (where, f"monitor-{port}")
                and pod.get("status", {}).get("podIP")
                for pod in seen.every_pod()
            ),
            what="the monitor",
        )

    def sample(self, session: UUID) -> Activity:
        return self.operator.samples()[session, 1]

    def use(self, session: UUID, app: str = "lab") -> AppUse:
        return next(row for row in self.sample(session).apps if row.app == app)


@pytest.fixture
def place(plane: ControlPlane, cluster: str, kubelet: Kubelet) -> Iterator[Place]:
    with operating(plane, cluster) as operator:
        made = Place(plane, cluster, kubelet, operator)
        yield made
        for machine in (made.node, *made.machines.values()):
            machine.stop()


# Applications ---------------------------------------------------------------------------------------------------------


def test_a_busy_kernel_is_use_with_no_browser_open_and_an_open_tab_is_none(place: Place) -> None:
    lab = {"/lab/api/kernels": says([kernel("busy"), kernel()])}
    session = place.session(lab)
    assert place.use(session).busy
    quiet = kernel() | {"connections": 3}
    lab["/lab/api/kernels"] = says([quiet])
    lab["/lab/api/status"] = says({"last_activity": moment(), "connections": 3})
    assert place.use(session) == AppUse(app="lab", last_activity_at=quiet["last_activity"])


def test_every_question_carries_the_sessions_own_token_and_leaves_no_trace_of_use(place: Place) -> None:
    session = place.session()
    asked = set(place.machines[str(session)].asked)
    token = f"token {'a' * 64}"
    assert asked == {(8888, "/lab/api/kernels?no_track_activity=1", token), (8790, "/activity", token)}


def test_a_reporter_that_tells_of_kernels_is_the_only_one_that_is_asked(place: Place) -> None:
    session = place.session(inside={**NEVER, "kernels": [kernel("busy")]})
    assert place.use(session).busy
    assert {(port, path) for port, path, _token in place.machines[str(session)].asked} == {(8790, "/activity")}


def test_where_the_reporter_knows_nothing_of_kernels_jupyter_is_asked(place: Place) -> None:
    lab = {"/lab/api/kernels": says([kernel("busy")])}
    session = place.session(lab, inside={**NEVER, "kernels": None})
    assert place.use(session).busy


def test_input_in_a_terminal_and_a_saved_file_are_use_as_in_notebooks(place: Place) -> None:
    typed, saved = moment(60), moment(30)
    apps = [*APPS, {"name": "code", "port": 8080}]
    session = place.session(inside={"input_at": typed, "edited_at": saved}, apps=apps)
    rows = {row.app: row for row in place.sample(session).apps}
    assert rows["terminal"] == AppUse(app="terminal", last_activity_at=typed)
    assert rows["code"] == AppUse(app="code", last_activity_at=saved)
    assert rows["lab"] == AppUse(app="lab")


def test_without_a_reporter_terminals_are_unknown_and_jupyters_own_count_when_they_show_something(place: Place) -> None:
    shown = moment(120)
    lab = {"/lab/api/kernels": says([]), "/lab/api/terminals": says([{"name": "1", "last_activity": shown}])}
    session = place.session(lab, inside=None)
    assert place.use(session) == AppUse(app="lab", last_activity_at=shown)
    assert not place.use(session, "terminal").known


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    over = threading.Event()
    for _ in range(200):
        handler.wfile.write(b"[")
        handler.wfile.flush()
        over.wait(0.1)


def flood(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(64):
        handler.wfile.write(b" " * 65_536)
    handler.wfile.write(b"[]")


HOSTILE: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "in drops": drip,
    "without end": flood,
    "not found": says("", 404),
    "forbidden": says([], 403),
    "no JSON": says("<html>"),
    "deep": says("[" * 100_000),
    "another shape": says([{"execution_state": "idle"}]),
    "no list": says({"kernels": []}),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_an_answer_that_is_none_is_unknown_in_time_and_hides_nothing_else(place: Place, how: str) -> None:
    hostile = place.session({"/lab/api/kernels": HOSTILE[how]})
    neighbour = place.session() if how == "in drops" else hostile
    began = datetime.now(UTC)
    found = place.operator.samples()
    assert datetime.now(UTC) - began < timedelta(seconds=9)
    assert {row.app: row.known for row in found[hostile, 1].apps} == {"lab": False, "terminal": True}
    assert how != "in drops" or all(row.known for row in found[neighbour, 1].apps)


def test_a_redirect_leads_nowhere(place: Place) -> None:
    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"http://{place.node.address}:{port}/secret")
        handler.end_headers()

    port = place.node.serve(0, {"/secret": says([])})
    session = place.session({"/lab/api/kernels": elsewhere})
    assert not place.use(session).known
    assert place.node.asked == []


# Cards ----------------------------------------------------------------------------------------------------------------


def own_series(session: UUID, namespace: str, ago: float) -> str:
    labels = (
        f'namespace="{namespace}",pod="s-{session.hex}-1",container="session",vdevice_index="0",device_uuid="{CARD}"'
    )
    return HOST + f"hami_container_last_kernel_elapsed_seconds{{{labels}}} {ago}\n"


def test_the_card_is_judged_by_the_nodes_monitor_and_its_loss_is_not_idleness(place: Place) -> None:
    session = place.session()
    gpu = place.sample(session).gpu
    assert gpu is not None
    assert (gpu.source, gpu.healthy) == ("hami", False), "there is no monitor"
    text: Answers = {"/metrics": says(HOST)}
    place.monitor(text)
    never = place.sample(session).gpu
    assert never is not None
    assert (never.healthy, never.present) == (True, False), "it never used CUDA"
    text["/metrics"] = says(own_series(session, place.namespace, 42))
    at = datetime.now(UTC)
    used = place.operator.samples(at)[session, 1].gpu
    assert used is not None
    assert (used.healthy, used.last_kernel_at) == (True, at - timedelta(seconds=42))
    text["/metrics"] = says(own_series(uuid7(), place.namespace, 1))
    neighbour = place.sample(session).gpu
    assert neighbour is not None
    assert not neighbour.present, "the neighbour on the card is no use of one's own"
    place.node.stop()
    down = place.sample(session).gpu
    assert down is not None
    assert (down.healthy, down.present) == (False, False)


def test_the_loss_of_a_monitor_is_named_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.session()
    place.operator.samples()
    place.operator.samples()
    said = [record.message for record in caplog.records if "HAMi's monitor on node gpu-01" in record.message]
    assert said == ["HAMi's monitor on node gpu-01 does not answer: no session with its cards is idle meanwhile"]


def test_a_session_does_not_speak_for_its_node(place: Place) -> None:
    session = place.session()
    place.monitor({"/metrics": says(HOST)}, namespace=place.namespace)
    gpu = place.sample(session).gpu
    assert gpu is not None
    assert not gpu.healthy
    assert place.node.asked == []


def test_a_whole_card_without_series_of_its_own_is_judged_by_dcgm(place: Place) -> None:
    share = a_card_share(mode="exclusive", vramMib=81920, corePercent=100)
    session = place.session(gpu=share)
    place.monitor({"/metrics": says(HOST)})
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{CARD}",Hostname="gpu-01"}} 37\n'
    place.monitor({"/metrics": says(text)}, container="exporter", **{"app.kubernetes.io/name": "dcgm-exporter"})
    gpu = place.sample(session).gpu
    assert gpu is not None
    assert (gpu.source, gpu.present, gpu.use_percent) == ("dcgm", True, 37.0)


# CPU ------------------------------------------------------------------------------------------------------------------


def test_cpu_is_unknown_without_the_metrics_api_and_a_growing_counter_with_it(place: Place) -> None:
    session = place.session()
    before = place.sample(session)
    assert (before.cpu_usec, before.memory_bytes) == (None, None)
    with metrics_served(place.plane, place.namespace) as metrics:
        assert place.sample(session).cpu_usec is None, "served, and it says nothing of the pod"
        metrics.say(place.pod(session), "500m", ago=timedelta(seconds=30))
        first = place.sample(session)
        metrics.say(place.pod(session), "500m")
        second = place.sample(session)
        assert first.cpu_usec == 0
        assert second.cpu_usec is not None
        assert abs(second.cpu_usec - 15_000_000) < 500_000, "half a core for thirty seconds"
        assert (second.cpu_epoch, second.memory_bytes) == (first.cpu_epoch, 100 * 2**20)
        late = place.operator.samples(datetime.now(UTC) + timedelta(minutes=5))[session, 1]
        assert late.cpu_usec is None, "metrics that stopped say nothing about now"


def test_the_operators_rights_are_enough_to_see_use(
    plane: ControlPlane, cluster: str, kubelet: Kubelet, operator_account: str
) -> None:
    with metrics_served(plane, cluster) as metrics, operating(plane, cluster, user=operator_account) as operator:
        place = Place(plane, cluster, kubelet, operator)
        session = place.session()
        metrics.say(place.pod(session), "1")
        assert place.sample(session).cpu_usec == 0
        for machine in place.machines.values():
            machine.stop()
