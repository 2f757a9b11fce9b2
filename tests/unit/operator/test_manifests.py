"""The Kubernetes objects of a session: what they hold in every case, and what cannot be made."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.operator.manifests import (
    PodSettings,
    Unbuildable,
    needs_apply,
)
from gshare_core.contract import (
    App,
    Deadlines,
    GpuShare,
    HostResources,
    MigSlice,
    Mount,
    SessionSpec,
    access_secret_name,
)
from tests.unit.operator.build import SESSION, gpu, spec
from tests.unit.operator.objects import SETTINGS, container_of, extended, made, pod_of, variables_of

# --- cards -----------------------------------------------------------------------------------------------------------


def test_a_share_says_count_memory_cores_mode_card_and_node() -> None:
    document = spec(gpu=gpu(cards=("GPU-1",), vram_mib=9000, core_percent=12))
    pod = pod_of(document)
    wanted = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9000", "nvidia.com/gpucores": "12"}
    assert extended(container_of(document)) == wanted
    assert pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] == "GPU-1"
    assert pod["metadata"]["annotations"]["nvidia.com/vgpu-mode"] == "hami-core"
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "gpu-01"}
    assert "runtimeClassName" not in pod["spec"]


def test_whole_cards_are_named_all_and_taken_with_all_their_cores() -> None:
    document = spec(gpu=gpu(cards=("GPU-1", "GPU-2"), mode="exclusive", vram_mib=81559, core_percent=100))
    wanted = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "81559", "nvidia.com/gpucores": "100"}
    assert extended(container_of(document)) == wanted
    assert pod_of(document)["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] == "GPU-1,GPU-2"
    assert "nvidia.com/gpucores" in extended(container_of(spec(gpu=gpu(mode="exclusive", core_percent=0))))


def test_a_mig_slice_asks_for_no_more_than_its_profile_has_and_for_one_core() -> None:
    document = spec(gpu=gpu(vram_mib=10194, core_percent=12, mig=MigSlice(profile="1g.10gb", start=6)))
    asked = extended(container_of(document, profile_mib=9728))
    assert asked == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9728", "nvidia.com/gpucores": "1"}
    assert pod_of(document)["metadata"]["annotations"]["nvidia.com/vgpu-mode"] == "mig"
    assert extended(container_of(document))["nvidia.com/gpumem"] == "10194"
    assert extended(container_of(document, profile_mib=19968))["nvidia.com/gpumem"] == "10194"


def test_a_borrower_asks_hami_for_nothing_and_takes_the_card_by_its_uuid() -> None:
    document = spec(gpu=gpu(mode="exclusive", cards=("GPU-1", "GPU-2"), borrowed=True))
    pod = pod_of(document)
    assert extended(container_of(document)) == {}
    assert not any("nvidia.com" in key for key in pod["metadata"]["annotations"])
    assert pod["spec"]["runtimeClassName"] == "nvidia" and "schedulerName" not in pod["spec"]
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "gpu-01"}
    assert variables_of(document)["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    # HAMi's webhook would append NVIDIA_VISIBLE_DEVICES=none where it keeps cards from pods that asked for none.
    assert pod["metadata"]["labels"]["hami.io/webhook"] == "ignore"


def test_a_session_without_a_card_sees_none() -> None:
    document = spec(node="cpu-01")
    pod = pod_of(document)
    assert extended(container_of(document)) == {}
    assert variables_of(document)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "cpu-01"}
    assert "schedulerName" not in pod["spec"] and "tolerations" not in pod["spec"]
    assert "nodeSelector" not in pod_of(spec())["spec"]


def test_only_pods_with_cards_tolerate_the_taint_of_nodes_with_cards() -> None:
    assert [each["key"] for each in pod_of(spec(gpu=gpu()))["spec"]["tolerations"]] == ["nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (gpu(mode="exclusive", mig=MigSlice(profile="7g.80gb", start=0)), "share of one card"),
        (gpu(borrowed=True), "whole cards are borrowed"),
    ],
)
def test_claims_that_no_pod_can_hold_are_refused(share: GpuShare, words: str) -> None:
    with pytest.raises(Unbuildable, match=words):
        pod_of(spec(gpu=share))


# --- the pod's shape -------------------------------------------------------------------------------------------------


def test_the_pod_is_restricted() -> None:
    pod = pod_of(spec(gpu=gpu()))["spec"]
    inside = pod["securityContext"]
    assert inside["runAsNonRoot"] is True and inside["runAsUser"] == 1000
    assert inside["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"hostNetwork", "hostPID", "hostIPC", "hostUsers", "initContainers", "nodeName"}.isdisjoint(pod)
    assert all(set(volume) - {"name"} <= {"emptyDir", "persistentVolumeClaim"} for volume in pod["volumes"])


def test_a_privileged_session_is_root_inside_but_no_more_than_baseline() -> None:
    pod = pod_of(spec(privileged=True))["spec"]
    assert pod["securityContext"]["runAsUser"] == 0 and "runAsNonRoot" not in pod["securityContext"]
    (container,) = pod["containers"]
    assert container["securityContext"]["privileged"] is False
    assert container["securityContext"]["allowPrivilegeEscalation"] is True
    added = set(container["securityContext"]["capabilities"]["add"])
    assert "CHOWN" in added and added.isdisjoint({"SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE"})
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_privileged_session_with_a_card_is_refused() -> None:
    with pytest.raises(Unbuildable, match="privileged"):
        pod_of(spec(gpu=gpu()).model_copy(update={"privileged": True}))


def test_the_pod_reaches_no_api_and_gets_no_variables_of_services() -> None:
    pod = pod_of(spec())["spec"]
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert pod["restartPolicy"] == "OnFailure"


def test_limits_are_what_was_admitted() -> None:
    host = HostResources(cpu_milli=2500, memory_mib=8192, scratch_gib=50)
    limits = container_of(spec(resources=host))["resources"]
    assert limits["limits"] == limits["requests"] == {"cpu": "2500m", "memory": "8Gi", "ephemeral-storage": "50Gi"}


def test_scratch_is_limited_also_where_none_was_asked_for() -> None:
    document = spec(resources=HostResources(cpu_milli=1000, memory_mib=1536, scratch_gib=0))
    assert container_of(document)["resources"]["limits"]["ephemeral-storage"] == "1Gi"
    assert container_of(document)["resources"]["limits"]["memory"] == "1536Mi"
    volumes = {volume["name"]: volume.get("emptyDir") for volume in pod_of(document)["spec"]["volumes"]}
    assert volumes == {"home": {"sizeLimit": "1Gi"}, "shm": {"medium": "Memory", "sizeLimit": "768Mi"}}


def test_grace_is_the_documents() -> None:
    for seconds in (0, 45):
        document = spec(deadlines=Deadlines(stop_grace_seconds=seconds))
        assert pod_of(document)["spec"]["terminationGracePeriodSeconds"] == seconds


@pytest.mark.parametrize(
    ("app", "asked"),
    [
        (App(name="lab", port=8888), {"httpGet": {"path": "/lab/api", "port": 8888, "scheme": "HTTP"}}),
        (App(name="code", port=8080), {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}}),
        (App(name="terminal", port=7681), {"tcpSocket": {"port": 7681}}),
    ],
)
def test_the_pod_is_ready_when_its_first_app_answers(app: App, asked: dict[str, Any]) -> None:
    others = (App(name="lab", port=1), App(name="terminal", port=2))
    probe = container_of(spec(apps=(app, *(other for other in others if other.name != app.name))))["readinessProbe"]
    assert asked.items() <= probe.items()


def test_the_last_lines_of_the_log_are_kept_as_the_containers_words() -> None:
    assert container_of(spec())["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_volumes_are_mounted_where_and_how_they_were_asked_for() -> None:
    home = Mount(claim="vol-a", mount_path="/home/work", size_gib=10)
    read = Mount(claim="vol-b", mount_path="/data", read_only=True, size_gib=5)
    pod = pod_of(spec(volumes=(home, read)))["spec"]
    mounts = pod["containers"][0]["volumeMounts"]
    assert mounts[:2] == [
        {"name": "vol-a", "mountPath": "/home/work"},
        {"name": "vol-b", "mountPath": "/data", "readOnly": True},
    ]
    assert pod["volumes"][:2] == [
        {"name": "vol-a", "persistentVolumeClaim": {"claimName": "vol-a"}},
        {"name": "vol-b", "persistentVolumeClaim": {"claimName": "vol-b", "readOnly": True}},
    ]
    assert "home" not in {volume["name"] for volume in pod["volumes"]}


def test_a_claim_that_is_mounted_twice_is_one_volume_and_writable_if_one_mount_is() -> None:
    mounts = (
        Mount(claim="vol-a", mount_path="/data", read_only=True, size_gib=5),
        Mount(claim="vol-a", mount_path="/home/work", size_gib=5),
    )
    pod = pod_of(spec(volumes=mounts))["spec"]
    assert pod["volumes"][0] == {"name": "vol-a", "persistentVolumeClaim": {"claimName": "vol-a"}}
    assert [volume["name"] for volume in pod["volumes"]] == ["vol-a", "shm"]


def test_what_a_cluster_adds_stands_on_the_pod() -> None:
    pods = PodSettings(
        environment={"PIP_INDEX_URL": "https://mirror.example"},
        image_pull_secrets=("registry",),
        priority_class="sessions",
        tolerations=({"key": "sessions", "operator": "Exists"},),
        user=4000,
    )
    document, settings = spec(), replace(SETTINGS, pods=pods)
    pod = pod_of(document, settings)["spec"]
    assert variables_of(document, settings)["PIP_INDEX_URL"] == "https://mirror.example"
    assert pod["imagePullSecrets"] == [{"name": "registry"}] and pod["priorityClassName"] == "sessions"
    assert pod["tolerations"] == [{"key": "sessions", "operator": "Exists"}]
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 4000


# --- environment -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_DISABLE_CONTROL", "cuda_disable_control", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_SHARED_CACHE",
        "CUDA_DEVICE_SM_LIMIT", "CUDA_OVERSUBSCRIBE", "CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY", "LD_PRELOAD", "LD_AUDIT",
        "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GSHARE_TOKEN", "JUPYTER_TOKEN", "HOME", "NOT A NAME",
    ],
)  # fmt: skip
def test_variables_that_decide_what_a_session_may_use_are_refused_by_name(name: str) -> None:
    settings = replace(SETTINGS, pods=PodSettings(environment={name: "1"}))
    with pytest.raises(Unbuildable, match=name):
        pod_of(spec(gpu=gpu()), settings)


def test_an_image_cannot_switch_the_limits_off() -> None:
    assert variables_of(spec(gpu=gpu()))["CUDA_DISABLE_CONTROL"] == "false"


def test_hami_alone_says_which_cards_are_seen() -> None:
    variables = variables_of(spec(gpu=gpu()))
    assert {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}.isdisjoint(variables)
    assert variables["GSHARE_CARDS"] == "GPU-1"


def test_the_token_comes_from_the_secret_and_stands_nowhere_else() -> None:
    document = spec(gpu=gpu())
    everything = made(document)
    secret = everything.around[0]
    assert secret["metadata"]["name"] == access_secret_name(SESSION)
    assert base64.b64decode(secret["data"]["token"]) == b"the-token"
    taken = {entry["name"]: entry["valueFrom"] for entry in container_of(document)["env"] if "valueFrom" in entry}
    reference = {"secretKeyRef": {"name": access_secret_name(SESSION), "key": "token"}}
    assert taken == {"JUPYTER_TOKEN": reference, "GSHARE_TOKEN": reference}
    others = json.dumps([*everything.lasting, *everything.around[1:], *everything.ways, everything.pod])
    assert "the-token" not in others and secret["data"]["token"] not in others


def test_apps_and_ports_are_told() -> None:
    variables = variables_of(spec(apps=(App(name="lab", port=8888), App(name="code", port=8080))))
    assert variables["GSHARE_APPS"] == "lab,code"
    assert variables["GSHARE_PORT_LAB"] == "8888" and variables["GSHARE_PORT_CODE"] == "8080"


# --- for every document ----------------------------------------------------------------------------------------------

apps = some.lists(some.sampled_from(["lab", "code", "terminal"]), min_size=1, max_size=3, unique=True)
uuids = some.lists(some.integers(0, 15).map("GPU-{:02d}".format), min_size=1, max_size=8, unique=True)


@some.composite
def shares(draw: some.DrawFn) -> GpuShare:
    cards = tuple(draw(uuids))
    mode = draw(some.sampled_from(["fractional", "exclusive"]))
    mig = some.none() | some.builds(MigSlice, profile=some.just("1g.10gb"), start=some.integers(0, 6))
    return GpuShare(
        mode=mode,
        node="gpu-01",
        cards=cards if mode == "exclusive" else cards[:1],
        vram_mib=draw(some.integers(1, 200_000)),
        core_percent=draw(some.integers(0, 100)),
        mig=draw(mig) if mode == "fractional" else None,
        borrowed=mode == "exclusive" and draw(some.booleans()),
    )


@some.composite
def documents(draw: some.DrawFn) -> SessionSpec:
    share = draw(some.none() | shares())
    ports = {"lab": 8888, "code": 8080, "terminal": 7681}
    return spec(
        draw(some.integers(1, 10_000)),
        gpu=share,
        privileged=share is None and draw(some.booleans()),
        node=draw(some.none() | some.just("cpu-01")) if share is None else None,
        apps=tuple(App(name=name, port=ports[name]) for name in draw(apps)),
        resources=HostResources(
            cpu_milli=draw(some.integers(1, 256_000)),
            memory_mib=draw(some.integers(1, 4_000_000)),
            scratch_gib=draw(some.integers(0, 20_000)),
        ),
    )


@given(documents())
def test_no_document_makes_a_pod_that_hami_or_pod_security_would_refuse(document: SessionSpec) -> None:
    pod = pod_of(document, profile_mib=9728)
    (container,) = pod["spec"]["containers"]
    assert "initContainers" not in pod["spec"] and "nodeName" not in pod["spec"]
    assert container["securityContext"]["privileged"] is False
    assert not any(key.startswith("hami.io/") for key in pod["metadata"]["annotations"])
    asked = extended(container)
    if document.gpu is None or document.gpu.borrowed:
        assert not asked
    else:
        assert set(asked) == {"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"}
        assert all(value.isdigit() for value in asked.values())
        assert int(asked["nvidia.com/gpu"]) == len(document.gpu.cards) and int(asked["nvidia.com/gpumem"]) >= 1
        assert pod["metadata"]["annotations"]["nvidia.com/vgpu-mode"] in ("hami-core", "mig")
        assert pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] == document.gpu.node


@given(documents())
def test_every_object_is_json_has_a_name_of_dns_and_needs_no_second_apply(document: SessionSpec) -> None:
    everything = made(document)
    for manifest in (*everything.lasting, *everything.around, *everything.ways, everything.pod):
        copy = json.loads(json.dumps(manifest))
        assert not needs_apply(manifest, copy)
        name = manifest["metadata"]["name"]
        assert len(name) <= 63 and name.replace("-", "").isalnum() and name == name.lower() and name[0].isalpha()
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())
