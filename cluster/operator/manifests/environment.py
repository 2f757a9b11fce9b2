"""The environment of a session's container.

Refuses every variable that switches HAMi's limits off, loosens them or names devices, and those that are GShare's own: what
a cluster adds may not change what a session may use. (A program can still set them for its children; the limits that cannot
be left are those of MIG instances and whole cards.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cluster.operator.manifests.gpu import Unbuildable
from cluster.operator.manifests.settings import PodSettings
from gshare_core.contract import SessionSpec

TOKEN_KEY = "token"  # noqa: S105 (the key of the secret, not the secret)

_RESERVED = re.compile(
    r"CUDA_DISABLE_CONTROL|CUDA_DEVICE_MEMORY_.*|CUDA_DEVICE_SM_LIMIT.*|CUDA_OVERSUBSCRIBE|CUDA_TASK_PRIORITY|CUDA_VISIBLE_DEVICES"
    r"|GPU_CORE_UTILIZATION_POLICY|ACTIVE_OOM_KILLER|LIBCUDA_LOG_LEVEL|NVIDIA_VISIBLE_DEVICES|NVIDIA_REQUIRE_.*"
    r"|LD_PRELOAD|LD_AUDIT|LD_LIBRARY_PATH|JUPYTER_TOKEN|GSHARE_.*|HOME",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def refuse_reserved(variables: Mapping[str, str]) -> None:
    """Raises `Unbuildable`, naming the variable, for one that a cluster must not set."""
    for name in variables:
        if not _NAME.fullmatch(name):
            raise Unbuildable(f"{name!r} is no variable's name")
        if _RESERVED.fullmatch(name):
            raise Unbuildable(f"the variable {name} is reserved: it decides what a session may use")


def environment(spec: SessionSpec, pods: PodSettings, own: Mapping[str, str]) -> list[dict[str, Any]]:
    """The list of the container; `own` are the variables of its cards. The token comes from the secret."""
    refuse_reserved(pods.environment)
    plain = {
        **pods.environment,
        "HOME": pods.home,
        "MEM_LIMIT": str(spec.resources.memory_mib * 1024 * 1024),
        "CPU_LIMIT": f"{spec.resources.cpu_milli // 1000}.{spec.resources.cpu_milli % 1000:03d}",
        "GSHARE_SESSION": str(spec.session_id),
        "GSHARE_RUN": str(spec.run),
        "GSHARE_MEMORY_MIB": str(spec.resources.memory_mib),
        "GSHARE_CPU_MILLI": str(spec.resources.cpu_milli),
        "GSHARE_APPS": ",".join(app.name for app in spec.apps),
        **{f"GSHARE_PORT_{app.name.upper()}": str(app.port) for app in spec.apps},
        "GSHARE_PORT_ACTIVITY": str(pods.activity_port),
        **own,
    }
    if spec.gpu is not None:
        plain |= {
            "GSHARE_CARDS": ",".join(spec.gpu.cards),
            "GSHARE_VRAM_MIB": str(spec.gpu.vram_mib),
            "GSHARE_CORE_PERCENT": str(spec.gpu.core_percent),
        }
    secret = {"secretKeyRef": {"name": spec.access.token_secret, "key": TOKEN_KEY}}
    return [
        *({"name": name, "value": value} for name, value in plain.items()),
        *({"name": name, "valueFrom": secret} for name in ("JUPYTER_TOKEN", "GSHARE_TOKEN")),
    ]
