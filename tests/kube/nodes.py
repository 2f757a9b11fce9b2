"""Stand-in nodes: objects as a kubelet and HAMi's device plugin leave them, without a machine behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.kube.rest import JSON, Rest

A100 = "NVIDIA A100-SXM4-80GB"
REGISTER = "hami.io/node-nvidia-register"
NODES = "/api/v1/nodes"


def a_card(uuid: str, **fields: Any) -> JSON:
    """A card as HAMi 2.8 and later registers it. Absent `index` means 0, absent `health` means broken."""
    known = {
        "id": uuid,
        "count": 16,
        "devmem": 81920,
        "devcore": 100,
        "type": A100,
        "mode": "hami-core",
        "health": True,
    }
    return known | fields


def a_node(name: str, cards: Sequence[JSON] = (), *, cpu: str = "64", memory: str = "512Gi", disk: str = "2Ti") -> JSON:
    """A node object; its status still has to be written, as `add_node` does."""
    slots = sum(card["count"] for card in cards)
    room = {"cpu": cpu, "memory": memory, "ephemeral-storage": disk, "pods": "250"}
    room |= {"nvidia.com/gpu": str(slots)} if slots else {}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name} | ({"gpu": "on"} if cards else {}),
            "annotations": {REGISTER: json.dumps(list(cards))} if cards else {},
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [ready_condition("True")],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {
                "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "6.1", "osImage": "stand-in",
                "containerRuntimeVersion": "none://0", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    }  # fmt: skip


def ready_condition(status: str, reason: str = "KubeletReady", since: datetime | None = None) -> JSON:
    """The node's Ready condition; "Unknown" is what a silent node has."""
    at = moment(since or datetime.now(UTC))
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "",
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }


def add_node(rest: Rest, node: JSON, *, kubelet_port: int = 10250) -> None:
    """Make the node and write its status, whoever writes to it meanwhile (a scheduler's handshake does)."""
    rest.create(NODES, {key: value for key, value in node.items() if key != "status"})
    status = node["status"] | {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}}}
    rest.patch(f"{NODES}/{node['metadata']['name']}/status", {"status": status})


def moment(at: datetime) -> str:
    """As Kubernetes writes times."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(at: datetime) -> str:
    """As leases write times."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
