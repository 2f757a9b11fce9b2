"""The pre-flight test's questions to Kubernetes itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cluster.domain.kube import Object, annotation, condition, label, name, part, rows, text
from cluster.domain.preflight.findings import Expected, Facts, Finding
from gshare_core.contract import API_GROUP, NAMESPACE_SESSIONS, PLURAL_MODE_CHANGES, PLURAL_SESSIONS

# The rules of our custom resources name fields and reasons, which Kubernetes knows from here on.
OLDEST, NEWEST_TRIED = (1, 29), (1, 36)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_METRICS = "metrics.k8s.io"
_ENFORCED = "pod-security.kubernetes.io/enforce"
_ENFORCERS = re.compile(r"calico|canal|cilium|antrea|weave|kube-router|ovn", re.IGNORECASE)
_NETWORKS = re.compile(r"flannel|kindnet|aws-node", re.IGNORECASE)


def version(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether this Kubernetes can be worked with."""
    said = facts.version or {}
    digits = re.match(r"v?(\d+)\.(\d+)", text(said, "gitVersion")) or re.match(
        r"(\d+)\.(\d+)", f"{text(said, 'major')}.{text(said, 'minor')}"
    )
    if facts.version is not None and digits is None:
        yield Finding("warning", "version_unknown", "cluster", "Its version cannot be read.", "Check it by hand.")
    if digits is None:
        return
    found = (int(digits[1]), int(digits[2]))
    spelled = ".".join(map(str, found))
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield Finding(
            "error",
            "version_too_old",
            "cluster",
            f"Kubernetes {spelled} does not know the rules of GShare's custom resources.",
            f"Upgrade to {oldest} or newer.",
        )
    elif found > NEWEST_TRIED:
        yield Finding(
            "note",
            "version_untried",
            "cluster",
            f"Kubernetes {spelled} is newer than what GShare was tried with.",
            "Try a session of each kind before people come.",
        )


