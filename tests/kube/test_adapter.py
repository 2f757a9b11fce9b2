"""The adapter of Kubernetes clusters against a real API server, and against one that misbehaves (`between.py`)."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from cluster.adapters.kube import KubeCluster
from cluster.adapters.kube.api import Api, Limits
from cluster.adapters.kube.circuit import Circuit
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from cluster.port import Rejected, Unavailable
from gshare_core.contract import Access, DesiredDocument, session_name
from gshare_core.contract.resources import document_of
from gshare_core.ids import uuid7
from tests.cluster_acts import a_spec
from tests.kube.between import Answer, Between
from tests.kube.documents import sessions
from tests.kube.fixtures import install_definitions
from tests.kube.kubelet import Fate
from tests.kube.nodes import a_node
from tests.kube.rest import Refused
from tests.waiting import until

QUICK = Limits(connect_seconds=1, read_seconds=0.5, total_seconds=1, answer_bytes=1 << 20)


def document(session, *, run=1, generation=1, **fields):
    return DesiredDocument(session=session, seq=0, spec=a_spec(session, run=run, generation=generation, **fields))


@pytest.fixture
def cluster_of(namespace):
    """Makes an adapter from a kubeconfig's text; its connections end with the test."""
    opened = []

    def make(text, *, into=namespace, circuit=None, limits=None, allow_local=True):
        target = read_kubeconfig(text, allow_local=True)
        opened.append(Api(target, allow_local=allow_local, limits=limits, circuit=circuit))
        return KubeCluster(opened[-1], namespace=into)

    yield make
    for api in opened:
        api.close()


@pytest.fixture
def port(plane, cluster_of):
    return cluster_of(plane.kubeconfig())


@pytest.fixture
def between(plane, tmp_path):
    with Between(plane, tmp_path) as serving:
        yield serving


@pytest.fixture
def spoilt(between, cluster_of):
    """An adapter that speaks to `between`, with short time-outs and a circuit that opens after three failures."""
    circuit = Circuit(failures=3, first_pause=0.3, longest_pause=0.3)
    return cluster_of(between.kubeconfig(), limits=QUICK, circuit=circuit)


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
    rest.patch(sessions(namespace, session_name(held)), {"metadata": {"finalizers": ["gshare.io/operator"]}})

    for session in (held, deleted):
        rest.delete(sessions(namespace, session_name(session)))

    assert port.observe() == []  # the first still stands there until its operator lets go
    rest.patch(sessions(namespace, session_name(held)), {"metadata": {"finalizers": None}})
    for session in (held, deleted):
        port.apply(document(session))
    assert {seen.session for seen in port.observe()} == {held, deleted}


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


# Outages -----------------------------------------------------------------------------------------------------------------


def test_an_api_server_that_is_away_is_unavailable_and_back_again_without_a_word(plane, cluster_of):
    port = cluster_of(plane.kubeconfig(), circuit=Circuit(failures=3, first_pause=0.2, longest_pause=0.2))
    session = uuid7()
    port.apply(document(session))
    plane.stop_api()

    for name, call in every_call(port).items():
        with pytest.raises(Unavailable):
            pytest.fail(f"{name}: {call()}")

    plane.start_api()
    until(lambda: _is_there(port, session), what="it answers again")


def _is_there(port, session):
    try:
        return [seen.session for seen in port.observe()] == [session]
    except Unavailable:
        return False


def test_the_outage_of_one_cluster_leaves_the_other_working(plane, second_plane, cluster_of):
    one = cluster_of(plane.kubeconfig(), into=plane.namespace())
    other = cluster_of(second_plane.kubeconfig(), into=second_plane.namespace())
    second_plane.stop_api()
    try:
        with pytest.raises(Unavailable):
            other.observe()
        one.apply(document(uuid7()))
        assert len(one.observe()) == 1
    finally:
        second_plane.start_api()


def test_after_three_failures_nobody_waits_for_the_cluster_until_one_try_succeeds(between, spoilt):
    between.before = lambda _method, _path: Answer(503, [b'{"message": "starting"}'])
    for _ in range(3):
        with pytest.raises(Unavailable, match="503 starting"):
            spoilt.observe()
    asked = len(between.requests)

    for _ in range(50):
        with pytest.raises(Unavailable, match="is asked again"):
            spoilt.observe()

    assert len(between.requests) == asked
    between.before = lambda _method, _path: None
    until(lambda: _answers(spoilt), what="it is tried again")
    assert spoilt.observe() == []


