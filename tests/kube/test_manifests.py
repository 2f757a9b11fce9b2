"""A session's objects on a real API server: it takes them as they are, needs no second apply, and Pod Security agrees."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.operator.manifests import Manifest, ManifestSettings, Owner, manifests_of, needs_apply, nginx_profile
from gshare_core.contract import App, Mount, SessionSpec, session_name
from gshare_core.ids import uuid7
from tests.kube.plane import ControlPlane
from tests.kube.rest import Refused, Rest
from tests.unit.operator.build import gpu, spec

MANAGER = "gshare-operator"
APPS = (App(name="lab", port=8888), App(name="terminal", port=7681), App(name="code", port=8080))
VOLUMES = (
    Mount(claim="vol-home", mount_path="/home/work", size_gib=10),
    Mount(claim="vol-data", mount_path="/data", read_only=True, size_gib=2048, access_mode="ReadWriteMany"),
)
ENFORCE = "pod-security.kubernetes.io/enforce"
CASES = {
    "share": {"gpu": gpu(vram_mib=9000, core_percent=12), "volumes": VOLUMES},
    "whole": {"gpu": gpu(mode="exclusive", cards=("GPU-1", "GPU-2"), vram_mib=81559, core_percent=100)},
    "borrowed": {"gpu": gpu(mode="exclusive", borrowed=True)},
    "no card": {"node": "cpu-01"},
}


def everything(namespace: str, **fields: Any) -> tuple[SessionSpec, list[Manifest]]:
    document = spec(session=uuid7(), apps=APPS, **fields)
    settings = ManifestSettings(
        namespace=namespace, ingress=nginx_profile("http://control.example:8001", "https://console.example/")
    )
    made = manifests_of(document, Owner(session_name(document.session_id), "u"), "token", settings)
    return document, [*made.lasting, *made.around, *made.ways, made.pod]


def path_of(manifest: Manifest) -> str:
    group = {"Ingress": "apis/networking.k8s.io/v1", "NetworkPolicy": "apis/networking.k8s.io/v1"}
    plural = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}
    kind, head = manifest["kind"], manifest["metadata"]
    where = f"{group.get(kind, 'api/v1')}/namespaces/{head['namespace']}/{plural.get(kind, kind.lower() + 's')}"
    return f"/{where}/{head['name']}"


def apply(rest: Rest, manifest: Manifest, **query: Any) -> dict[str, Any]:
    return rest.apply(path_of(manifest), manifest, manager=MANAGER, **query)


@pytest.fixture
def restricted(plane: ControlPlane) -> str:
    rest = plane.rest()
    if rest.find("/apis/node.k8s.io/v1/runtimeclasses/nvidia") is None:
        rest.create("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    return plane.namespace(labels={ENFORCE: "restricted"})


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_taken_under_the_restricted_profile_and_then_is_as_wanted(
    plane: ControlPlane, restricted: str, case: str
) -> None:
    _, manifests = everything(restricted, **CASES[case])
    for manifest in manifests:
        apply(plane.rest(), manifest)
        seen = plane.rest().get(path_of(manifest))
        if manifest["kind"] == "Pod":  # made once; admission adds tolerations
            assert seen["spec"]["containers"][0]["resources"].keys() == {"limits", "requests"}
            assert seen["metadata"]["annotations"] == manifest["metadata"]["annotations"]
        else:
            assert not needs_apply(manifest, seen), manifest["kind"]


def test_a_newer_document_changes_what_is_around_and_says_so(plane: ControlPlane, restricted: str) -> None:
    document, manifests = everything(restricted)
    (service,) = (manifest for manifest in manifests if manifest["kind"] == "Service")
    apply(plane.rest(), service)
    settings = ManifestSettings(namespace=restricted)
    later = document.model_copy(update={"run": 2, "generation": 2})
    made = manifests_of(later, Owner(session_name(document.session_id), "u"), "other", settings)
    (wanted,) = (manifest for manifest in made.around if manifest["kind"] == "Service")
    assert needs_apply(wanted, plane.rest().get(path_of(wanted)))
    apply(plane.rest(), wanted)
    assert not needs_apply(wanted, plane.rest().get(path_of(wanted)))


def test_a_privileged_session_is_refused_by_restricted_and_taken_by_baseline(
    plane: ControlPlane, restricted: str
) -> None:
    _, manifests = everything(restricted, privileged=True)
    with pytest.raises(Refused) as refused:
        apply(plane.rest(), manifests[-1])
    assert refused.value.status == 403 and "restricted" in str(refused.value)
    baseline = plane.namespace(labels={ENFORCE: "baseline"})
    _, manifests = everything(baseline, privileged=True)
    apply(plane.rest(), manifests[-1])


@pytest.mark.parametrize(
    "tampered",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_the_namespace_refuses_a_pod_that_was_tampered_with(plane: ControlPlane, tampered: dict[str, Any]) -> None:
    baseline = plane.namespace(labels={ENFORCE: "baseline"})
    _, manifests = everything(baseline)
    pod = manifests[-1]
    pod["spec"] |= tampered
    if "volumes" in tampered:
        pod["spec"]["containers"][0]["volumeMounts"] = []
    with pytest.raises(Refused) as refused:
        apply(plane.rest(), pod)
    assert refused.value.status == 403 and "baseline" in str(refused.value)
