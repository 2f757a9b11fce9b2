"""What every adapter of `cluster.port` promises; each new adapter joins the list."""

from uuid import uuid4

import pytest

from cluster.adapters import port_of
from cluster.adapters.kube import KubeCluster
from cluster.adapters.kube.api import Api
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from cluster.adapters.local import LocalCluster
from cluster.port import LOG_CHARACTERS_MAX, LOG_LINES_MAX, NoLogs, Rejected
from gshare_core.contract import DesiredDocument, session_name
from gshare_core.contract.resources import ModeChange
from tests.builders import a_cluster
from tests.cluster_acts import a_spec
from tests.kube.documents import mode_changes
from tests.kube.nodes import a_node
from tests.waiting import until

pytestmark = pytest.mark.django_db


class Local:
    """The adapter of clusters whose operator pulls."""

    def __init__(self, request):
        tmp_path = request.getfixturevalue("tmp_path")
        self.cluster = a_cluster()
        self.other = a_cluster()
        self.pods = tmp_path / "pods"
        self.port = LocalCluster(self.cluster, pods=self.pods)
        self.other_port = LocalCluster(self.other, pods=tmp_path / "other")

    def write_log(self, session, run, app, text):
        folder = self.pods / f"{session_name(session)}.{run}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{app}.log").write_bytes(text.encode())


class Kube:
    """The adapter of Kubernetes clusters, on a real API server; the other cluster is another namespace of it."""

    def __init__(self, request):
        self.plane, self.kubelet = (request.getfixturevalue(name) for name in ("plane", "kubelet"))
        api = Api(read_kubeconfig(self.plane.kubeconfig(), allow_local=True), allow_local=True)
        request.addfinalizer(api.close)
        self.namespace = self.plane.namespace()
        self.port = KubeCluster(api, namespace=self.namespace)
        self.other_port = KubeCluster(api, namespace=self.plane.namespace())
        self.node = None

    def write_log(self, session, run, app, text):
        self.node = self.node or self.kubelet.add_node(a_node(f"node-{self.namespace}"))
        name = f"{session_name(session)}-{run}"
        container = {"name": app, "image": "registry.example/lab"}
        labels = {"gshare.io/session": str(session), "gshare.io/run": str(run)}
        pod = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": self.node, "containers": [container]},
        }
        pods, rest = f"/api/v1/namespaces/{self.namespace}/pods", self.plane.rest()
        rest.create(pods, pod)
        until(lambda: rest.get(f"{pods}/{name}")["status"]["phase"] == "Running", what="the pod runs")
        self.kubelet.logs.write(self.namespace, name, app, text)


@pytest.fixture(params=[Local, Kube], ids=["local", "kube"])
def adapter(request):
    return request.param(request)


def document(session, *, run=1, generation=1, **fields):
    return DesiredDocument(session=session, seq=0, spec=a_spec(session, run=run, generation=generation, **fields))


def tombstone(session, *, run, generation):
    return DesiredDocument(session=session, seq=0, spec=None, run=run, generation=generation)


def seen(port):
    return [(each.session, each.run, each.generation, each.is_tombstone) for each in port.observe()]


def test_an_applied_document_is_observed(adapter):
    session = uuid4()

    adapter.port.apply(document(session))

    assert seen(adapter.port) == [(session, 1, 1, False)]


def test_applying_again_changes_nothing(adapter):
    session = uuid4()
    adapter.port.apply(document(session))
    adapter.port.apply(document(session, desired="Stopped"))

    assert seen(adapter.port) == [(session, 1, 1, False)]


@pytest.mark.parametrize(("run", "generation"), [(2, 3), (1, 9)], ids=["an older generation", "an older run"])
def test_an_older_document_does_not_replace_a_newer_one(adapter, run, generation):
    session = uuid4()
    adapter.port.apply(document(session, run=2, generation=4))

    adapter.port.apply(document(session, run=run, generation=generation))

    assert seen(adapter.port) == [(session, 2, 4, False)]


def test_a_newer_document_replaces_an_older_one(adapter):
    session = uuid4()
    adapter.port.apply(document(session))

    adapter.port.apply(document(session, run=2, generation=2))

    assert seen(adapter.port) == [(session, 2, 2, False)]


def test_a_tombstone_replaces_the_document_that_it_ends(adapter):
    session = uuid4()
    adapter.port.apply(document(session, run=2, generation=4))

    adapter.port.apply(tombstone(session, run=2, generation=4))

    assert seen(adapter.port) == [(session, 2, 4, True)]


def test_a_removed_session_is_observed_no_more_and_may_be_removed_again(adapter):
    session = uuid4()
    adapter.port.apply(document(session))

    adapter.port.remove(session)
    adapter.port.remove(session)

    assert seen(adapter.port) == []