def custom_resources(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether the custom resources are there and served."""
    if facts.custom_resources is None:
        return
    known = {name(each): each for each in facts.custom_resources}
    for plural in (PLURAL_SESSIONS, PLURAL_MODE_CHANGES):
        full = f"{plural}.{API_GROUP}"
        served = full in known and condition(known[full], "Established").get("status") == "True"
        if not served:
            lacks = "is not there" if full not in known else "is not served"
            yield Finding(
                "error", "custom_resource_missing", full, f"The custom resource {full} {lacks}.", "Install the chart."
            )


def namespaces(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether the namespaces are there, and sessions' own refuses what is worse than baseline."""
    if facts.namespaces is None:
        return
    known = {name(each): each for each in facts.namespaces}
    for wanted in expected.namespaces:
        if wanted not in known:
            yield Finding(
                "error", "namespace_missing", wanted, f"The namespace {wanted} is not there.", "Install the chart."
            )
    sessions = known.get(NAMESPACE_SESSIONS)
    enforced = label(sessions, _ENFORCED) if sessions is not None else "baseline"
    if enforced not in ("baseline", "restricted"):
        yield Finding(
            "error",
            "pod_security_missing",
            NAMESPACE_SESSIONS,
            "The sessions' namespace lets any pod in: Pod Security is not enforced.",
            f"Label it {_ENFORCED}=baseline.",
        )


def storage(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether every class that volumes are mapped to is there, and can grow."""
    if facts.storage_classes is None:
        return
    known = {name(each): each for each in facts.storage_classes}
    defaults = [each for each in facts.storage_classes if annotation(each, _DEFAULT_CLASS) == "true"]
    for wanted in sorted(expected.storage_classes):
        found = known.get(wanted) if wanted else next(iter(defaults), None)
        if found is None:
            what = f"storage class {wanted}" if wanted else "default storage class"
            yield Finding(
                "error",
                "storage_class_missing",
                wanted or "default",
                f"There is no {what}: volumes of this kind stay pending, and so do their sessions.",
                "Install a provisioner, or map the kind of volume to another class.",
            )
        elif found.get("allowVolumeExpansion") is not True:
            yield Finding(
                "warning",
                "storage_cannot_grow",
                name(found),
                f"Volumes of storage class {name(found)} cannot grow.",
                "Set allowVolumeExpansion, where the provisioner can.",
            )


def ingress(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether somebody serves the ingresses of sessions."""
    if facts.ingress_classes is None or expected.ingress_class in {name(each) for each in facts.ingress_classes}:
        return
    there = ", ".join(sorted(name(each) for each in facts.ingress_classes)) or "none"
    yield Finding(
        "error",
        "ingress_class_missing",
        expected.ingress_class,
        f"There is no ingress class {expected.ingress_class} (there is: {there}): nobody could open a session.",
        "Install the controller, or name another class in the chart's values.",
    )


def runtime(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether borrowers' pods can be given a card past HAMi, where cards are lent."""
    wanted = expected.runtime_class
    if not expected.lends or facts.runtime_classes is None:
        return
    if wanted not in {name(each) for each in facts.runtime_classes}:
        yield Finding(
            "error",
            "runtime_class_missing",
            wanted,
            f"There is no runtime class {wanted}: cards of parked sessions cannot be lent.",
            "Install it with NVIDIA's container toolkit, or switch lending off.",
        )


def network(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether network policies have an effect; nobody but the network itself knows, so this goes by names."""
    if facts.daemon_sets is None:
        return
    names = [name(each) for each in facts.daemon_sets]
    if any(_ENFORCERS.search(each) for each in names):
        return
    plain = next((each for each in names if _NETWORKS.search(each)), None)
    if plain is None:
        yield Finding(
            "note",
            "network_unknown",
            "cluster",
            "It cannot be told whether this network enforces network policies.",
            "Try it: a session must not reach another session's address.",
        )
    else:
        yield Finding(
            "warning",
            "network_open",
            plain,
            f"The network {plain} may not enforce network policies: sessions would reach each other and the API server.",
            "Use a network that enforces them (Calico, Cilium, …), or switch the enforcement on.",
        )


def nodes(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether nodes can be named by their label, speak, and take our pods."""
    if facts.nodes is None:
        return
    if not facts.nodes:
        yield Finding("error", "no_nodes", "cluster", "The cluster has no node.", "Let one join.")
    for node in facts.nodes:
        yield from _node(node, expected)


def _node(node: Object, expected: Expected) -> Iterator[Finding]:
    own, hostname = name(node), label(node, "kubernetes.io/hostname")
    if hostname != own:
        yield Finding(
            "error",
            "hostname_label",
            own,
            f"The label kubernetes.io/hostname of node {own} is {hostname or 'missing'}: sessions are led to nodes by it.",
            f"Label the node kubernetes.io/hostname={own}.",
        )
    if condition(node, "Ready").get("status") != "True":
        words = text(condition(node, "Ready"), "message") or "it does not say why"
        yield Finding("warning", "node_not_ready", own, f"Node {own} is not ready: {words}.", "Look at its kubelet.")
    if part(node, "spec").get("unschedulable") is True:
        yield Finding("note", "node_cordoned", own, f"Node {own} is cordoned.", f"kubectl uncordon {own}")
    for taint in rows(node, "spec", "taints"):
        if taint.get("effect") != "PreferNoSchedule" and not any(
            _tolerates(each, taint) for each in expected.tolerations
        ):
            spelled = f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
            yield Finding(
                "warning",
                "taint_not_tolerated",
                own,
                f"Node {own} has the taint {spelled}, which sessions do not tolerate.",
                "Remove the taint, or add a toleration to the chart's values.",
            )


def _tolerates(toleration: Mapping[str, str], taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    same = toleration["key"] == taint.get("key")
    return same and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))


def metrics(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether somebody measures what sessions use of the processor: without it none of them is ever idle."""
    if facts.api_groups is None or any(text(each, "name") == _METRICS for each in facts.api_groups):
        return
    yield Finding(
        "warning",
        "metrics_missing",
        _METRICS,
        "The metrics API is not served: what sessions use of the processor is unknown, and nobody counts as idle.",
        "Install metrics-server.",
    )


CHECKS = (version, custom_resources, namespaces, storage, ingress, runtime, network, nodes, metrics)
