"""What a local session's GPU did: from NVML where the cards are real, else as declared by whoever shows or tests.

Declared: JSON files in the folder `gpu` of the operator's state, read at each look. `s-<session's 32 hex digits>.json` is what
the session's own slice did, `<card uuid>.json` what a whole card did; the latter's figures count for a session that holds the
whole card only (a neighbour's use is not one's own), its `healthy` for every session on it. Keys, all optional:
`healthy` (true), `last_kernel_at` (RFC 3339), `use_percent`, `vram_mib`. No file: the monitor is well and CUDA was never used.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Protocol

from pydantic import AwareDatetime, BaseModel, ValidationError

from gshare_core.contract import GpuSource, GpuUse, SessionSpec, session_name

log = logging.getLogger(__name__)

FOLDER = "gpu"


class GpuMeter(Protocol):
    """Whoever knows what GPUs did."""

    def read(self, spec: SessionSpec, pids: Collection[int], now: datetime) -> GpuUse | None:
        """What the run's own slice did; None for a session without a card."""
        ...


class _Declared(BaseModel):
    healthy: bool = True
    last_kernel_at: AwareDatetime | None = None
    use_percent: float | None = None
    vram_mib: float | None = None


@dataclass(frozen=True, slots=True)
class DeclaredGpus:
    """Files in a folder; see the module."""

    folder: Path

    def read(self, spec: SessionSpec, pids: Collection[int], now: datetime) -> GpuUse | None:
        del pids, now
        if spec.gpu is None:
            return None
        own = self._file(session_name(spec.session_id))
        cards = [found for card in spec.gpu.cards if (found := self._file(card)) is not None]
        said = own or (_together(cards) if spec.gpu.mode == "exclusive" else None)
        healthy = all(found.healthy for found in (*cards, *((own,) if own else ())))
        figures = said.model_dump(exclude={"healthy"}) if said else {}
        present = any(value is not None for value in figures.values())
        return GpuUse(source=GpuSource.DECLARED, healthy=healthy, present=present, **figures)

    def _file(self, name: str) -> _Declared | None:
        path = self.folder / f"{name}.json"
        try:
            return _Declared.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            log.warning("%s cannot be read: it counts as a monitor that is down", path)
            return _Declared(healthy=False)


def _together(cards: Iterable[_Declared]) -> _Declared | None:
    """Several whole cards of one session: the busiest figures."""
    known = list(cards)
    if not known:
        return None
    return _Declared(
        last_kernel_at=max((one.last_kernel_at for one in known if one.last_kernel_at), default=None),
        use_percent=max((one.use_percent for one in known if one.use_percent is not None), default=None),
        vram_mib=max((one.vram_mib for one in known if one.vram_mib is not None), default=None),
    )


@dataclass(slots=True)
class NvmlGpus:
    """NVML's figures of the run's own processes on its cards; `nvml` is the module pynvml."""

    nvml: ModuleType
    _since_us: dict[str, int] = field(default_factory=dict)

    def read(self, spec: SessionSpec, pids: Collection[int], now: datetime) -> GpuUse | None:
        if spec.gpu is None:
            return None
        try:
            found = [self._card(spec, card, pids, now) for card in spec.gpu.cards]
        except self.nvml.NVMLError as error:
            log.warning("NVML: %s", error)
            return GpuUse(source=GpuSource.NVML, healthy=False)
        listed = [figures for figures in found if figures is not None]
        percents = [percent for percent, _vram in listed if percent is not None]
        # One card of several that says nothing leaves the whole unknown.
        known = len(percents) == len(listed)
        return GpuUse(
            source=GpuSource.NVML,
            healthy=True,
            present=bool(listed),
            use_percent=max(percents) if listed and known else None,
            vram_mib=max((vram for _percent, vram in listed if vram is not None), default=None),
        )

    def _card(
        self, spec: SessionSpec, card: str, pids: Collection[int], now: datetime
    ) -> tuple[float | None, float | None] | None:
        """Own use in percent and memory in MiB since the last look; None when no own process is on the card."""
        handle = self.nvml.nvmlDeviceGetHandleByUUID(card)
        running = [one for one in self.nvml.nvmlDeviceGetComputeRunningProcesses(handle) if one.pid in pids]
        key = f"{spec.session_id}/{spec.run}/{card}"
        since, self._since_us[key] = self._since_us.get(key, 0), int(now.timestamp() * 1_000_000)
        try:
            samples = self.nvml.nvmlDeviceGetProcessUtilization(handle, since)
        except self.nvml.NVMLError as error:
            if error.value == self.nvml.NVML_ERROR_NOT_FOUND:  # nothing ran in that time
                samples = []
            elif error.value == self.nvml.NVML_ERROR_NOT_SUPPORTED:
                return (None, _vram(running)) if running else None
            else:
                raise
        own = [float(sample.smUtil) for sample in samples if sample.pid in pids]
        return (max(own, default=0.0), _vram(running)) if running or own else None


def _vram(processes: Iterable[object]) -> float | None:
    used = [getattr(one, "usedGpuMemory", None) for one in processes]
    known = [amount / 1024**2 for amount in used if amount is not None]
    return sum(known) if known else None
