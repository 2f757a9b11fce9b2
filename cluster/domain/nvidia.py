"""What a cluster with NVIDIA's cards calls things: what pods ask for, the runtime that shows a card, the taint of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RESOURCE_COUNT = "nvidia.com/gpu"
RUNTIME_CLASS = "nvidia"
TOLERATION: Mapping[str, str] = MappingProxyType({"key": RESOURCE_COUNT, "operator": "Exists", "effect": "NoSchedule"})
