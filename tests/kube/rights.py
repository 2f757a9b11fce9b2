"""The rights as they are shipped (`deploy/rights`), installed in a cluster of the tests, and who has them."""

from __future__ import annotations

from pathlib import Path

import yaml

from gshare_core.contract import NAMESPACE_INFRA, NAMESPACE_SESSIONS, NAMESPACE_SYSTEM
from tests.kube.plane import Person
from tests.kube.rest import Rest

RIGHTS = Path(__file__).resolve().parents[2] / "deploy" / "rights"
PLACES = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def install_rights(
    rest: Rest,
    name: str,
    *,
    sessions: str = NAMESPACE_SESSIONS,
    system: str = NAMESPACE_SYSTEM,
    infra: str = NAMESPACE_INFRA,
) -> None:
    """Apply a file of `deploy/rights`, for these namespaces, which are there already (but for the one for machines)."""
    place = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": infra}}
    rest.apply(f"/api/v1/namespaces/{infra}", place, manager="tests")
    text = (RIGHTS / f"{name}.yaml").read_text(encoding="utf-8")
    text = text.replace(NAMESPACE_SESSIONS, sessions).replace(NAMESPACE_SYSTEM, system)
    text = text.replace(NAMESPACE_INFRA, infra)
    for document in yaml.safe_load_all(text):
        place = PLACES[document["kind"]].format(document["metadata"].get("namespace", ""))
        rest.apply(f"{place}/{document['metadata']['name']}", document, manager="tests")


def service_account(rest: Rest, name: str, *, system: str = NAMESPACE_SYSTEM) -> Person:
    """A service account that is there already, with a token that the API server made."""
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    accounts = PLACES["ServiceAccount"].format(system)
    return Person(name, rest.create(f"{accounts}/{name}/token", wanted)["status"]["token"])
