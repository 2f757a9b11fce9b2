"""The adapter while its cluster is away, busy, slow or hostile."""

from __future__ import annotations

import json
import threading
import time

import pytest
import yaml

from cluster.adapters.kube import cluster
from cluster.adapters.kube.api import Limits
from cluster.adapters.kube.circuit import Circuit
from cluster.port import Rejected, Unavailable
from gshare_core.ids import uuid7
from tests.kube.between import Answer
from tests.kube.test_adapter import document, every_call
from tests.waiting import until

QUICK = Limits(connect_seconds=1, read_seconds=0.5, total_seconds=1, answer_bytes=1 << 20)


@pytest.fixture
def port(plane, cluster_of):
    return cluster_of(plane.kubeconfig())


@pytest.fixture
def spoilt(between, cluster_of):
    """An adapter that speaks to `between`, with short time-outs and a circuit that opens after three failures."""
    circuit = Circuit(failures=3, first_pause=0.3, longest_pause=0.3)
    return cluster_of(between.kubeconfig(), limits=QUICK, circuit=circuit)


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


# Nodes -------------------------------------------------------------------------------------------------------------------


def pods_of_one(method, path):
    """A list of a single pod, whose logs somebody else answers for."""
    if not path.startswith("/api/v1/namespaces/") or "/log" in path:
        return None
    pod = {"metadata": {"name": "s-1"}, "spec": {"containers": [{"name": "lab"}]}}
    return Answer(200, [json.dumps({"items": [pod]}).encode()])


@pytest.mark.parametrize("how", ["an error", "silence"])
def test_a_node_that_does_not_answer_for_its_logs_keeps_nobody_from_the_cluster(between, spoilt, how):
    over = threading.Event()

    def before(method, path):
        if "/log?" not in path:
            return pods_of_one(method, path)
        if how == "silence":
            over.wait(5)
        return Answer(500, [b'{"message": "dial tcp 10.0.0.1:10250: connect: connection refused"}'])

    between.before = before
    for _ in range(5):
        with pytest.raises(Unavailable):
            spoilt.logs(uuid7(), 1, lines=5)
    over.set()
    between.before = lambda _method, _path: None
    spoilt.apply(document(uuid7()))


def test_logs_that_come_in_drops_end_in_time(between, cluster_of, monkeypatch):
    monkeypatch.setattr(cluster, "_LOG_SECONDS", 1.0)
    patient, over = cluster_of(between.kubeconfig(), limits=Limits()), threading.Event()

    def drops():
        for _ in range(200):
            over.wait(0.05)
            yield b"drop\n"

    between.before = lambda method, path: Answer(200, drops()) if "/log?" in path else pods_of_one(method, path)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="in time"):
        patient.logs(uuid7(), 1, lines=5)
    assert time.monotonic() - began < 4
    over.set()
