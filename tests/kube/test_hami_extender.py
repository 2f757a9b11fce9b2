"""The twin's bind, its node lock, and both over HTTP as kube-scheduler calls them; the port over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.kube.hami_twin import Config, Extender, MemoryCluster, Twin, words
from tests.kube.hami_twin.bench import NOW, Bench, pod
from tests.kube.hami_twin.requests import Pod
from tests.kube.hami_twin.rest import Follower, RestCluster

CARDS = [
    {
        "id": uuid,
        "index": index,
        "count": 10,
        "devmem": 81920,
        "devcore": 100,
        "type": "NVIDIA A100-SXM4-80GB",
        "mode": "hami-core",
        "health": True,
    }
    for index, uuid in enumerate(("GPU-a", "GPU-b"))
]
ASKS = {words.RESOURCE_COUNT: 1, words.RESOURCE_MEMORY: 3000, words.RESOURCE_CORES: 10}
CONTENTION = "node n1 has been locked within 5m0s: node lock contention"


@pytest.fixture
def bench() -> Bench:
    """One node with two cards, two pods that ask for a part of one."""
    bench = Bench()
    bench.node("n1", CARDS)
    for name in ("p1", "p2"):
        bench.cluster.put_pod(pod(name, [ASKS]))
    return bench


def lock_of(bench: Bench) -> str | None:
    found: str | None = bench.cluster.node_objects["n1"]["metadata"]["annotations"].get(words.NODE_LOCK)
    return found


def set_lock(bench: Bench, text: str) -> None:
    bench.cluster.node_objects["n1"]["metadata"]["annotations"][words.NODE_LOCK] = text


# --- bind and its lock -----------------------------------------------------------------------------------------------


def test_bind_locks_the_node_marks_the_pod_and_binds_it(bench: Bench) -> None:
    assert bench.twin.bind("default", "p1", "p1", "n1") == ""
    assert lock_of(bench) == "2026-11-30T12:00:00Z,default,p1"
    assert bench.annotations("p1") == {words.BIND_PHASE: "allocating", words.BIND_TIME: str(int(NOW.timestamp()))}
    assert bench.cluster.pod_objects[("default", "p1")]["spec"]["nodeName"] == "n1"


def test_a_second_bind_waits_until_the_device_plugin_takes_the_lock_off(bench: Bench) -> None:
    bench.twin.bind("default", "p1", "p1", "n1")
    assert bench.twin.bind("default", "p2", "p2", "n1") == CONTENTION
    assert words.BIND_PHASE not in bench.annotations("p2")
    assert lock_of(bench) == "2026-11-30T12:00:00Z,default,p1"
    bench.cluster.patch_node("n1", {words.NODE_LOCK: None})
    assert bench.twin.bind("default", "p2", "p2", "n1") == ""


def test_the_holder_of_the_lock_may_bind_again(bench: Bench) -> None:
    bench.twin.bind("default", "p1", "p1", "n1")
    assert bench.twin.bind("default", "p1", "p1", "n1") == ""


def test_the_lock_of_a_pod_that_no_longer_exists_is_taken_over_at_once(bench: Bench) -> None:
    set_lock(bench, "2026-11-30T12:00:00Z,default,gone")
    assert bench.twin.bind("default", "p2", "p2", "n1") == ""
    assert lock_of(bench) == "2026-11-30T12:00:00Z,default,p2"


def test_the_lock_of_a_pod_that_is_stuck_is_taken_over_after_its_time(bench: Bench) -> None:
    bench.twin.bind("default", "p1", "p1", "n1")
    bench.now = NOW + timedelta(minutes=5)
    assert bench.twin.bind("default", "p2", "p2", "n1") == CONTENTION
    bench.now = NOW + timedelta(minutes=5, seconds=1)
    assert bench.twin.bind("default", "p2", "p2", "n1") == ""


def test_the_time_of_the_lock_is_named_as_it_is_set() -> None:
    for timeout, said in ((20, "20s"), (300, "5m0s"), (3600, "1h0m0s")):
        cluster = MemoryCluster()
        twin = Twin(cluster, lambda: NOW, Config(lock_timeout=timedelta(seconds=timeout)))
        bench = Bench(twin, cluster)
        bench.node("n1", CARDS)
        bench.cluster.put_pod(pod("p2", [ASKS]))
        set_lock(bench, "2026-11-30T12:00:00Z")
        assert bench.twin.bind("default", "p2", "p2", "n1").startswith(f"node n1 has been locked within {said}:")


def test_a_lock_that_cannot_be_read_refuses(bench: Bench) -> None:
    set_lock(bench, "2026-11-30T12:00:00Z,default")
    assert "malformed lock annotation" in bench.twin.bind("default", "p1", "p1", "n1")


def test_a_failed_bind_gives_the_lock_back_and_keeps_the_reservation(bench: Bench) -> None:
    bench.filter(pod("p1", [ASKS]), ["n1"])
    bench.cluster.refuse_binding = "the server says no"
    assert bench.twin.bind("default", "p1", "p1", "n1") == "the server says no"
    assert lock_of(bench) is None
    assert bench.annotations("p1")[words.ALLOCATED] == "GPU-b,NVIDIA,3000,10:;"
    whole = pod("q", [{**ASKS, words.RESOURCE_COUNT: 2, words.RESOURCE_CORES: 100}])
    refused = bench.filter(whole, ["n1"])["failed"]
    assert refused == "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientCore"


def test_bind_asks_for_no_filter_before_it_and_names_what_does_not_exist(bench: Bench) -> None:
    assert bench.twin.bind("default", "zz", "zz", "n1") == 'pod "zz" not found'
    assert bench.twin.bind("default", "p1", "p1", "zz") == 'node "zz" not found'
    assert bench.twin.bind("default", "p2", "p2", "n1") == "" and words.ALLOCATED not in bench.annotations("p2")


def test_a_pod_without_cards_is_bound_without_a_lock(bench: Bench) -> None:
    bench.cluster.put_pod(pod("plain", [{"cpu": "1"}]))
    assert bench.twin.bind("default", "plain", "plain", "n1") == ""
    assert lock_of(bench) is None


# --- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(bench: Bench) -> Iterator[httpx.Client]:
    """A client of the extender around the bench's twin."""
    with Extender(bench.twin) as extender, httpx.Client(base_url=extender.url, trust_env=False) as client:
        yield client


