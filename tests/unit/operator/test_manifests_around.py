"""What is around a session's pod: secret, service, ingresses, network policy, claims, and when they are applied again."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from cluster.operator.manifests import (
    IngressSettings,
    Manifest,
    NetworkSettings,
    applied_mark,
    as_it_was_born,
    needs_apply,
    pod_name,
)
from gshare_core.contract import (
    App,
    Mount,
)
from tests.unit.operator.build import SESSION, gpu, spec
from tests.unit.operator.objects import NAME, SETTINGS, made, of_kind, pod_of

# --- what is around it -----------------------------------------------------------------------------------------------


def test_everything_but_claims_belongs_to_the_resource_and_is_labelled() -> None:
    mounts = (Mount(claim="vol-a", mount_path="/data", size_gib=5),)
    group, organisation = UUID(int=1), UUID(int=2)
    everything = made(spec(run=3, generation=7, gpu=gpu(), volumes=mounts, group=group, organisation=organisation))
    reference = {
        "apiVersion": "gshare.io/v1",
        "kind": "GShareSession",
        "name": NAME,
        "uid": "uid-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for manifest in (*everything.around, *everything.ways, everything.pod):
        head = manifest["metadata"]
        assert head["ownerReferences"] == [reference] and head["namespace"] == "gshare-sessions"
        assert head["labels"]["gshare.io/session"] == str(SESSION) and head["labels"]["gshare.io/run"] == "3"
        assert head["labels"]["gshare.io/group"] == str(group)
        assert head["labels"]["gshare.io/organisation"] == str(organisation)
        assert head["annotations"]["gshare.io/generation"] == "7"
    for manifest in everything.lasting:
        assert "ownerReferences" not in manifest["metadata"]
        assert "gshare.io/session" not in manifest["metadata"]["labels"]


def test_who_is_not_named_is_no_label() -> None:
    assert "gshare.io/group" not in pod_of(spec())["metadata"]["labels"]


def test_each_run_has_a_pod_of_its_own_name_and_the_service_leads_to_it_alone() -> None:
    assert pod_name(spec(run=1)) != pod_name(spec(run=2))
    (service,) = of_kind(spec(run=2), "Service")
    assert service["spec"]["selector"] == {"gshare.io/session": str(SESSION), "gshare.io/run": "2"}
    labels = pod_of(spec(run=2))["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_apps_stand_behind_auth_and_the_way_in_does_not() -> None:
    apps = (App(name="lab", port=8888), App(name="terminal", port=7681), App(name="code", port=8080))
    plain, cut, edge = of_kind(spec(apps=apps), "Ingress")
    prefix = "nginx.ingress.kubernetes.io"
    for ingress in (plain, cut):
        annotations = ingress["metadata"]["annotations"]
        assert annotations[f"{prefix}/auth-url"] == "http://control:8001/internal/v1/access/verify"
        assert annotations[f"{prefix}/auth-response-headers"] == "Authorization"
        assert annotations[f"{prefix}/auth-always-set-cookie"] == "true"
    assert not any("auth" in key for key in edge["metadata"]["annotations"])
    assert paths_of(plain) == [("/lab/", NAME, 8888), ("/terminal/", NAME, 7681)]
    assert paths_of(cut) == [("/code/(.*)", NAME, 8080)]
    assert cut["metadata"]["annotations"][f"{prefix}/rewrite-target"] == "/$1"
    assert paths_of(edge) == [("/.gshare/", "gshare-edge", 80)]
    names = [ingress["metadata"]["name"] for ingress in (plain, cut, edge)]
    assert len(set(names)) == 3


def paths_of(ingress: Manifest) -> list[tuple[str, str, int]]:
    (rule,) = ingress["spec"]["rules"]
    assert rule["host"] == f"{SESSION}.example"
    return [
        (path["path"], path["backend"]["service"]["name"], path["backend"]["service"]["port"]["number"])
        for path in rule["http"]["paths"]
    ]


def test_an_ingress_without_paths_is_not_made() -> None:
    assert len(of_kind(spec(apps=(App(name="lab", port=8888),)), "Ingress")) == 2
    assert len(of_kind(spec(apps=(App(name="code", port=8080),)), "Ingress")) == 2


def test_tls_ends_at_the_controller_only_where_a_secret_is_named() -> None:
    settings = replace(SETTINGS, ingress=IngressSettings(tls_secret="wildcard", class_name="haproxy"))
    for ingress in of_kind(spec(), "Ingress", settings):
        assert ingress["spec"]["tls"] == [{"hosts": [f"{SESSION}.example"], "secretName": "wildcard"}]
        assert ingress["spec"]["ingressClassName"] == "haproxy"
    assert all("tls" not in ingress["spec"] for ingress in of_kind(spec(), "Ingress"))


def test_only_the_controller_reaches_the_apps_and_the_operator_what_tells_of_their_use() -> None:
    network = NetworkSettings(controller_namespace="edge", controller_labels={"app": "nginx"})
    apps = (App(name="lab", port=8888), App(name="terminal", port=7681))
    (policy,) = of_kind(spec(apps=apps), "NetworkPolicy", replace(SETTINGS, network=network))
    assert policy["spec"]["podSelector"] == {"matchLabels": {"gshare.io/session": str(SESSION)}}
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == [
        {
            "from": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "edge"}},
                    "podSelector": {"matchLabels": {"app": "nginx"}},
                }
            ],
            "ports": [{"protocol": "TCP", "port": 8888}, {"protocol": "TCP", "port": 7681}],
        },
        {
            "from": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gshare-system"}},
                    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "gshare-operator"}},
                }
            ],
            "ports": [{"protocol": "TCP", "port": 8888}, {"protocol": "TCP", "port": 8790}],
        },
    ]


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("10.1.2.3", False),
        ("172.20.0.1", False),
        ("192.168.1.1", False),
        ("100.100.0.1", False),
        ("169.254.169.254", False),
        ("127.0.0.1", False),
        ("203.0.113.7", False),
        ("8.8.8.8", True),
        ("fd00::1", False),
        ("fe80::1", False),
        ("2001:db8:ffff::1", False),
        ("2606:4700::1111", True),
    ],
)
def test_sessions_reach_the_internet_and_nothing_that_is_private_or_closed(address: str, reached: bool) -> None:
    network = NetworkSettings(closed=("203.0.113.7/32", "2001:db8:ffff::/48"))
    (policy,) = of_kind(spec(), "NetworkPolicy", replace(SETTINGS, network=network))
    wanted = ipaddress.ip_address(address)
    blocks = [peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]
    assert any(is_in(wanted, block) for block in blocks) is reached


def is_in(address: Any, block: dict[str, Any]) -> bool:
    return address in ipaddress.ip_network(block["cidr"]) and not any(
        address in ipaddress.ip_network(each) for each in block["except"]
    )


def test_names_are_asked_at_the_clusters_own_servers_and_open_networks_are_reached() -> None:
    network = NetworkSettings(dns_networks=("169.254.20.10/32",), open=("10.9.0.0/16",))
    (policy,) = of_kind(spec(), "NetworkPolicy", replace(SETTINGS, network=network))
    dns, _, mirror = policy["spec"]["egress"]
    assert dns["ports"] == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    assert dns["to"][0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert dns["to"][1] == {"ipBlock": {"cidr": "169.254.20.10/32"}}
    assert mirror["to"] == [{"ipBlock": {"cidr": "10.9.0.0/16"}}]


def test_a_claim_is_made_once_in_its_class_and_never_shrinks() -> None:
    mounts = (
        Mount(claim="vol-a", mount_path="/a", size_gib=5, storage_class="nfs", access_mode="ReadWriteMany"),
        Mount(claim="vol-a", mount_path="/b", size_gib=8, storage_class="nfs", access_mode="ReadWriteMany"),
        Mount(claim="vol-b", mount_path="/c", size_gib=2048),
    )
    first, second = made(spec(volumes=mounts), claim_gib={"vol-b": 4096}).lasting
    assert first["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "8Gi"}},
        "storageClassName": "nfs",
    }
    assert "storageClassName" not in second["spec"]
    assert second["spec"]["resources"]["requests"]["storage"] == "4Ti"


# --- comparison ------------------------------------------------------------------------------------------------------


def test_what_is_missing_or_was_changed_by_hand_is_applied_again() -> None:
    (service,) = of_kind(spec(), "Service")
    assert needs_apply(service, None)
    seen = json.loads(json.dumps(service))
    seen["spec"] |= {"clusterIP": "10.96.0.7", "sessionAffinity": "None"}
    seen["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": []}
    seen["metadata"]["annotations"]["somebody"] = "else"
    assert not needs_apply(service, seen)
    seen["spec"]["selector"]["gshare.io/run"] = "9"
    assert needs_apply(service, seen)


def test_a_service_has_no_address_and_one_that_was_born_with_one_keeps_it() -> None:
    (service,) = of_kind(spec(), "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert as_it_was_born(service, None) == service
    seen = {"spec": {"clusterIP": "10.96.0.7"}}
    assert as_it_was_born(service, seen)["spec"] == {**service["spec"], "clusterIP": "10.96.0.7"}
    (policy,) = of_kind(spec(), "NetworkPolicy")
    assert as_it_was_born(policy, seen) == policy


def test_a_list_that_grew_by_hand_is_a_difference() -> None:
    (policy,) = of_kind(spec(), "NetworkPolicy")
    seen = json.loads(json.dumps(policy))
    seen["spec"]["egress"].append({})
    assert needs_apply(policy, seen)


def test_what_is_empty_is_not_missed() -> None:
    (claim,) = made(spec(volumes=(Mount(claim="vol-a", mount_path="/a", size_gib=1),))).lasting
    seen = json.loads(json.dumps(claim))
    del seen["metadata"]["annotations"]
    assert not needs_apply(claim, seen)
    del seen["metadata"]["labels"]
    assert needs_apply(claim, seen)


def _beside_the_pod(document) -> list:
    everything = made(document)
    return [*everything.around, *everything.ways]


def test_a_newer_document_that_changes_nothing_writes_nothing() -> None:
    older, newer = (_beside_the_pod(spec(generation=generation)) for generation in (1, 2))
    assert not any(needs_apply(wanted, seen) for wanted, seen in zip(newer, older, strict=True))
    of_next_run = _beside_the_pod(spec(run=2))
    assert all(needs_apply(wanted, seen) for wanted, seen in zip(of_next_run, older, strict=True))


def test_quantities_are_compared_by_their_value() -> None:
    (claim,) = made(spec(volumes=(Mount(claim="vol-a", mount_path="/a", size_gib=1),))).lasting
    seen = json.loads(json.dumps(claim))
    seen["spec"]["resources"]["requests"]["storage"] = "1024Mi"
    assert not needs_apply(claim, seen)
    seen["spec"]["resources"]["requests"]["storage"] = "1G"
    assert needs_apply(claim, seen)


def test_what_was_created_by_us_is_marked_as_applied_once_and_what_others_manage_is_left() -> None:
    created = {"manager": "gshare-operator", "operation": "Update", "fieldsV1": {"f:spec": {}}}
    theirs = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {}}}
    seen = {"metadata": {"resourceVersion": "7", "managedFields": [theirs, created]}}
    applied = {**created, "operation": "Apply"}
    assert applied_mark(seen) == {"metadata": {"resourceVersion": "7", "managedFields": [theirs, applied]}}
    assert applied_mark({"metadata": {"resourceVersion": "8", "managedFields": [theirs, applied]}}) is None
    assert applied_mark({"metadata": {"resourceVersion": "9", "managedFields": [theirs]}}) is None
    assert applied_mark(None) is None
