"""The operator on a real API server: sessions come up, pause, come back and end, whatever happens to it and to them."""

from __future__ import annotations

import pytest

from gshare_core.ids import uuid7
from tests.kube.documents import a_session, sessions
from tests.kube.kubelet import Fate, Kubelet
from tests.kube.operating import Operating, operating
from tests.kube.plane import ControlPlane
from tests.waiting import until

MANAGER = "gshare-control-plane"


def want(plane: ControlPlane, namespace: str, session, **fields) -> None:
    resource = a_session(session, **fields)
    plane.rest().apply(sessions(namespace, resource["metadata"]["name"]), resource, manager=MANAGER)


def pods(plane: ControlPlane, namespace: str) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in plane.rest().items(f"/api/v1/namespaces/{namespace}/pods"))


def ways(plane: ControlPlane, namespace: str) -> list[str]:
    found = plane.rest().items(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses")
    return sorted(each["metadata"]["name"] for each in found)


def has_walls(plane: ControlPlane, namespace: str, session) -> bool:
    secret = f"/api/v1/namespaces/{namespace}/secrets/s-{session.hex}-access"
    policy = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/s-{session.hex}"
    return None not in (plane.rest().find(secret), plane.rest().find(policy))


def reported(operator: Operating, session, phase: str, run: int = 1) -> None:
    until(lambda: phase in operator.phases(session, run), within=30, what=f"run {run} is {phase}")


def test_a_session_starts_pauses_comes_back_and_stops(plane: ControlPlane, cluster: str, kubelet: Kubelet) -> None:
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        assert pods(plane, cluster) == [f"s-{session.hex}-1"]
        status = plane.rest().get(sessions(cluster, f"s-{session.hex}"))["status"]
        assert (status["phase"], status["run"], status["node"]) == ("Running", 1, "gpu-01")
        want(plane, cluster, session, generation=2, desired="Paused")
        reported(operator, session, "gone")
        assert pods(plane, cluster) == []
        want(plane, cluster, session, run=2, generation=3)
        reported(operator, session, "running", run=2)
        assert pods(plane, cluster) == [f"s-{session.hex}-2"]
        want(plane, cluster, session, run=2, generation=4, desired="Stopped")
        reported(operator, session, "gone", run=2)
        assert pods(plane, cluster) == []
    assert kubelet.errors == []


def test_an_image_that_cannot_be_pulled_is_named(plane: ControlPlane, cluster: str, kubelet: Kubelet) -> None:
    kubelet.fate_of = lambda _pod: Fate.NO_IMAGE
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "failed")
        last = operator.last(session)
        assert last is not None
        assert last.reason == "image_pull_failed"


def test_a_crash_loop_is_named_with_the_containers_own_words(
    plane: ControlPlane, cluster: str, kubelet: Kubelet
) -> None:
    kubelet.fate_of = lambda _pod: Fate.CRASH_LOOP
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "failed")
        last = operator.last(session)
        assert last is not None
        assert last.reason == "crash_loop"
        assert last.message


def test_a_pod_that_is_deleted_by_hand_is_gone_and_not_made_again(plane: ControlPlane, cluster: str) -> None:
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        plane.rest().delete(f"/api/v1/namespaces/{cluster}/pods/s-{session.hex}-1", grace=1)
        reported(operator, session, "gone")
        last = operator.last(session)
        assert last is not None
        assert last.reason == "vanished"
        assert pods(plane, cluster) == []


def test_the_next_operator_knows_what_the_one_before_did(plane: ControlPlane, cluster: str) -> None:
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        until(lambda: not operator.parts.store.pending(), within=10, what="everything is acknowledged")
    plane.rest().delete(f"/api/v1/namespaces/{cluster}/pods/s-{session.hex}-1", grace=0)
    with operating(plane, cluster) as following:
        reported(following, session, "gone")
        assert following.last(session).reason == "vanished"
        assert pods(plane, cluster) == [], "a run that vanished is not started again by itself"


def test_a_resource_that_is_deleted_by_hand_ends_its_session_and_then_goes(plane: ControlPlane, cluster: str) -> None:
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        plane.rest().delete(sessions(cluster, f"s-{session.hex}"))
        reported(operator, session, "gone")
        until(lambda: plane.rest().find(sessions(cluster, f"s-{session.hex}")) is None, within=20, what="it goes")
        assert pods(plane, cluster) == []


