"""The control plane's rights in a cluster: they let the adapter do its work, and nothing else."""

from __future__ import annotations

import pytest

from cluster.adapters.kube import KubeCluster
from cluster.adapters.kube.api import Api
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from cluster.port import Rejected
from gshare_core.contract import DesiredDocument, session_name
from gshare_core.contract.resources import ModeChange
from gshare_core.ids import uuid7
from tests.cluster_acts import a_spec
from tests.kube.documents import mode_changes, sessions
from tests.kube.nodes import a_node
from tests.kube.rest import Refused
from tests.kube.rights import install_rights, service_account
from tests.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
OURS = "gshare-sessions"
ACCOUNTS = "/api/v1/namespaces/gshare-system/serviceaccounts"


@pytest.fixture(scope="module")
def account(plane):
    """The service account of the file, with a token that the API server made."""
    rest = plane.rest()
    for name in (OURS, "gshare-system"):
        rest.apply(f"/api/v1/namespaces/{name}", _named("v1", "Namespace", name), manager="tests")
    install_rights(rest, "control-plane")
    return service_account(rest, "gshare-control-plane")


def _named(version, kind, name):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


@pytest.fixture
def port(plane, account):
    api = Api(read_kubeconfig(plane.kubeconfig(account), allow_local=True), allow_local=True)
    made = KubeCluster(api)
    # Rights are watched by the server, a moment late.
    until(lambda: not _is_rejected(made), within=30, what="the rights are known")
    yield made
    api.close()


def test_the_adapter_does_all_its_work_with_them(plane, kubelet, port):
    session = uuid7()
    node = kubelet.add_node(a_node("node-of-rights"))
    labels = {"gshare.io/session": str(session), "gshare.io/run": "1"}
    pods, rest = f"/api/v1/namespaces/{OURS}/pods", plane.rest()
    spec = {"nodeName": node, "containers": [{"name": "lab", "image": "registry.example/lab"}]}
    rest.create(pods, {"metadata": {"name": session_name(session), "labels": labels}, "spec": spec})
    until(lambda: rest.get(f"{pods}/{session_name(session)}")["status"]["phase"] == "Running", what="the pod runs")
    kubelet.logs.write(OURS, session_name(session), "lab", "hello\n")

    port.apply(DesiredDocument(session=session, seq=0, spec=a_spec(session)))
    assert session in {seen.session for seen in port.observe()}
    assert port.logs(session, 1, lines=5) == "[lab] hello"
    port.apply(DesiredDocument(session=session, seq=0, spec=None, run=1, generation=1))
    port.remove(session)
    assert session not in {seen.session for seen in port.observe()}
    change = uuid7()
    port.change_mode(change, ModeChange(node=node, card_uuids=("GPU-1",), target_mode="mig"))
    assert change in {seen.change for seen in port.modes()}
    assert port.withdraw_mode(change)
    port.forget_mode(change)
    assert change not in {seen.change for seen in port.modes()}


FORBIDDEN = {
    "secrets of sessions": ("GET", f"/api/v1/namespaces/{OURS}/secrets"),
    "secrets of ours": ("GET", "/api/v1/namespaces/gshare-system/secrets"),
    "pods made by hand": ("POST", f"/api/v1/namespaces/{OURS}/pods"),
    "pods ended by hand": ("DELETE", f"/api/v1/namespaces/{OURS}/pods/any"),
    "programs in pods": ("POST", f"/api/v1/namespaces/{OURS}/pods/any/exec"),
    "somebody else's pods": ("GET", "/api/v1/namespaces/default/pods"),
    "sessions elsewhere": ("GET", sessions("default")),
    "all sessions at once": ("DELETE", sessions(OURS)),
    "a status": ("PATCH", f"{sessions(OURS, 's-' + '0' * 32)}/status"),
    "mode changes elsewhere": ("GET", mode_changes("default")),
    "all mode changes at once": ("DELETE", mode_changes(OURS)),
    "what came of a mode change": ("PATCH", f"{mode_changes(OURS, 'm-' + '0' * 32)}/status"),
    "HAMi's settings": ("GET", "/api/v1/namespaces/kube-system/configmaps/hami-device-plugin"),
    "nodes": ("GET", "/api/v1/nodes"),
    "rights": ("GET", f"{RBAC}/{OURS}/roles"),
}


@pytest.mark.parametrize(("method", "path"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_they_let_nobody_do_anything_else(plane, account, method, path):
    body = {} if method in {"POST", "PATCH"} else None

    with pytest.raises(Refused) as refused:
        plane.rest(account).call(
            method, path, body, content="application/merge-patch+json" if method == "PATCH" else ""
        )
    assert refused.value.status == 403


def test_a_token_that_was_taken_away_is_rejected(plane, account):
    rest = plane.rest()
    rest.create(ACCOUNTS, {"metadata": {"name": "for-a-while"}})
    bindings = f"{RBAC}/{OURS}/rolebindings"
    binding = rest.get(f"{bindings}/gshare-control-plane")
    subjects = [{"kind": "ServiceAccount", "name": "for-a-while", "namespace": "gshare-system"}]
    rest.create(bindings, {"metadata": {"name": "for-a-while"}, "roleRef": binding["roleRef"], "subjects": subjects})
    person = service_account(rest, "for-a-while")
    api = Api(read_kubeconfig(plane.kubeconfig(person), allow_local=True), allow_local=True)
    port = KubeCluster(api)
    until(lambda: not _is_rejected(port), within=30, what="the binding is known")

    rest.delete(f"{ACCOUNTS}/for-a-while")

    until(lambda: _is_rejected(port), within=30, what="the account's end is known")
    api.close()


def _is_rejected(port):
    try:
        port.observe()
    except Rejected:
        return True
    return False
