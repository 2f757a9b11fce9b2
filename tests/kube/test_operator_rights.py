"""The operator's rights on its cluster (`deploy/rights/operator.yaml`): enough for its work, and for nothing else."""

from __future__ import annotations

import pytest

from gshare_core.ids import uuid7
from tests.kube.documents import a_session, sessions
from tests.kube.operating import operating
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, MERGE, Refused, Rest
from tests.kube.rights import install_rights
from tests.kube.test_operator import pods, reported, want
from tests.waiting import until

NODE = "/api/v1/nodes/gpu-01"


@pytest.fixture
def operator_account(plane: ControlPlane, cluster: str) -> str:
    """The account with the rights as they are shipped, for this test's namespaces."""
    system = plane.namespace("system")
    install_rights(plane.rest(), "operator", sessions=cluster, system=system)
    account = f"system:serviceaccount:{system}:gshare-operator"
    # Rights and policies are watched by the server, a moment late; until then the policy refuses nothing.
    until(lambda: _is_held(Acting(plane, account)), within=30, what="the policy is known")
    return account


def _is_held(operator: Acting) -> bool:
    """Whether the policy is in force; nothing is written."""
    try:
        change = {"metadata": {"labels": {"a": "b"}}}
        operator.call("PATCH", NODE, change, content=MERGE, dryRun="All")
    except Refused as refusal:
        return "cordon a node" in str(refusal)
    return False


class Acting(Rest):
    """Calls as somebody else."""

    def __init__(self, plane: ControlPlane, user: str) -> None:
        super().__init__(plane.server, str(plane.ca), token=plane.admin.token)
        self._client.headers["Impersonate-User"] = user


def test_the_rights_are_enough_for_a_sessions_life(plane: ControlPlane, cluster: str, operator_account: str) -> None:
    session = uuid7()
    with operating(plane, cluster, user=operator_account) as operator:
        want(plane, cluster, session)
        reported(operator, session, "running")
        assert len(operator.parts.followed.nodes.objects) >= 1
        want(plane, cluster, session, generation=2, desired="Stopped")
        reported(operator, session, "gone")
        assert pods(plane, cluster) == []
        plane.rest().delete(sessions(cluster, f"s-{session.hex}"))
        until(lambda: plane.rest().find(sessions(cluster, f"s-{session.hex}")) is None, within=20, what="it goes")


def test_ways_that_are_refused_fail_the_session_in_the_servers_words(
    plane: ControlPlane, cluster: str, operator_account: str
) -> None:
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster}/roles/gshare-operator"
    rules = plane.rest().get(role)["rules"]
    for rule in rules:
        rule["resources"] = [name for name in rule["resources"] if name != "ingresses"] or ["nothing"]
    plane.rest().patch(role, {"rules": rules})
    ingress = f"/apis/networking.k8s.io/v1/namespaces/{cluster}/ingresses/any"
    until(lambda: _is_refused(plane, operator_account, ingress), within=30, what="the right is taken away")
    session = uuid7()
    with operating(plane, cluster, user=operator_account) as operator:
        want(plane, cluster, session)
        reported(operator, session, "failed")
        last = operator.last(session)
        assert last is not None
        assert "ingresses" in last.message
        assert "running" not in operator.phases(session)
        until(lambda: pods(plane, cluster) == [], within=30, what="its pod is ended")


def _is_refused(plane: ControlPlane, account: str, path: str) -> bool:
    try:
        Acting(plane, account).find(path)
    except Refused as refusal:
        return refusal.status == 403
    return False


def test_a_node_is_cordoned_and_used_again(plane: ControlPlane, cluster: str, operator_account: str) -> None:
    with operating(plane, cluster, user=operator_account) as operator:
        for wanted, unschedulable in ((frozenset({"gpu-01"}), True), (None, True), (frozenset(), None)):
            operator.heed(wanted)
            until(lambda u=unschedulable: _spec(plane).get("unschedulable") is u, within=20, what="the cordon")


def test_a_cordon_made_by_hand_is_left_alone(plane: ControlPlane, cluster: str, operator_account: str) -> None:
    plane.rest().patch(NODE, {"spec": {"unschedulable": True}})
    with operating(plane, cluster, user=operator_account) as operator:
        operator.heed(frozenset({"gpu-01"}))
        operator.heed(frozenset())
        assert _spec(plane)["unschedulable"] is True


def _spec(plane: ControlPlane) -> JSON:
    return plane.rest().get(NODE)["spec"]


def _pod(name: str) -> JSON:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


FORBIDDEN = {
    "pods elsewhere": ("POST", "/api/v1/namespaces/default/pods", _pod("p")),
    "secrets elsewhere": ("GET", "/api/v1/namespaces/kube-system/secrets", None),
    "all secrets of sessions": ("GET", "/api/v1/namespaces/{namespace}/secrets", None),
    "nodes": ("DELETE", "/api/v1/nodes/gpu-01", None),
    "a node's labels": ("PATCH", "/api/v1/nodes/gpu-01", {"metadata": {"labels": {"a": "b"}}}),
    "a node's taints": (
        "PATCH",
        NODE,
        {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": True}},
    ),
    "what others noted on a node": (
        "PATCH",
        NODE,
        {"metadata": {"annotations": {"hami.io/node-nvidia-register": None}}},
    ),
    "notes of others on a node": ("PATCH", NODE, {"metadata": {"annotations": {"hami.io/device-cordon": "GPU-1"}}}),
    "a node's status": ("PATCH", f"{NODE}/status", {"status": {"conditions": []}}),
    "another session": ("POST", "/apis/gshare.io/v1/namespaces/{namespace}/gsharesessions", a_session()),
    "the end of a session": ("DELETE", "/apis/gshare.io/v1/namespaces/{namespace}/gsharesessions/s-1", None),
    "programs in pods": ("POST", "/api/v1/namespaces/{namespace}/pods/p/exec", None),
    "rights": ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", None),
    "custom resources": ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None),
    "leases of others": (
        "PATCH",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-01",
        {"spec": {}},
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_else_is_allowed(plane: ControlPlane, cluster: str, operator_account: str, what: str) -> None:
    method, path, body = FORBIDDEN[what]
    content = {"content": MERGE} if method == "PATCH" else {}
    with pytest.raises(Refused) as refused:
        Acting(plane, operator_account).call(method, path.format(namespace=cluster), body, **content)
    assert refused.value.status == 403