def _answers(port):
    try:
        port.observe()
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("status", [429, 500, 502, 504])
def test_a_busy_or_failing_server_is_unavailable(between, spoilt, status):
    between.before = lambda _method, _path: Answer(status)

    with pytest.raises(Unavailable, match=str(status)):
        spoilt.apply(document(uuid7()))


def drip():
    while True:
        yield b" "
        time.sleep(0.05)


def test_an_answer_that_comes_in_drops_ends_with_the_time_that_a_call_may_take(between, spoilt):
    between.before = lambda _method, _path: Answer(200, drip())

    started = time.monotonic()
    with pytest.raises(Unavailable, match="in time"):
        spoilt.observe()
    assert time.monotonic() - started < 5


def test_a_server_that_takes_the_call_and_says_nothing_is_unavailable(between, spoilt):
    silence = threading.Event()
    between.before = lambda _method, _path: silence.wait(20) and None
    try:
        with pytest.raises(Unavailable, match="in time"):
            spoilt.observe()
    finally:
        silence.set()


@pytest.mark.parametrize(
    "body",
    [[b"<html>sign in</html>"], [b"[]"], [b"x" * 65_536] * 64],
    ids=["a page", "a list", "more than can be read"],
)
def test_an_answer_that_is_none_is_unavailable(between, spoilt, body):
    between.before = lambda _method, _path: Answer(200, body)

    with pytest.raises(Unavailable):
        spoilt.observe()


def test_a_list_whose_version_was_forgotten_half_way_is_asked_for_again_and_never_shown_in_part(between, spoilt):
    sessions_made = [uuid7() for _ in range(3)]
    for session in sessions_made:
        spoilt.apply(document(session))
    left = [2]

    def forget(method, path):
        if method == "GET" and left[0]:
            left[0] -= 1
            return Answer(410, [b'{"reason": "Expired"}'])
        return None

    between.before = forget
    assert [seen.session for seen in spoilt.observe()] == sorted(sessions_made)

    left[0] = 100
    with pytest.raises(Unavailable):
        spoilt.observe()


# What a kubeconfig's server can make us do -------------------------------------------------------------------------------


def test_a_redirect_is_followed_nowhere(between, spoilt):
    headers = {"Location": f"{between.server}/elsewhere"}
    between.before = lambda _method, path: None if "elsewhere" in path else Answer(302, headers=headers)

    with pytest.raises(Rejected, match="302"):
        spoilt.observe()
    assert len(between.requests) == 1


def test_a_name_that_leads_to_this_machine_is_rejected_before_anything_is_said(between, cluster_of):
    config = yaml.safe_load(between.kubeconfig())
    config["clusters"][0]["cluster"]["server"] = between.server.replace("127.0.0.1", "localhost")

    with pytest.raises(Rejected, match="not allowed"):
        cluster_of(yaml.safe_dump(config), allow_local=False).observe()
    assert between.requests == []
    assert cluster_of(yaml.safe_dump(config)).observe() == []


def test_a_server_with_another_certificate_gets_no_credential(plane, between, cluster_of):
    config = plane.kubeconfig_document(server=between.server)

    with pytest.raises(Unavailable, match="not trusted"):
        cluster_of(yaml.safe_dump(config)).observe()
    assert between.requests == []


def test_the_name_that_a_certificate_must_have_can_be_said(plane, between, cluster_of):
    config = yaml.safe_load(between.kubeconfig())
    config["clusters"][0]["cluster"]["tls-server-name"] = "localhost"
    assert cluster_of(yaml.safe_dump(config)).observe() == []

    config["clusters"][0]["cluster"]["tls-server-name"] = "kube.example"
    with pytest.raises(Unavailable, match="not trusted"):
        cluster_of(yaml.safe_dump(config)).observe()


def test_a_proxy_of_the_environment_is_not_used(monkeypatch, port):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert port.observe() == []
