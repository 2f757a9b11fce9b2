"""How a pod asks for its cards.

HAMi (2.10) gives a whole card where memory and percentage are absent, any mode where none is named, and a card of its own
choice where no UUID is: so count, memory, cores, mode and UUIDs are always said. A plain integer of MiB, since a suffix
would be read as a multiple of MiB. A borrower's card still belongs to the parked pod in HAMi's books, so it asks HAMi for
nothing and takes the card by its UUID through the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.domain.nvidia import RESOURCE_COUNT
from gshare_core.contract import GpuShare, SessionSpec

RESOURCE_MEMORY = "nvidia.com/gpumem"
RESOURCE_CORES = "nvidia.com/gpucores"
USE_UUID = "nvidia.com/use-gpuuuid"
MODE = "nvidia.com/vgpu-mode"
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

_WHOLE_PERCENT = 100
# On a card in MIG mode the slice has its own cores; HAMi only checks the request against those of the card.
_MIG_PERCENT = 1
# With "overwriteEnv", which keeps cards from pods that asked for none, the webhook would take the borrowed card away.
_WEBHOOK_IGNORES = {"hami.io/webhook": "ignore"}


class Unbuildable(ValueError):
    """A document of which no pod can be made, and why."""


@dataclass(frozen=True, slots=True)
class GpuParts:
    """What of a pod its cards are responsible for."""

    limits: Mapping[str, str]
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    scheduler: str = ""
    runtime_class: str = ""


def gpu_parts(spec: SessionSpec, *, scheduler: str, runtime_class: str, profile_mib: int | None = None) -> GpuParts:
    """The parts; without a card only that none is to be seen. Raises `Unbuildable`."""
    gpu = spec.gpu
    if gpu is None:
        return GpuParts({}, {}, {}, {VISIBLE_DEVICES: "void"})
    if spec.privileged:
        raise Unbuildable("a privileged session cannot have cards: HAMi denies or skips such pods")
    _check_kind(gpu)
    if gpu.borrowed:
        return GpuParts({}, {}, _WEBHOOK_IGNORES, {VISIBLE_DEVICES: ",".join(gpu.cards)}, runtime_class=runtime_class)
    memory, percent, mode = gpu.vram_mib, gpu.core_percent, "hami-core"
    if gpu.mig is not None:
        memory, percent, mode = min(memory, profile_mib or memory), _MIG_PERCENT, "mig"
    elif gpu.mode == "exclusive":
        percent = _WHOLE_PERCENT
    return GpuParts(
        limits={RESOURCE_COUNT: str(len(gpu.cards)), RESOURCE_MEMORY: str(memory), RESOURCE_CORES: str(percent)},
        annotations={USE_UUID: ",".join(gpu.cards), MODE: mode},
        labels={},
        # An image may set it; what the pod says wins over the image.
        environment={"CUDA_DISABLE_CONTROL": "false"},
        scheduler=scheduler,
    )


def _check_kind(gpu: GpuShare) -> None:
    if gpu.mig is not None and gpu.mode != "fractional":
        raise Unbuildable("a MIG instance is a share of one card")
    if gpu.borrowed and (gpu.mode != "exclusive" or gpu.mig is not None):
        raise Unbuildable("only whole cards are borrowed")
