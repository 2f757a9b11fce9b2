"""The tests' own ground: the control plane, the stand-in kubelet and the stand-in nodes do what the tests rely on."""

from __future__ import annotations

import json

import httpx
import pytest

from gshare_core.contract import session_name
from gshare_core.ids import uuid7
from tests.kube.documents import a_session, sessions
from tests.kube.kubelet import LEASES, Fate
from tests.kube.nodes import NODES, REGISTER, a_card, a_node
from tests.kube.rest import Refused, Rest
from tests.waiting import until

CONTAINER = {"name": "lab", "image": "registry.example/lab@sha256:" + "0" * 64}


@pytest.fixture
def rest(plane):
    return plane.rest()


@pytest.fixture
def node(kubelet):
    return kubelet.add_node(a_node("gpu-01", [a_card("GPU-a")]))


@pytest.fixture
def make(rest, namespace, node):
    """Makes a pod bound to the node, answers how to look at it."""

    def pod(name="one", **spec):
        body = {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [CONTAINER], **spec}}
        rest.create(f"/api/v1/namespaces/{namespace}/pods", body)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return lambda: rest.find(path)

    return pod


def is_ready(pod):
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True"


def waiting(pod):
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("waiting", {}).get("reason")


def test_a_bound_pod_runs_and_ends_when_it_is_deleted(rest, namespace, kubelet, make):
    look = make()
    until(lambda: is_ready(look()), what="ready")

    rest.delete(f"/api/v1/namespaces/{namespace}/pods/one")

    until(lambda: look() is None, what="gone")
    assert kubelet.errors == []


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        (Fate.NO_IMAGE, "ImagePullBackOff"),
        (Fate.CRASH_LOOP, "CrashLoopBackOff"),
        (Fate.PULLING, "ContainerCreating"),
    ],
)
def test_a_pod_meets_its_fate(kubelet, make, fate, reason):
    kubelet.fate_of = lambda _pod: fate

    look = make()

    until(lambda: waiting(look()) == reason, what=reason)
    assert not is_ready(look())
    if fate is Fate.CRASH_LOOP:
        until(lambda: look()["status"]["containerStatuses"][0]["restartCount"] >= 3, what="three crashes")


def test_an_exit_and_an_eviction_are_the_ends_of_a_pod(kubelet, namespace, make):
    kubelet.fate_of = lambda pod: Fate.EXIT if pod["metadata"]["name"] == "done" else Fate.RUN
    done, evicted = make("done"), make("evicted")
    until(lambda: is_ready(evicted()), what="ready")

    kubelet.evict(namespace, "evicted")

    assert (evicted()["status"]["phase"], evicted()["status"]["reason"]) == ("Failed", "Evicted")
    until(lambda: done()["status"].get("phase") == "Succeeded", what="the exit")


def test_a_pod_that_clings_ends_with_its_grace_and_on_a_silent_node_never(rest, kubelet, namespace, node, make):
    kubelet.fate_of = lambda _pod: Fate.CLING
    look = make(terminationGracePeriodSeconds=1)
    until(lambda: is_ready(look()), what="ready")
    kubelet.silence(node)

    rest.delete(f"/api/v1/namespaces/{namespace}/pods/one")

    assert look()["metadata"]["deletionTimestamp"]
    ready = {each["type"]: each["status"] for each in rest.get(f"{NODES}/{node}")["status"]["conditions"]}["Ready"]
    assert ready == "Unknown"
    kubelet.revive(node)
    until(lambda: look() is None, what="gone")


def test_a_node_has_cards_slots_and_a_lease(rest, node):
    found = rest.get(f"{NODES}/{node}")

    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "16"
    assert [card["id"] for card in json.loads(found["metadata"]["annotations"][REGISTER])] == ["GPU-a"]
    assert "taints" not in found["spec"]
    until(lambda: rest.find(f"{LEASES}/{node}"), what="the lease")


def test_the_logs_that_a_pod_wrote_come_through_the_api_server(rest, kubelet, namespace, make):
    look = make()
    until(lambda: is_ready(look()), what="ready")
    kubelet.logs.write(namespace, "one", "lab", "first\nlast\n")

    answer = rest.get(f"/api/v1/namespaces/{namespace}/pods/one/log", tailLines="1")

    assert answer == {"message": "last\n"}


def test_the_real_scheduler_binds_pods_that_name_no_node(plane, rest, namespace, node):
    plane.start_scheduler()
    pod = {"metadata": {"name": "two"}, "spec": {"containers": [CONTAINER]}}
    rest.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    path = f"/api/v1/namespaces/{namespace}/pods/two"
    until(lambda: rest.get(path)["spec"].get("nodeName") == node, within=30, what="a bound pod")
    until(lambda: is_ready(rest.get(path)), what="ready")


def test_a_restarted_api_server_has_everything_and_knows_new_people(plane, rest, namespace):
    kept = a_session()
    rest.create(sessions(namespace), kept)
    person = plane.add_person("carol")

    plane.stop_api()
    with pytest.raises(httpx.TransportError):
        rest.get(sessions(namespace))
    plane.start_api()

    assert rest.get(sessions(namespace, kept["metadata"]["name"]))["spec"] == kept["spec"]
    with pytest.raises(Refused, match="403"):
        plane.rest(person).get(sessions(namespace))


def test_old_versions_are_gone_after_a_compaction(plane, rest, namespace):
    first = rest.create(sessions(namespace), a_session())
    for _ in range(3):
        rest.create(sessions(namespace), a_session())
    plane.compact()
    plane.restart_api()

    version = {"resourceVersion": first["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    until(lambda: status_of(rest, sessions(namespace), version) == 410, what="the version is gone")


def status_of(rest, path, query):
    try:
        rest.get(path, **query)
    except Refused as error:
        return error.status
    return 200


def test_a_second_control_plane_is_another_cluster(plane, second_plane, namespace):
    session = uuid7()
    plane.rest().create(sessions(namespace), a_session(session))

    with pytest.raises(Refused, match="404"):
        second_plane.rest().get(sessions(namespace, session_name(session)))
    with pytest.raises(httpx.ConnectError):  # its certificate is its own
        Rest(second_plane.server, str(plane.ca), token=second_plane.admin.token).get("/readyz")
