"""Builders of Kubernetes objects as an API server lists them: nodes, pods of sessions and foreign ones, container states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from cluster.operator.manifests import ManifestSettings, Owner, manifests_of
from gshare_core.contract import SessionSpec, session_name
from tests.unit.operator.build import NOW

JSON = dict[str, Any]


def stamp(seconds: float = 0) -> str:
    """A moment later than NOW, as Kubernetes writes it."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_card(uuid: str = "GPU-1", **fields: Any) -> JSON:
    """A card as HAMi 2.10 registers it; None leaves a field out."""
    known = {
        "id": uuid,
        "count": 16,
        "devmem": 81559,
        "devcore": 100,
        "type": "NVIDIA H100 80GB HBM3",
        "mode": "hami-core",
        "health": True,
    }
    return {key: value for key, value in (known | fields).items() if value is not None}


def a_node(name: str = "gpu-01", cards: Sequence[JSON] | str | None = (), **fields: Any) -> JSON:
    """A Ready node; `cards` may be the register's text, or None for a node that has none."""
    register = cards if isinstance(cards, str) or cards is None else json.dumps(list(cards))
    slots = 16 if isinstance(cards, str) else sum(card.get("count", 0) for card in cards or ())
    allocatable = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "2Ti", "pods": "250"}
    allocatable |= {"nvidia.com/gpu": str(slots)} if slots else {}
    annotations = {} if register is None else {"hami.io/node-nvidia-register": register}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **fields.get("labels", {})},
            "annotations": {**annotations, **fields.get("annotations", {})},
        },
        "spec": fields.get("spec", {}),
        "status": {
            "allocatable": allocatable | fields.get("allocatable", {}),
            "conditions": [ready(fields.get("ready", "True"))],
        },
    }


def ready(status: str, *, beat: float = 0) -> JSON:
    """A node's Ready condition and its last heartbeat."""
    return {"type": "Ready", "status": status, "lastHeartbeatTime": stamp(beat), "message": "kubelet stopped posting"}


def allotted(devices: str, node: str = "gpu-01", **more: str) -> dict[str, str]:
    """What HAMi writes on a pod."""
    return {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": devices, **more}


def a_foreign_pod(name: str = "other", node: str = "gpu-01", **fields: Any) -> JSON:
    """Somebody else's pod."""
    requests = fields.get("requests", {})
    return {
        "metadata": {"name": name, "namespace": "else", "annotations": fields.get("annotations", {})},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            **fields.get("spec", {}),
        },
        "status": {"phase": fields.get("phase", "Running")},
    }


def a_pod(
    document: SessionSpec,
    container: Mapping[str, Any] | None = None,
    *,
    bound: bool = True,
    annotations: Mapping[str, str] | None = None,
    **status: Any,
) -> JSON:
    """The pod made of a document, created at NOW, with what scheduler, HAMi and kubelet say of it."""
    pod = manifests_of(document, Owner(session_name(document.session_id), "u"), "t", ManifestSettings()).pod
    pod["metadata"] |= {"uid": "p", "creationTimestamp": stamp()}
    pod["metadata"]["annotations"] |= dict(annotations or {})
    if bound:
        pod["spec"]["nodeName"] = document.pinned_node or "gpu-01"
    statuses = [] if container is None else [{"name": "session", "restartCount": 0, **container}]
    pod["status"] = {"phase": "Pending", "startTime": stamp(), "containerStatuses": statuses, **status}
    return pod


def running(**fields: Any) -> JSON:
    """A container that runs."""
    return {"state": {"running": {"startedAt": stamp()}}, "ready": True, **fields}


def waiting(reason: str, message: str = "", **fields: Any) -> JSON:
    """A container that waits."""
    return {"state": {"waiting": {"reason": reason, "message": message}}, "ready": False, **fields}


def ended(code: int, at: float = 0, message: str = "", reason: str = "") -> JSON:
    """A container's end."""
    why = reason or ("Completed" if code == 0 else "Error")
    return {"terminated": {"exitCode": code, "reason": why, "message": message, "finishedAt": stamp(at)}}


def is_condition(kind: str, status: str, reason: str = "", message: str = "", at: float = 0) -> JSON:
    """A condition of a pod."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(at),
    }


READY = is_condition("Ready", "True")


def an_event(reason: str, message: str = "") -> JSON:
    """An event about a pod."""
    return {"reason": reason, "message": message}


def at(seconds: float) -> datetime:
    """A moment later than NOW."""
    return NOW + timedelta(seconds=seconds)
