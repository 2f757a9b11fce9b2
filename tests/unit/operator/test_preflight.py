"""The pre-flight test of a cluster: each thing that is missing or wrong is found, in words, and nothing on a sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from cluster.domain import nvidia
from cluster.domain.drift import drifts
from cluster.domain.preflight import Expected, Facts, Finding, preflight
from cluster.operator.reading.nodes import read_node
from gshare_core.contract import NodeRow
from tests.unit.operator.build import NOW, gpu, spec
from tests.unit.operator.kube_objects import JSON, a_card, a_foreign_pod, a_node, a_pod, allotted, stamp


def named(name: str, **fields: Any) -> JSON:
    labels, annotations = fields.pop("labels", {}), fields.pop("annotations", {})
    return {"metadata": {"name": name, "namespace": "system", "labels": labels, "annotations": annotations}, **fields}


def workload(name: str, *images: str, containers: tuple[str, ...] = ("c",), **status: Any) -> JSON:
    used = [{"name": container, "image": image} for container, image in zip(containers, images, strict=True)]
    return named(name, spec={"template": {"spec": {"containers": used}}}, status=status)


def definition(name: str, status: str = "True") -> JSON:
    return named(name, status={"conditions": [{"type": "Established", "status": status}]})


BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
SCHEDULER = workload("hami-scheduler", "projecthami/hami:v2.10.0", readyReplicas=1)
PLUGIN = workload(
    "hami-device-plugin",
    "projecthami/hami:v2.10.0",
    "projecthami/hami:v2.10.0",
    containers=("device-plugin", "vgpu-monitor"),
    desiredNumberScheduled=1,
)
SOUND = Facts(
    now=NOW,
    version={"gitVersion": "v1.36.3"},
    nodes=[a_node(cards=[a_card(), a_card("GPU-2", index=1)])],
    pods=[],
    namespaces=[named("gshare-system"), named("gshare-infra"), named("gshare-sessions", labels=BASELINE)],
    storage_classes=[named("standard", annotations=DEFAULT, allowVolumeExpansion=True)],
    ingress_classes=[named("nginx")],
    runtime_classes=[named("nvidia")],
    custom_resources=[definition("gsharesessions.gshare.io"), definition("gpumodechanges.gshare.io")],
    daemon_sets=[PLUGIN, workload("calico-node", "calico/node:v3")],
    deployments=[SCHEDULER],
    config_maps=[named("hami-scheduler-device", data={"device-config.yaml": "nvidia:\n  overwriteEnv: true\n"})],
    api_groups=[{"name": "apps"}, {"name": "metrics.k8s.io"}],
)


def found(expected: Expected | None = None, **changed: Any) -> tuple[Finding, ...]:
    return preflight(replace(SOUND, **changed), expected or Expected())


def codes(expected: Expected | None = None, **changed: Any) -> list[str]:
    return [finding.code for finding in found(expected, **changed)]


def test_a_sound_cluster_has_no_findings() -> None:
    assert found(Expected(lends=True)) == ()


@pytest.mark.parametrize("what", [each.name for each in fields(Facts) if each.name != "now"])
def test_what_could_not_be_listed_is_said_and_judged_no_further(what: str) -> None:
    (finding,) = found(Expected(lends=True), **{what: None})
    assert finding.code == "not_listed" and finding.where == what and finding.severity == "warning"


def test_nothing_at_all_could_be_listed() -> None:
    assert {finding.code for finding in preflight(Facts(now=NOW), Expected())} == {"not_listed"}


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ({"gitVersion": "v1.28.9"}, ["version_too_old"]),
        ({"major": "1", "minor": "22+"}, ["version_too_old"]),
        ({"gitVersion": "v1.29.0"}, []),
        ({"gitVersion": "v1.40.1-gke.7"}, ["version_untried"]),
        ({"gitVersion": "new"}, ["version_unknown"]),
    ],
)
def test_the_release_of_kubernetes(version: JSON, code: list[str]) -> None:
    assert codes(version=version) == code


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"custom_resources": [definition("gsharesessions.gshare.io")]}, "custom_resource_missing"),
        ({"custom_resources": [definition("gsharesessions.gshare.io", "False"), definition("gpumodechanges.gshare.io")]}, "custom_resource_missing"),
        ({"namespaces": [named("gshare-infra"), named("gshare-sessions", labels=BASELINE)]}, "namespace_missing"),
        ({"namespaces": [named("gshare-system"), named("gshare-infra"), named("gshare-sessions")]}, "pod_security_missing"),
        ({"storage_classes": [named("standard", allowVolumeExpansion=True)]}, "storage_class_missing"),
        ({"storage_classes": [named("standard", annotations=DEFAULT)]}, "storage_cannot_grow"),
        ({"ingress_classes": [named("haproxy")]}, "ingress_class_missing"),
        ({"runtime_classes": []}, "runtime_class_missing"),
        ({"daemon_sets": [PLUGIN, named("kube-flannel-ds")]}, "network_open"),
        ({"daemon_sets": [PLUGIN]}, "network_unknown"),
        ({"nodes": []}, "no_nodes"),
    ],
)  # fmt: skip
def test_each_thing_that_kubernetes_lacks(changed: dict[str, Any], code: str) -> None:
    assert codes(Expected(lends=True), **changed) == [code]


def test_only_the_classes_that_volumes_are_mapped_to_are_asked_for() -> None:
    mapped = Expected(storage_classes=frozenset({"nfs", "standard"}))
    (finding,) = found(mapped)
    assert finding.code == "storage_class_missing" and "storage class nfs" in finding.words
    assert codes(Expected(storage_classes=frozenset()), storage_classes=[]) == []


def test_a_runtime_class_matters_only_where_cards_are_lent() -> None:
    assert codes(Expected(), runtime_classes=[]) == []


def a_sound_node(change: Callable[[JSON], object], name: str = "gpu-01") -> list[JSON]:
    node = a_node(name, cards=[a_card()])
    change(node)
    return [node]


def test_a_node_that_cannot_be_named_by_its_label() -> None:
    (finding,) = found(nodes=a_sound_node(lambda node: node["metadata"]["labels"].clear()))
    assert finding.code == "hostname_label" and finding.severity == "error" and "missing" in finding.words


def test_a_node_that_is_silent_or_cordoned() -> None:
    (silent,) = found(nodes=[a_node(cards=[a_card()], ready="Unknown")])
    assert silent.code == "node_not_ready" and "kubelet stopped posting" in silent.words
    assert codes(nodes=[a_node(cards=[a_card()], spec={"unschedulable": True})]) == ["node_cordoned"]


def test_taints_that_sessions_do_not_tolerate() -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    nodes = [a_node(cards=[a_card()], spec={"taints": taints})]
    (finding,) = found(nodes=nodes)
    assert finding.code == "taint_not_tolerated" and "team=a:NoSchedule" in finding.words
    for toleration in ({"key": "team", "value": "a"}, {"key": "team", "operator": "Exists"}, {"operator": "Exists"}):
        assert codes(Expected(tolerations=(nvidia.TOLERATION, toleration)), nodes=nodes) == []
    for other in ({"key": "team", "value": "b"}, {"key": "team", "value": "a", "effect": "NoExecute"}):
        assert codes(Expected(tolerations=(nvidia.TOLERATION, other)), nodes=nodes) == ["taint_not_tolerated"]


# --- HAMi ------------------------------------------------------------------------------------------------------------


def test_hamis_scheduler_is_missing_down_or_of_another_release() -> None:
    assert codes(deployments=[]) == ["hami_missing"]
    assert codes(deployments=[workload("hami-scheduler", "projecthami/hami:v2.10.0")]) == ["hami_not_ready"]
    older = workload("hami-scheduler", "mirror.example:5000/projecthami/hami:v2.9.0", readyReplicas=1)
    (finding,) = found(deployments=[older])
    assert finding.code == "hami_release" and finding.severity == "error" and "HAMi 2.9 is older" in finding.words
    newer = workload("hami-scheduler", "projecthami/hami:v2.11.1", readyReplicas=1)
    assert [finding.severity for finding in found(deployments=[newer])] == ["warning"]
    by_digest = workload("hami-scheduler", "projecthami/hami@sha256:0", readyReplicas=1)
    assert codes(deployments=[by_digest]) == []


def test_a_second_device_plugin_is_found_by_its_pods_and_by_what_nodes_offer() -> None:
    second = workload(
        "nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.17", desiredNumberScheduled=2
    )
    (finding,) = found(daemon_sets=[*(SOUND.daemon_sets or ()), second])
    assert finding.code == "second_device_plugin" and "system/nvidia-device-plugin-daemonset" in finding.words
    nowhere = workload(
        "nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.17", desiredNumberScheduled=0
    )
    assert codes(daemon_sets=[*(SOUND.daemon_sets or ()), nowhere]) == []
    assert codes(nodes=[a_node(cards=[a_card()], allocatable={"nvidia.com/gpu": "1"})]) == ["second_device_plugin"]


def test_cards_that_the_plugin_does_not_offer_or_hami_did_not_register() -> None:
    assert codes(nodes=[a_node(cards=[a_card()], allocatable={"nvidia.com/gpu": "0"})]) == ["plugin_silent"]
    unregistered = a_node("gpu-02", cards=None, allocatable={"nvidia.com/gpu": "8"})
    assert codes(nodes=[*(SOUND.nodes or ()), unregistered]) == ["not_hamis_cards"]
    assert codes(nodes=[a_node(cards=[a_card()], allocatable={"nvidia.com/mig-1g.10gb": "7"})]) == ["foreign_resource"]


def test_a_cluster_without_cards_runs_sessions_without_a_gpu() -> None:
    (finding,) = found(nodes=[a_node("cpu-01", cards=None)])
    assert finding.code == "no_cards" and finding.severity == "warning"


def test_slots_below_the_smallest_tiers_denominator() -> None:
    (finding,) = found(nodes=[a_node(cards=[a_card(count=10), a_card("GPU-2", count=16)])])
    assert finding.code == "too_few_slots"
    assert "have 10 slots, but the smallest tier is 1/16" in finding.words and "11th session" in finding.words
    assert "deviceSplitCount to 16" in finding.remedy
    assert codes(Expected(slots=8), nodes=[a_node(cards=[a_card(count=10)])]) == []


def test_registers_that_cannot_be_read_or_are_of_an_old_release() -> None:
    (finding,) = found(nodes=[a_node(cards="[")])
    assert finding.code == "register_unreadable" and finding.severity == "error"
    old = "GPU-0a,16,81920,100,NVIDIA-NVIDIA A100-SXM4-80GB,0,true:"
    assert codes(nodes=[a_node(cards=old)]) == ["register_old"]
    partly = found(nodes=[a_node(cards=[a_card(), a_card("GPU-2", devmem=None)])])
    assert [finding.code for finding in partly] == ["register_unreadable"] and "vram_mib" in partly[0].words


def test_cards_that_are_not_as_they_should_be() -> None:
    assert codes(nodes=[a_node(cards=[a_card(health=False)])]) == ["card_unhealthy"]
    assert codes(nodes=[a_node(cards=[a_card(devcore=200)])]) == ["cores_scaled"]
    assert codes(nodes=[a_node(cards=[a_card(mode="mig", count=7)])]) == ["mig_profiles_missing"]


def test_a_nodes_name_that_is_longer_than_a_label() -> None:
    name = "gpu-" + "0" * 60
    assert codes(nodes=[a_node(name, cards=[a_card()])]) == ["node_name_too_long"]


def test_cards_of_other_vendors_are_told_and_never_placed_on() -> None:
    node = a_node(cards=[a_card()], annotations={"hami.io/node-dcu-register": "x"})
    (finding,) = found(nodes=[node])
    assert finding.code == "other_vendor" and finding.severity == "note" and "(dcu)" in finding.words


def test_a_node_lock_that_nobody_takes_off() -> None:
    held = {"hami.io/mutex.lock": f"{stamp(-301)},gshare-sessions,s-1"}
    (finding,) = found(nodes=[a_node(cards=[a_card()], annotations=held)])
    assert finding.code == "node_lock_stale" and "gshare-sessions/s-1" in finding.words
    young = {"hami.io/mutex.lock": f"{stamp(-299)},gshare-sessions,s-1"}
    assert codes(nodes=[a_node(cards=[a_card()], annotations=young)]) == []


def test_foreign_pods_whose_cards_nobody_knows() -> None:
    bypass = a_foreign_pod(requests={"nvidia.com/gpu": "1"})
    (finding,) = found(pods=[bypass])
    assert finding.code == "foreign_use_unknown" and "else/other" in finding.words


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("overwriteEnv: false", ["cards_visible"]),
        ("deviceMemoryScaling: 1.5", ["memory_scaled"]),
        ("deviceMemoryScaling: 1", []),
        ('"devicememoryscaling": 2,', ["memory_scaled"]),
        ('"migstrategy": "mixed",', ["mig_strategy"]),
        ("migStrategy: none", []),
    ],
)
def test_settings_of_hami_that_will_bite(setting: str, code: list[str]) -> None:
    assert codes(config_maps=[named("hami-device-plugin", data={"config.json": f"x\n  {setting}\n"})]) == code
    assert codes(config_maps=[named("others", data={"config.json": setting})]) == []


def test_without_the_monitor_nobody_is_idle() -> None:
    alone = workload("hami-device-plugin", "projecthami/hami:v2.10.0")
    assert codes(daemon_sets=[alone, named("cilium")]) == ["monitor_missing"]


def test_the_gravest_comes_first_and_everything_says_what_to_do() -> None:
    findings = found(nodes=[a_node(cards=[a_card(count=4)])], deployments=[], version={"gitVersion": "v1.99.0"})
    assert [finding.severity for finding in findings] == ["error", "warning", "note"]
    assert all(finding.words and finding.remedy and finding.where for finding in findings)


# --- books that disagree ---------------------------------------------------------------------------------------------


def test_books_that_agree_are_no_drift() -> None:
    ours = a_pod(spec(gpu=gpu()), annotations=allotted("GPU-1,NVIDIA,20389,25:;"))
    theirs = a_foreign_pod(annotations=allotted("GPU-1,NVIDIA,1000,1:;"))
    row = read_node(a_node(cards=[a_card()]), [ours, theirs]).row
    assert drifts([row]) == ()
    assert drifts([counting(row, 21389)], claimed_mib={"GPU-1": 20389}) == ()


def counting(row: NodeRow, mib: int) -> NodeRow:
    """The row of a node with one card, of which HAMi counts so much as given away."""
    return row.model_copy(update={"cards": (row.cards[0].model_copy(update={"counted_mib": mib}),)})


def test_what_a_card_in_mig_mode_gives_is_not_compared_with_tiers() -> None:
    row = read_node(a_node(cards=[a_card(mode="mig")]), []).row
    assert drifts([row], claimed_mib={"GPU-1": 10_194}) == ()


def test_an_allotment_that_hami_kept_after_its_pod_is_told_with_both_figures() -> None:
    row = read_node(a_node(cards=[a_card()]), []).row
    (drift,) = drifts([counting(row, 5000)], claimed_mib={"GPU-1": 0})
    assert drift.card == "GPU-1" and drift.node == "gpu-01"
    assert drift.words == "HAMi counts 5,000 MiB, but all pods are annotated with 0 MiB."


def test_claims_without_pods_and_pods_without_claims_are_told() -> None:
    row = read_node(a_node(cards=[a_card()]), []).row
    assert [drift.words for drift in drifts([row], claimed_mib={"GPU-1": 10})] == [
        "Open claims hold 10 MiB, but sessions' pods are annotated with 0 MiB."
    ]


def test_a_card_that_is_given_away_more_than_once_is_told() -> None:
    pods = [a_foreign_pod(f"p{n}", annotations=allotted("GPU-1,NVIDIA,50000,60:;")) for n in range(2)]
    row = read_node(a_node(cards=[a_card(count=1)]), pods).row
    assert [drift.words for drift in drifts([row])] == [
        "Pods hold 100,000 MiB of a card that has 81,559.",
        "Pods hold 120 % of the cores of a card that has 100.",
        "Pods hold 2 slots of a card that has 1.",
    ]


def test_a_cluster_without_the_metrics_api_never_pauses_anybody_as_idle() -> None:
    (finding,) = found(api_groups=[{"name": "apps"}])
    assert (finding.code, finding.severity) == ("metrics_missing", "warning")
    assert "metrics-server" in finding.remedy
