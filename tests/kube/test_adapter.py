"""The adapter of Kubernetes clusters against a real API server, and against one that misbehaves (`between.py`)."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from cluster.port import Rejected, Unavailable
from gshare_core.contract import Access, DesiredDocument, session_name
from gshare_core.contract.resources import document_of
from gshare_core.ids import uuid7
from tests.cluster_acts import a_spec
from tests.kube.documents import sessions
from tests.kube.fixtures import install_definitions
from tests.kube.kubelet import Fate
from tests.kube.nodes import a_node
from tests.kube.rest import Refused
from tests.waiting import until


def document(session, *, run=1, generation=1, **fields):
    return DesiredDocument(session=session, seq=0, spec=a_spec(session, run=run, generation=generation, **fields))


@pytest.fixture
def port(plane, cluster_of):
    return cluster_of(plane.kubeconfig())


def every_call(port):
    session = uuid7()
    return {
        "apply": lambda: port.apply(document(session)),
        "remove": lambda: port.remove(session),
        "observe": port.observe,
        "logs": lambda: port.logs(session, 1, lines=10),
    }


# Documents ---------------------------------------------------------------------------------------------------------------


def test_a_document_is_applied_by_the_control_planes_own_manager_with_its_labels(plane, namespace, port):
    session, group, organisation = uuid7(), uuid7(), uuid7()
    said = document(session, group=group, organisation=organisation)

    port.apply(said)

    kept = plane.rest().get(sessions(namespace, session_name(session)))
    assert document_of(kept) == said
    assert kept["metadata"]["labels"] == {
        "gshare.io/session": str(session), "gshare.io/group": str(group), "gshare.io/organisation": str(organisation),
    }  # fmt: skip
    managers = [(each["manager"], each["operation"]) for each in kept["metadata"]["managedFields"]]
    assert managers == [("gshare-control-plane", "Apply")]


def test_what_the_cluster_will_never_take_is_rejected_with_the_field(port):
    session = uuid7()
    foreign = Access(host="x.example", token_secret="s-0-access")

    with pytest.raises(Rejected, match=r"spec\.access\.tokenSecret"):
        port.apply(document(session, access=foreign))
    assert port.observe() == []


def test_many_writers_in_any_order_end_with_the_newest(plane, namespace, port):
    session = uuid7()
    orders = [(run, generation) for run in (1, 2, 3) for generation in (run * 10, run * 10 + 1)]
    documents = [document(session, run=run, generation=generation) for run, generation in orders] * 3
    random.Random(7).shuffle(documents)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(port.apply, documents))

    (seen,) = port.observe()
    assert (seen.run, seen.generation) == orders[-1]


def test_a_tombstone_without_an_order_ends_what_stands_there_and_nothing_where_nothing_is(port):
    session, unknown = uuid7(), uuid7()
    port.apply(document(session, run=2, generation=5))

    for each in (session, unknown):
        port.apply(DesiredDocument(session=each, seq=0, spec=None))

    assert [(seen.session, seen.run, seen.generation, seen.is_tombstone) for seen in port.observe()] == [
        (session, 2, 5, True)
    ]


def test_more_documents_than_a_page_are_applied_by_several_threads_and_all_observed(port):
    wanted = [uuid7() for _ in range(520)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda session: port.apply(document(session)), wanted))

    assert [seen.session for seen in port.observe()] == sorted(wanted)


def test_a_resource_that_was_deleted_by_hand_is_lacking_and_applied_again(plane, namespace, port):
    held, deleted = uuid7(), uuid7()
    rest = plane.rest()
    for session in (held, deleted):
        port.apply(document(session))
        found = rest.get(sessions(namespace, session_name(session)))
        assert found["metadata"]["finalizers"] == ["gshare.io/operator"], "no instant without it"
    rest.patch(sessions(namespace, session_name(deleted)), {"metadata": {"finalizers": None}})

    for session in (held, deleted):
        rest.delete(sessions(namespace, session_name(session)))

    assert port.observe() == []  # the first still stands there until its operator lets go
    port.apply(document(held))
    assert port.observe() == [], "what is wanted of it meanwhile makes it neither live nor hang"
    rest.patch(sessions(namespace, session_name(held)), {"metadata": {"finalizers": None}})
    for session in (held, deleted):
        port.apply(document(session))
    assert {seen.session for seen in port.observe()} == {held, deleted}


def test_what_somebody_else_still_holds_is_written_when_it_has_gone(plane, namespace, port):
    session, rest = uuid7(), plane.rest()
    port.apply(document(session))
    path = sessions(namespace, session_name(session))
    rest.patch(path, {"metadata": {"finalizers": ["gshare.io/operator", "somebody.example/else"]}})
    rest.delete(path)
    rest.patch(path, {"metadata": {"finalizers": ["somebody.example/else"]}})  # its operator has let go

    with pytest.raises(Unavailable):
        port.apply(document(session))

    rest.patch(path, {"metadata": {"finalizers": None}})
    port.apply(document(session))
    assert [seen.session for seen in port.observe()] == [session]


# Logs --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pod(plane, namespace, kubelet):
    """Makes a run's pod with these containers on a stand-in node."""
    node = kubelet.add_node(a_node("node-of-logs"))

    def make(session, *containers):
        labels = {"gshare.io/session": str(session), "gshare.io/run": "1"}
        spec = {"nodeName": node, "containers": [{"name": each, "image": "registry.example/x"} for each in containers]}
        body = {"metadata": {"name": session_name(session), "labels": labels}, "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/pods"
        plane.rest().create(path, body)
        look = f"{path}/{session_name(session)}"
        until(lambda: plane.rest().get(look)["status"].get("containerStatuses"), what="the pod's status")
        return session_name(session)

    return make


def test_logs_say_which_container_wrote_them(port, namespace, kubelet, pod):
    session = uuid7()
    name = pod(session, "lab", "sidecar")
    kubelet.logs.write(namespace, name, "lab", "one\ntwo\nthree\n")
    kubelet.logs.write(namespace, name, "sidecar", "hello\n")

    assert port.logs(session, 1, lines=2) == "[lab] two\n[lab] three\n[sidecar] hello"


def test_a_container_that_never_started_has_no_logs(port, kubelet, pod):
    kubelet.fate_of = lambda _pod: Fate.NO_IMAGE
    session = uuid7()
    pod(session, "lab")

    with pytest.raises(Rejected, match="there are no logs"):
        port.logs(session, 1, lines=2)


def test_a_node_that_does_not_answer_for_its_logs_is_unavailable(port, kubelet, pod):
    session = uuid7()
    pod(session, "lab")
    kubelet.logs.stop()

    with pytest.raises(Unavailable):
        port.logs(session, 1, lines=2)


# Refusals ----------------------------------------------------------------------------------------------------------------


def test_who_may_do_nothing_there_is_rejected(plane, cluster_of):
    person = plane.add_person("mallory")
    plane.restart_api()

    for name, call in every_call(cluster_of(plane.kubeconfig(person))).items():
        with pytest.raises(Rejected, match="403"):
            pytest.fail(f"{name}: {call()}")


def test_a_credential_that_is_not_known_is_rejected_and_not_echoed(plane, cluster_of):
    config = plane.kubeconfig_document()
    config["users"][0]["user"]["token"] = "not-a-token-of-anybody"

    for name, call in every_call(cluster_of(yaml.safe_dump(config))).items():
        with pytest.raises(Rejected, match="401") as refused:
            pytest.fail(f"{name}: {call()}")
        assert "not-a-token" not in str(refused.value)


def test_a_namespace_or_a_definition_that_is_missing_is_rejected_by_name(plane, second_plane, cluster_of):
    with pytest.raises(Rejected, match="nowhere"):
        cluster_of(plane.kubeconfig(), into="nowhere").apply(document(uuid7()))

    bare = cluster_of(second_plane.kubeconfig(), into="default")
    rest, name = second_plane.rest(), "gsharesessions.gshare.io"
    rest.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    until(lambda: _status(rest, "/apis/gshare.io/v1/gsharesessions") == 404, within=30, what="the definition gone")
    try:
        for call in (lambda: bare.apply(document(uuid7())), bare.observe):
            with pytest.raises(Rejected, match="404"):
                call()
    finally:
        install_definitions(rest)


def _status(rest, path):
    try:
        rest.get(path)
    except Refused as error:
        return error.status
    return 200