def test_one_clusters_documents_are_not_anothers(adapter):
    session = uuid4()
    adapter.port.apply(document(session))

    assert seen(adapter.other_port) == []
    adapter.other_port.remove(session)
    assert seen(adapter.port) == [(session, 1, 1, False)]
    adapter.other_port.apply(document(session, run=2, generation=2))
    assert seen(adapter.port) == [(session, 1, 1, False)]
    assert seen(adapter.other_port) == [(session, 2, 2, False)]


def test_the_last_lines_of_a_runs_logs_can_be_read(adapter):
    session = uuid4()
    adapter.write_log(session, 1, "lab", "\n".join(f"line {number}" for number in range(100)))
    adapter.write_log(session, 2, "lab", "another run\n")

    text = adapter.port.logs(session, 1, lines=2)

    assert "line 99" in text.splitlines()[-1]
    assert len(text.splitlines()) == 2
    assert "another run" not in text


def test_logs_of_a_run_that_never_was_are_refused(adapter):
    with pytest.raises(NoLogs):
        adapter.port.logs(uuid4(), 1, lines=10)


def test_logs_are_bounded_and_keep_what_is_newest(adapter):
    session = uuid4()
    adapter.write_log(session, 1, "lab", "".join(f"{number:05} {'x' * 1000}\n" for number in range(1000)))

    text = adapter.port.logs(session, 1, lines=10_000)

    lines = text.split("\n")
    assert len(text) <= LOG_CHARACTERS_MAX + len(lines) * len("[lab] ")
    assert lines[-1].startswith("[lab] 00999 ")
    assert all(len(line) == len(lines[-1]) for line in lines), "none of them was cut"
    adapter.write_log(session, 2, "lab", "short\n" * 1000)
    assert len(adapter.port.logs(session, 2, lines=10_000).split("\n")) == LOG_LINES_MAX


def test_a_line_ends_at_a_line_feed_alone_so_that_nobody_writes_in_anothers_name(adapter):
    session = uuid4()
    adapter.write_log(session, 1, "lab", "one\r[terminal] two\u2028[terminal] three\x0b\x85four\n")

    assert adapter.port.logs(session, 1, lines=10) == "[lab] one\r[terminal] two\u2028[terminal] three\x0b\x85four"


def test_an_application_that_wrote_nothing_has_no_lines_and_is_not_refused(adapter):
    session = uuid4()
    adapter.write_log(session, 1, "lab", "")

    assert adapter.port.logs(session, 1, lines=10) == ""


def test_a_cluster_whose_kubeconfig_is_nowhere_is_refused():
    with pytest.raises(Rejected, match="there is no kubeconfig 'main'"):
        port_of(a_cluster(kind="kube", kubeconfig="main"))


def test_the_port_of_a_local_cluster_is_the_local_adapter():
    assert isinstance(port_of(a_cluster()), LocalCluster)


MIG = ModeChange(node="gpu-01", card_uuids=("GPU-a", "GPU-b"), target_mode="mig")


def test_a_mode_change_is_wanted_once_until_it_is_withdrawn_or_forgotten(adapter):
    change, other = uuid4(), uuid4()
    if isinstance(adapter, Local):
        with pytest.raises(Rejected, match="local"):
            adapter.port.change_mode(change, MIG)
    else:
        for _again in range(2):
            adapter.port.change_mode(change, MIG)
        adapter.port.change_mode(other, MIG.model_copy(update={"node": "gpu-02"}))
        seen_now = {each.change: (each.phase, each.begun) for each in adapter.port.modes()}
        assert seen_now == {change: (None, False), other: (None, False)}
        with pytest.raises(Rejected):
            adapter.port.change_mode(change, MIG.model_copy(update={"target_mode": "hami-core"}))
    for _again in range(2):
        assert adapter.port.withdraw_mode(change)
        adapter.port.forget_mode(other)
    assert adapter.port.modes() == []
    assert adapter.other_port.modes() == []


def test_a_mode_change_that_has_begun_is_not_withdrawn(adapter):
    change = uuid4()
    if isinstance(adapter, Local):  # it takes none, so none can have begun
        assert (adapter.port.modes(), adapter.port.withdraw_mode(change)) == ([], True)
        return
    adapter.port.change_mode(change, MIG)
    path = mode_changes(adapter.namespace, f"m-{change.hex}")
    rest = adapter.plane.rest()
    rest.patch(f"{path}/status", {"status": {"phase": "Draining", "message": "waits for p", "begun": False}})
    (seen_now,) = adapter.port.modes()
    assert (seen_now.phase, seen_now.message, seen_now.begun) == ("Draining", "waits for p", False)
    rest.patch(f"{path}/status", {"status": {"phase": "Applying", "begun": True}})

    assert not adapter.port.withdraw_mode(change)

    assert [each.begun for each in adapter.port.modes()] == [True]
    adapter.port.forget_mode(change)
    assert adapter.port.modes() == []
