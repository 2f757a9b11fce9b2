"""What a run's own part of its cards did, from what the monitors of its node say: HAMi's vGPUmonitor and DCGM's exporter.

Guarantees
* a monitor that is down, or says nothing of the card, is not idleness: `healthy` is false;
* no series of a pod while HAMi's monitor speaks of its card means that the pod never used CUDA (`present` false); HAMi's library
  runs in the pods that HAMi serves, which a borrower's is not;
* a MIG instance is judged by DCGM's figure of (card, instance); a whole card without series of its own, and a borrowed one, by
  DCGM's figure of the card; a share never, since that figure is its neighbours' too;
* figures are as they were said. What cannot be a time (an age below zero, or of many years) is none.
Names and labels: HAMi's since 2.9 and those before; `exported_pod` is what Prometheus makes of a pod's own label. HAMi's ratios
are percent, DCGM's are parts of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster.domain.hami import Instance
from cluster.operator.reading.exposition import Series
from gshare_core.contract import GpuSource, GpuUse

_HOST = (
    "hami_host_gpu_memory_used_bytes",
    "hami_host_gpu_utilization_ratio",
    "HostGPUMemoryUsage",
    "HostCoreUtilization",
)
_LAST_KERNEL = ("hami_container_last_kernel_elapsed_seconds", "Device_last_kernel_of_container")
_PERCENT = ("hami_container_device_utilization_ratio", "Device_utilization_desc_of_container")
_MEMORY = ("hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes")
_ENGINE, _USE, _FRAMEBUFFER = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"

HAMI_NAMES = frozenset((*_HOST, *_LAST_KERNEL, *_PERCENT, *_MEMORY))
DCGM_NAMES = frozenset((_ENGINE, _USE, _FRAMEBUFFER))

_POD = ("exported_pod", "pod", "podname")
_NAMESPACE = ("exported_namespace", "namespace", "podnamespace")
_CARD = ("device_uuid", "deviceuuid", "UUID")
_INSTANCE = "GPU_I_ID"
_AGE_MAX = 10 * 365 * 86_400.0
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Part:
    """What a run's pod has: cards by UUID, all of each (`is_whole`), borrowed, or MIG instances."""

    namespace: str
    pod: str
    cards: tuple[str, ...]
    is_whole: bool = False
    is_borrowed: bool = False
    is_mig: bool = False
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What a node's monitors said just now; None for one that did not answer."""

    hami: tuple[Series, ...] | None = None
    dcgm: tuple[Series, ...] | None = None


def gpu_use(part: Part, said: Said, now: datetime) -> GpuUse:
    """The sample. Several cards: the latest kernel and the greatest figures."""
    if part.is_mig:
        return _of_instances(part, said)
    if part.is_borrowed:
        return _of_cards(part, said)
    own = _of_pod(part, said, now)
    if part.is_whole and not (own.healthy and own.present):
        whole = _of_cards(part, said)
        return whole if whole.present else own
    return own


def _of_pod(part: Part, said: Said, now: datetime) -> GpuUse:
    spoken = said.hami or ()
    own = [
        series
        for series in spoken
        if _label(series, _POD) == part.pod
        and _label(series, _NAMESPACE) == part.namespace
        and series.name not in _HOST
    ]
    named = {_label(series, _CARD) for series in (*own, *(each for each in spoken if each.name in _HOST))}
    ages = [age for age in _figures(own, _LAST_KERNEL) if 0 <= age <= _AGE_MAX]
    used = [amount / _MIB for amount in _figures(own, _MEMORY)]
    return GpuUse(
        source=GpuSource.HAMI,
        healthy=bool(part.cards) and named.issuperset(part.cards),
        present=bool(own),
        last_kernel_at=now - timedelta(seconds=min(ages)) if ages else None,
        use_percent=max(_figures(own, _PERCENT), default=None),
        vram_mib=max(used, default=None),
    )


def _of_cards(part: Part, said: Said) -> GpuUse:
    of_each = [[series for series in said.dcgm or () if _label(series, _CARD) == card] for card in part.cards]
    percents = [_percent(series) for series in of_each]
    known = [percent for percent in percents if percent is not None]
    used = [figure for series in of_each for figure in _figures(series, (_FRAMEBUFFER,))]
    return GpuUse(
        source=GpuSource.DCGM,
        healthy=bool(of_each) and all(of_each),
        present=bool(known),
        # One card of several that says nothing leaves the whole unknown.
        use_percent=max(known) if known and len(known) == len(percents) else None,
        vram_mib=max(used, default=None),
    )


def _of_instances(part: Part, said: Said) -> GpuUse:
    engines = [series for series in said.dcgm or () if series.name == _ENGINE]
    figures = [
        next(
            (
                series.value * 100
                for series in engines
                if _label(series, _CARD) == instance.gpu_uuid
                and instance.gpu_instance
                and series.labels.get(_INSTANCE) == instance.gpu_instance
                and math.isfinite(series.value)
            ),
            None,
        )
        for instance in part.instances
    ]
    known = [figure for figure in figures if figure is not None]
    whole = bool(figures) and len(known) == len(figures)
    return GpuUse(
        source=GpuSource.MIG,
        healthy={_label(series, _CARD) for series in engines}.issuperset(part.cards) and bool(part.cards),
        present=whole,
        use_percent=max(known) if whole else None,
    )


def _percent(series: Iterable[Series]) -> float | None:
    """How busy a card was, by whichever figure its exporter has; the greater of both."""
    said = list(series)
    figures = [*_figures(said, (_USE,)), *(part * 100 for part in _figures(said, (_ENGINE,)))]
    return max(figures, default=None)


def _figures(series: Iterable[Series], names: tuple[str, ...]) -> list[float]:
    return [each.value for each in series if each.name in names and math.isfinite(each.value)]


def _label(series: Series, names: tuple[str, ...]) -> str:
    return next((series.labels[name] for name in names if series.labels.get(name)), "")