def test_the_api_server_may_be_restarted(plane: ControlPlane, cluster: str) -> None:
    first, second = uuid7(), uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, first)
        reported(operator, first, "running")
        plane.restart_api()
        want(plane, cluster, second)
        reported(operator, second, "running")
        assert operator.phases(first)[-1] == "running"


def test_an_evicted_pod_is_gone_for_that_reason(plane: ControlPlane, cluster: str, kubelet: Kubelet) -> None:
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        kubelet.evict(cluster, f"s-{session.hex}-1")
        reported(operator, session, "gone")
        assert operator.last(session).reason == "evicted"


def test_what_is_around_a_pod_is_made_and_belongs_to_the_resource(plane: ControlPlane, cluster: str) -> None:
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
    rest, name = plane.rest(), f"s-{session.hex}"
    resource = rest.get(sessions(cluster, name))
    for path in (
        f"/api/v1/namespaces/{cluster}/secrets/{name}-access",
        f"/api/v1/namespaces/{cluster}/services/{name}",
        f"/apis/networking.k8s.io/v1/namespaces/{cluster}/ingresses/{name}",
        f"/apis/networking.k8s.io/v1/namespaces/{cluster}/networkpolicies/{name}",
        f"/api/v1/namespaces/{cluster}/pods/{name}-1",
    ):
        owners = rest.get(path)["metadata"]["ownerReferences"]
        assert [(owner["kind"], owner["uid"]) for owner in owners] == [("GShareSession", resource["metadata"]["uid"])]
    claim = rest.get(f"/api/v1/namespaces/{cluster}/persistentvolumeclaims/vol-1")
    assert "ownerReferences" not in claim["metadata"], "a volume outlives its sessions"


def test_the_next_run_leaves_nothing_of_what_was_around_the_first(plane: ControlPlane, cluster: str) -> None:
    session, rest = uuid7(), plane.rest()
    service = f"/api/v1/namespaces/{cluster}/services/s-{session.hex}"
    secret = f"/api/v1/namespaces/{cluster}/secrets/s-{session.hex}-access"
    with operating(plane, cluster) as operator:
        want(plane, cluster, session, group=str(uuid7()))
        reported(operator, session, "running")
        first = rest.get(service)
        assert [port["name"] for port in first["spec"]["ports"]] == ["lab", "terminal"]
        assert "gshare.io/group" in first["metadata"]["labels"]
        rest.patch(service, {"metadata": {"annotations": {"somebody.example/else": "stays"}}})
        want(plane, cluster, session, generation=2, desired="Paused")
        reported(operator, session, "gone")
        want(plane, cluster, session, run=2, generation=3, apps=[{"name": "lab", "port": 8888}])
        reported(operator, session, "running", run=2)
        second = rest.get(service)
        assert [port["name"] for port in second["spec"]["ports"]] == ["lab"]
        assert "gshare.io/group" not in second["metadata"]["labels"]
        assert second["metadata"]["annotations"]["somebody.example/else"] == "stays"
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        assert rest.get(secret)["metadata"]["labels"]["gshare.io/run"] == "2"