def said(client: httpx.Client, path: str, body: object) -> dict[str, Any]:
    answer = client.post(path, content=body if isinstance(body, (bytes, str)) else json.dumps(body))
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    document: dict[str, Any] = answer.json()
    return document


NOTHING = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None, "Error": ""}


def test_a_choice_has_the_form_that_kube_scheduler_reads(client: httpx.Client) -> None:
    answer = said(client, "/filter", {"Pod": pod("p1", [ASKS]), "NodeNames": ["n1", "nope"]})
    assert answer == {**NOTHING, "NodeNames": ["n1"]}


def test_refusals_name_every_node(client: httpx.Client) -> None:
    pinned = pod("p1", [ASKS], annotations={words.USE_UUID: "GPU-z"})
    answer = said(client, "/filter", {"Pod": pinned, "NodeNames": ["n1", "nope"]})
    assert answer == {**NOTHING, "FailedNodes": {"n1": "2/2 CardUuidMismatch", "nope": "node unregistered"}}


def test_a_pod_without_cards_may_go_anywhere(client: httpx.Client) -> None:
    answer = said(client, "/filter", {"Pod": pod("p9", [{"cpu": "1"}]), "NodeNames": ["n1", "nope"]})
    assert answer == {**NOTHING, "NodeNames": ["n1", "nope"]}


def test_whole_nodes_make_it_a_simulation_without_effect(client: httpx.Client, bench: Bench) -> None:
    bench.filter(pod("p2", [{**ASKS, words.RESOURCE_MEMORY: 81920}]), ["n1"])
    nodes = {"items": [bench.cluster.node("n1"), {"metadata": {"name": "bare"}}]}
    asks = {**ASKS, words.RESOURCE_COUNT: 2, words.RESOURCE_MEMORY: 81920}
    answer = said(client, "/filter", {"Pod": pod("p1", [asks]), "Nodes": nodes})
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["n1"]
    assert answer["FailedNodes"] == {"bare": "node unregistered"}
    assert words.ALLOCATED not in bench.annotations("p1")


def test_bind_answers_with_an_error_text_or_none(client: httpx.Client) -> None:
    order = {"PodName": "p1", "PodNamespace": "default", "PodUID": "p1", "Node": "n1"}
    assert said(client, "/bind", order) == {"Error": ""}
    assert said(client, "/bind", {**order, "PodName": "p2", "PodUID": "p2"}) == {"Error": CONTENTION}


def test_what_cannot_be_read_is_answered_with_an_error(client: httpx.Client) -> None:
    assert said(client, "/filter", {"NodeNames": []})["Error"] == "extender args missing pod"
    long = json.dumps({"Pod": pod("p1", [ASKS]), "Padding": "x" * (1 << 20)})
    assert said(client, "/filter", long) == {**NOTHING, "Error": "unexpected EOF"}
    assert said(client, "/bind", b"{") == {"Error": "unexpected EOF"}
    assert client.post("/other", content="{}").status_code == 404
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


# --- over REST -------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """What the stand-in client raises."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.body = {"message": message}


