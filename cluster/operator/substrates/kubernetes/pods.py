"""What the substrate asks of a pod's object beside what `reading` says of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def node_of(item: Mapping[str, Any]) -> str:
    """The node that a pod is on, or is meant for."""
    spec = item.get("spec") or {}
    return str(spec.get("nodeName") or (spec.get("nodeSelector") or {}).get("kubernetes.io/hostname") or "")


def is_bound(item: Mapping[str, Any]) -> bool:
    """Whether the pod no longer keeps its node's lock: it has its cards, or is over."""
    status = item.get("status") or {}
    over = status.get("phase") in {"Succeeded", "Failed"} or item["metadata"].get("deletionTimestamp")
    return bool(over) or bool((item.get("spec") or {}).get("nodeName") and status.get("containerStatuses"))
