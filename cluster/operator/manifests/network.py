"""Who reaches a session and what it reaches: in, the ingress controller, and the operator that asks what is done there; out,
names and the internet.

Not the internet: private and link-local networks (nodes, services, other pods, metadata addresses) and whatever the cluster
closes, such as a public API server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import cache
from typing import Any

from cluster.operator.manifests.settings import PRIVATE_IPV4, PRIVATE_IPV6, ManifestSettings, NetworkSettings
from cluster.operator.manifests.stamps import Manifest, Owner, metadata
from gshare_core.contract import LABEL_SESSION, SessionSpec

_DNS_PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


def network_policy(spec: SessionSpec, owner: Owner, settings: ManifestSettings) -> Manifest:
    """The policy of every pod of the session."""
    network = settings.network
    ports = [{"protocol": "TCP", "port": app.port} for app in spec.apps]
    controller = _peer(network.controller_namespace, dict(network.controller_labels))
    operator = _peer(network.operator_namespace, dict(network.operator_labels))
    asked = [app.port for app in spec.apps if app.name == "lab"] + [settings.pods.activity_port]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(spec, owner, settings.namespace),
        "spec": {
            "podSelector": {"matchLabels": {LABEL_SESSION: str(spec.session_id)}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [controller], "ports": ports},
                {"from": [operator], "ports": [{"protocol": "TCP", "port": port} for port in asked]},
            ],
            "egress": _egress(network),
        },
    }


def _egress(network: NetworkSettings) -> list[Manifest]:
    dns = [_peer(network.dns_namespace, dict(network.dns_labels)), *_blocks(network.dns_networks)]
    internet = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_of_version(4, (*PRIVATE_IPV4, *network.closed)))}},
        {"ipBlock": {"cidr": "::/0", "except": list(_of_version(6, (*PRIVATE_IPV6, *network.closed)))}},
    ]
    rules: list[Manifest] = [{"to": dns, "ports": _DNS_PORTS}, {"to": internet}]
    if network.open:
        rules.append({"to": _blocks(network.open)})
    return rules


def _peer(namespace: str, labels: dict[str, str]) -> Manifest:
    pods: dict[str, Any] = {"podSelector": {"matchLabels": labels}} if labels else {}
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}, **pods}


def _blocks(networks: Iterable[str]) -> list[Manifest]:
    return [{"ipBlock": {"cidr": str(ipaddress.ip_network(network))}} for network in networks]


@cache  # the settings' own: the same for every session
def _of_version(version: int, networks: tuple[str, ...]) -> tuple[str, ...]:
    """The networks of one version, each once. Raises ValueError for what is no network."""
    parsed = dict.fromkeys(ipaddress.ip_network(network) for network in networks)
    return tuple(str(network) for network in parsed if network.version == version)
