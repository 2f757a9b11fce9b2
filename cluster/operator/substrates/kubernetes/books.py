"""What HAMi's scheduler counts as given away of each card, by its own metrics: to be compared, never to be acted upon.

Guarantees: the scheduler that leads is asked, or the only one there is; who does not answer, or counts nonsense, has said
nothing. Pods of sessions are never asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from cluster.domain.kube import Object, has_ended, label, rows, text
from cluster.operator.reading.exposition import read_exposition
from cluster.operator.substrates.kubernetes.asking import asker

PORT = 9395
_CONTAINER, _COMPONENT = "vgpu-scheduler-extender", "hami-scheduler"
_ROLE = "hami.io/scheduler-role"
# The second was the name until HAMi 2.8, with its own spelling of the label.
_COUNTED = {"hami_gpu_memory_allocated_bytes": "device_uuid", "GPUDeviceMemoryAllocated": "deviceuuid"}
_MIB, _MOST_MIB, _BYTES = 2**20, 2**20, 8 << 20


async def counted_by_hami(pods: Iterable[Object], *, closed: str) -> Mapping[str, int]:
    """MiB given away by card; empty when nobody says. `closed` is the namespace whose pods are no schedulers."""
    address = _address(pods, closed)
    if address is None:
        return {}
    async with asker() as asks:
        answer = await asks.ask(address, PORT, "/metrics", most_bytes=_BYTES)
    return {} if answer is None else read_counted(answer.decode(errors="replace"))


def read_counted(exposition: str) -> Mapping[str, int]:
    """MiB by card from the metrics' text; the newer name wins, a figure that no card has is left out."""
    found: dict[str, int] = {}
    for series in sorted(read_exposition(exposition, _COUNTED), key=lambda one: one.name == next(iter(_COUNTED))):
        uuid = series.labels.get(_COUNTED[series.name])
        if uuid and math.isfinite(series.value) and 0 <= series.value <= _MOST_MIB * _MIB:
            found[uuid] = int(series.value // _MIB)
    return found


def _address(pods: Iterable[Object], closed: str) -> str | None:
    schedulers = [pod for pod in pods if _is_scheduler(pod) and text(pod, "metadata", "namespace") != closed]
    leading = [pod for pod in schedulers if label(pod, _ROLE) == "leader"]
    chosen = leading or schedulers
    return text(chosen[0], "status", "podIP") if len(chosen) == 1 else None


def _is_scheduler(pod: Object) -> bool:
    if has_ended(pod) or not text(pod, "status", "podIP"):
        return False
    named = any(text(one, "name") == _CONTAINER for one in rows(pod, "spec", "containers"))
    return named or label(pod, "app.kubernetes.io/component") == _COMPONENT