class StandInClient:
    """An API server's client over plain dictionaries by path; writes are kept in `calls`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refuse = ""

    def find(self, path: str) -> dict[str, Any] | None:
        return deepcopy(self.objects.get(path))

    def items(self, path: str) -> list[dict[str, Any]]:
        kind = path.rpartition("/")[2]
        return [deepcopy(found) for where, found in self.objects.items() if where.split("/")[-2] == kind]

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._write(path, body)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._write(path, body)

    def _write(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.refuse:
            raise Refused(self.refuse)
        self.calls.append((path, body))
        return body


def a_server(bench: Bench) -> StandInClient:
    client = StandInClient()
    node = bench.cluster.node("n1") or {}
    client.objects["/api/v1/nodes/n1"] = {**node}
    for name in ("p1", "p2"):
        found = bench.cluster.pod("default", name) or {}
        client.objects[f"/api/v1/namespaces/default/pods/{name}"] = {
            **found,
            "metadata": {**found["metadata"], "resourceVersion": "1"},
        }
    return client


def test_the_port_over_rest_writes_patches_and_a_binding(bench: Bench) -> None:
    client = a_server(bench)
    follower = Follower(RestCluster(client, Refused))
    follower.look_at_pods()
    follower.twin.refresh()
    client.calls.clear()
    assert follower.twin.filter(client.objects["/api/v1/namespaces/default/pods/p1"], ["n1"]).nodes == ["n1"]
    assert follower.twin.bind("default", "p1", "p1", "n1") == ""
    paths = [path for path, _ in client.calls]
    assert paths == [
        "/api/v1/namespaces/default/pods/p1",
        "/api/v1/nodes/n1",
        "/api/v1/namespaces/default/pods/p1",
        "/api/v1/namespaces/default/pods/p1/binding",
    ]
    assert client.calls[0][1]["metadata"]["labels"] == {words.ASSIGNED_NODE: "n1"}
    assert set(client.calls[1][1]["metadata"]) == {"annotations", "resourceVersion"}
    assert client.calls[3][1]["target"]["name"] == "n1"


def test_the_servers_refusal_is_the_answer(bench: Bench) -> None:
    client = a_server(bench)
    follower = Follower(RestCluster(client, Refused))
    follower.twin.refresh()
    client.refuse = 'pods "p1" is forbidden'
    asking = client.objects["/api/v1/namespaces/default/pods/p1"]
    assert follower.twin.filter(asking, ["n1"]).error == 'pods "p1" is forbidden'
    assert follower.twin.bind("default", "p1", "p1", "n1") == 'pods "p1" is forbidden'


def test_a_follower_learns_of_pods_that_come_change_and_go(bench: Bench) -> None:
    client = a_server(bench)
    held = client.objects["/api/v1/namespaces/default/pods/p1"]
    held["metadata"] |= {
        "annotations": {words.ASSIGNED_NODE: "n1", words.ALLOCATED: "GPU-a,NVIDIA,81920,1:GPU-b,NVIDIA,81920,1:;"}
    }
    follower = Follower(RestCluster(client, Refused))
    follower.twin.refresh()
    asking = client.objects["/api/v1/namespaces/default/pods/p2"]
    follower.look_at_pods()
    assert follower.twin.filter(asking, ["n1"]).failed == {"n1": "2/2 CardInsufficientMemory"}
    held["status"] = {"phase": "Succeeded"}
    follower.look_at_pods()  # the version is the same: nothing happened
    assert follower.twin.filter(asking, ["n1"]).failed == {"n1": "2/2 CardInsufficientMemory"}
    held["metadata"]["resourceVersion"] = "2"
    follower.look_at_pods()
    assert follower.twin.filter(asking, ["n1"]).nodes == ["n1"]
    del client.objects["/api/v1/namespaces/default/pods/p1"]
    with follower:
        assert follower.twin.filter(asking, ["n1"]).nodes == ["n1"]


def test_a_reservation_goes_with_its_pod_that_no_look_saw_with_its_annotations(bench: Bench) -> None:
    client = a_server(bench)
    everything = {**ASKS, words.RESOURCE_COUNT: 2, words.RESOURCE_MEMORY: 81920}
    for name in ("p1", "p2"):
        client.objects[f"/api/v1/namespaces/default/pods/{name}"]["spec"] = pod(name, [everything])["spec"]
    follower = Follower(RestCluster(client, Refused))
    follower.twin.refresh()
    follower.look_at_pods()
    asking = client.objects["/api/v1/namespaces/default/pods/p2"]
    assert follower.twin.filter(client.objects["/api/v1/namespaces/default/pods/p1"], ["n1"]).nodes == ["n1"]
    del client.objects["/api/v1/namespaces/default/pods/p1"]
    assert follower.twin.filter(asking, ["n1"]).failed == {"n1": "2/2 CardInsufficientMemory"}
    follower.look_at_pods()
    assert follower.twin.filter(asking, ["n1"]).nodes == ["n1"]


def test_a_pod_that_comes_and_is_chosen_for_during_a_look_keeps_its_reservation(bench: Bench) -> None:
    client = a_server(bench)
    young = client.objects.pop("/api/v1/namespaces/default/pods/p1")
    young["spec"] = pod("p1", [{**ASKS, words.RESOURCE_COUNT: 2, words.RESOURCE_MEMORY: 81920}])["spec"]
    cluster = RestCluster(client, Refused)
    follower = Follower(cluster)
    follower.twin.refresh()
    listed = cluster.pods

    def pods() -> Sequence[Pod]:
        found = listed()
        client.objects["/api/v1/namespaces/default/pods/p1"] = young
        follower.twin.filter(young, ["n1"])
        return found

    cluster.pods = pods  # type: ignore[method-assign]
    follower.look_at_pods()
    asking = client.objects["/api/v1/namespaces/default/pods/p2"]
    assert follower.twin.filter(asking, ["n1"]).failed == {"n1": "2/2 CardInsufficientMemory"}