def test_a_service_that_an_earlier_operator_gave_an_address_serves_the_next_run(
    plane: ControlPlane, cluster: str
) -> None:
    session, rest = uuid7(), plane.rest()
    service = f"/api/v1/namespaces/{cluster}/services/s-{session.hex}"
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        first = rest.get(service)
        assert first["spec"]["clusterIP"] == "None"
        rest.delete(service)
        wanted = {key: first["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
        spec = {key: first["spec"][key] for key in ("ports", "selector")}
        earlier = rest.create(service.rpartition("/")[0], {"metadata": wanted, "spec": spec})
        assert earlier["spec"]["clusterIP"] != "None"
        want(plane, cluster, session, generation=2, desired="Paused")
        reported(operator, session, "gone")
        want(plane, cluster, session, run=2, generation=3)
        reported(operator, session, "running", run=2)
    last = rest.get(service)
    assert last["spec"]["selector"]["gshare.io/run"] == "2"
    assert last["spec"]["clusterIP"] == earlier["spec"]["clusterIP"]


def test_what_somebody_else_has_of_that_name_is_not_overwritten(plane: ControlPlane, cluster: str) -> None:
    session, rest = uuid7(), plane.rest()
    theirs = {"metadata": {"name": f"s-{session.hex}"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}}
    made = rest.create(f"/api/v1/namespaces/{cluster}/services", theirs)
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        looked_at = operator.parts.operator.observed_at
        until(
            lambda: (operator.parts.operator.observed_at - looked_at).total_seconds() > 2,
            within=30,
            what="it has been tried",
        )
        assert pods(plane, cluster) == []
    assert rest.get(f"/api/v1/namespaces/{cluster}/services/s-{session.hex}")["spec"] == made["spec"]


def test_changes_that_were_missed_are_found(plane: ControlPlane, cluster: str) -> None:
    """The history that a watch would go on from is gone (410): everything is listed anew."""
    session = uuid7()
    with operating(plane, cluster) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        plane.stop_api()
        plane.start_api()
        want(plane, cluster, session, generation=2, desired="Paused")
        plane.compact()
        reported(operator, session, "gone")


def test_pods_with_cards_are_bound_one_at_a_time_on_a_node(plane: ControlPlane, cluster: str, kubelet: Kubelet) -> None:
    crowd = [uuid7() for _number in range(6)]
    most = [0]

    def unbound() -> int:
        found = plane.rest().items(f"/api/v1/namespaces/{cluster}/pods")
        count = sum(1 for pod in found if not (pod["spec"].get("nodeName") and pod["status"].get("containerStatuses")))
        most[0] = max(most[0], count)
        return count

    with operating(plane, cluster) as operator:
        for session in crowd:
            want(plane, cluster, session, volumes=[])
        until(
            lambda: unbound() <= 1 and all("running" in operator.phases(session) for session in crowd),
            within=60,
            what="all of them run",
        )
    assert most[0] == 1


def test_nothing_is_forced_on_a_silent_node(plane: ControlPlane, cluster: str, kubelet: Kubelet) -> None:
    session = uuid7()
    quick = {"startSeconds": 600, "pullSeconds": 1800, "stopGraceSeconds": 1}
    with operating(plane, cluster) as operator:
        want(plane, cluster, session, deadlines=quick)
        reported(operator, session, "running")
        kubelet.silence("gpu-01")
        until(lambda: not is_ready(plane, "gpu-01"), within=20, what="the node is known to be silent")
        want(plane, cluster, session, generation=2, desired="Stopped", deadlines=quick)
        reported(operator, session, "terminating")
        looked_at = operator.parts.operator.observed_at
        until(
            lambda: (operator.parts.operator.observed_at - looked_at).total_seconds() > 4,
            within=30,
            what="the grace is over",
        )
        assert pods(plane, cluster) == [f"s-{session.hex}-1"]
        kubelet.revive("gpu-01")
        reported(operator, session, "gone")


def is_ready(plane: ControlPlane, node: str) -> bool:
    conditions = plane.rest().get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


@pytest.mark.parametrize("step", range(1, 13))
def test_an_operator_may_be_killed_before_any_of_its_calls(plane: ControlPlane, cluster: str, step: int) -> None:
    session = uuid7()
    want(plane, cluster, session)
    with operating(plane, cluster, dies_before=step) as mortal:
        until(lambda: mortal.is_dead or "running" in mortal.phases(session), within=30, what="it dies, or is through")
    assert not pods(plane, cluster) or has_walls(plane, cluster, session), "no pod before its secret and its walls"
    assert not ways(plane, cluster) or pods(plane, cluster), "the pod does not wait for its ways"
    with operating(plane, cluster) as operator:
        until(lambda: is_running(plane, cluster, session), within=30, what="the session runs")
        assert pods(plane, cluster) == [f"s-{session.hex}-1"]
        assert ways(plane, cluster) == [f"s-{session.hex}", f"s-{session.hex}-edge"]
        want(plane, cluster, session, generation=2, desired="Stopped")
    with operating(plane, cluster, dies_before=step) as mortal:
        until(lambda: mortal.is_dead or "gone" in mortal.phases(session), within=30, what="it dies, or is through")
    with operating(plane, cluster) as operator:
        until(lambda: pods(plane, cluster) == [], within=30, what="nothing is left")
        until(lambda: status(plane, cluster, session)["phase"] == "Gone", within=30, what="it is said to be gone")
        assert operator.fault is None


def status(plane: ControlPlane, namespace: str, session) -> dict:
    return plane.rest().get(sessions(namespace, f"s-{session.hex}")).get("status") or {"phase": ""}


def is_running(plane: ControlPlane, namespace: str, session) -> bool:
    return status(plane, namespace, session)["phase"] == "Running"
