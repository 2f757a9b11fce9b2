"""The pre-flight test on a real API server: what a new cluster lacks is found one by one, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from cluster.models import Cluster
from tests.builders import a_cluster, a_super_admin
from tests.kube.kubelet import Kubelet
from tests.kube.machines import metrics_served
from tests.kube.nodes import a_card, a_node
from tests.kube.plane import ControlPlane, Person
from tests.kube.rest import JSON, Rest
from tests.kube.rights import install_rights
from tests.kube.test_rights import OURS, account  # noqa: F401 -- a fixture
from tests.waiting import until

pytestmark = pytest.mark.django_db
ROLES = "/apis/rbac.authorization.k8s.io/v1"
APPS = "/apis/apps/v1/namespaces/hami-system"


@pytest.fixture
def new_cluster(plane: ControlPlane, account: Person, tmp_path: Path, gshare: Any) -> Cluster:  # noqa: F811
    """A cluster that was just registered, with the account as it is shipped."""
    (tmp_path / "main").write_text(plane.kubeconfig(account))
    gshare(kubeconfig_dir=tmp_path, kube_local_addresses=True)
    return a_cluster(kind="kube", kubeconfig="main", storage_classes={"home": "nfs"})


@pytest.fixture
def sight(plane: ControlPlane) -> Iterator[None]:
    """The rights of the test, for the time of the test."""
    install_rights(plane.rest(), "preflight")
    yield
    plane.rest().delete(f"{ROLES}/clusterrolebindings/gshare-preflight")
    plane.rest().delete(f"{ROLES}/clusterroles/gshare-preflight")


def examined(cluster: Cluster) -> list[JSON]:
    root = Client()
    root.force_login(a_super_admin())
    answer = root.post(f"/api/v1/clusters/{cluster.pk}/test").json()
    assert (answer["reachable"], answer["problem"]) == (True, None)
    assert all(each["words"] and each["remedy"] for each in answer["findings"])
    found: list[JSON] = answer["findings"]
    return found


def faults(cluster: Cluster) -> set[str]:
    return {each["code"] for each in examined(cluster) if each["severity"] != "note"}


def test_what_may_not_be_seen_is_said_with_the_rights_that_it_takes(new_cluster: Cluster) -> None:
    until(lambda: examined(new_cluster), within=20, what="the rights are known")
    unseen = [each for each in examined(new_cluster) if each["code"] == "not_listed"]
    assert {each["where"] for each in unseen} >= {"nodes", "pods", "deployments", "custom_resources", "config_maps"}
    assert all("deploy/rights/preflight.yaml" in each["remedy"] for each in unseen)


def _remove_namespace(rest: Rest, name: str) -> None:
    """Delete a namespace and let go of it as Kubernetes' controller of namespaces does, which does not run here."""
    path = f"/api/v1/namespaces/{name}"
    rest.delete(path)
    found = rest.find(path)
    if found is not None:
        rest.replace(f"{path}/finalize", found | {"spec": {"finalizers": []}})


def test_each_thing_that_is_missing_is_found_until_nothing_is(
    plane: ControlPlane, kubelet: Kubelet, new_cluster: Cluster, sight: None
) -> None:
    rest = plane.rest()
    _remove_namespace(rest, "gshare-infra")  # rights that other tests install are in it

    def comes_to(wanted: set[str], without: set[str]) -> None:
        def agrees() -> bool:
            found = faults(new_cluster)
            return found >= wanted and not found & without

        until(agrees, within=30, what=f"{wanted} are found and {without} are not")

    lacking = {"hami_missing", "no_nodes", "storage_class_missing", "ingress_class_missing", "namespace_missing"}
    comes_to(lacking, {"not_listed", "version_too_old", "custom_resource_missing"})
    for name in ("gshare-infra", "hami-system"):
        rest.apply(f"/api/v1/namespaces/{name}", _named("v1", "Namespace", name), manager="tests")
    kubelet.add_node(a_node("gpu-pre", [a_card("GPU-pre", count=10)]))
    storage = "/apis/storage.k8s.io/v1/storageclasses"
    kinds = {"provisioner": "none", "allowVolumeExpansion": True}
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    for name, more in (("nfs", {}), ("standard", default)):
        rest.create(storage, {"metadata": {"name": name, **more}, **kinds})
    rest.create(
        "/apis/networking.k8s.io/v1/ingressclasses", {"metadata": {"name": "nginx"}, "spec": {"controller": "a/b"}}
    )
    _run(
        plane,
        "deployments",
        "hami-scheduler",
        ["scheduler"],
        {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1},
    )
    _run(plane, "daemonsets", "hami-device-plugin", ["device-plugin", "vgpu-monitor"], None)
    switches = {"device-config.yaml": "nvidia:\n  overwriteEnv: false\n  deviceMemoryScaling: 1.5\n"}
    settings = "/api/v1/namespaces/hami-system/configmaps"
    rest.create(settings, {"metadata": {"name": "hami-scheduler-device"}, "data": switches})
    comes_to({"pod_security_missing", "too_few_slots", "cards_visible", "memory_scaled"}, lacking | {"no_cards"})
    rest.patch(
        f"/api/v1/namespaces/{OURS}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    )
    sound = {"device-config.yaml": "nvidia:\n  overwriteEnv: true\n"}
    rest.patch(f"{settings}/hami-scheduler-device", {"data": sound})
    kubelet.remove_node("gpu-pre")
    kubelet.add_node(a_node("gpu-fit", [a_card("GPU-fit")]))
    comes_to({"metrics_missing"}, {"not_listed", "too_few_slots", "cards_visible"})
    with metrics_served(plane, OURS):
        until(lambda: not faults(new_cluster), within=30, what="nothing is found any more")
    for path in (f"{storage}/nfs", f"{storage}/standard", "/apis/networking.k8s.io/v1/ingressclasses/nginx"):
        rest.delete(path)


def _named(version: str, kind: str, name: str) -> JSON:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _run(plane: ControlPlane, plural: str, name: str, containers: list[str], status: JSON | None) -> None:
    """A workload of HAMi's chart, as far as a test of the cluster looks at it."""
    labels = {"app": name}
    used = [{"name": each, "image": "projecthami/hami:v2.10.0"} for each in containers]
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": used}},
    }
    plane.rest().create(f"{APPS}/{plural}", {"metadata": {"name": name}, "spec": spec})
    if status is not None:
        plane.rest().patch(f"{APPS}/{plural}/{name}/status", {"status": status})
