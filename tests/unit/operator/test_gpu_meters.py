"""What a local GPU is said to have done: declared in files, or by NVML (a stand-in of its module: there is no card here)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from cluster.operator.substrates.local.gpu import DeclaredGpus, NvmlGpus
from gshare_core.contract import GpuSource, GpuUse, session_name
from tests.unit.operator.build import NOW, SESSION, gpu, spec

KERNEL = "2026-11-30T11:50:00Z"
SHARED, WHOLE = spec(gpu=gpu()), spec(gpu=gpu(mode="exclusive"))
OWN = f"{session_name(SESSION)}.json"


def declared(folder: Path, document: Any, **files: object) -> GpuUse | None:
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return DeclaredGpus(folder).read(document, (), NOW)


def test_a_session_without_a_card_has_no_gpu_to_tell_of(tmp_path: Path) -> None:
    assert declared(tmp_path, spec()) is None


def test_without_a_file_the_monitor_is_well_and_cuda_was_never_used(tmp_path: Path) -> None:
    assert declared(tmp_path, SHARED) == GpuUse(source=GpuSource.DECLARED, healthy=True, present=False)
    assert declared(tmp_path / "no such folder", SHARED) == GpuUse(source=GpuSource.DECLARED, healthy=True)


def test_the_sessions_file_says_what_its_slice_did(tmp_path: Path) -> None:
    said = declared(tmp_path, SHARED, **{OWN: {"last_kernel_at": KERNEL, "use_percent": 3}})
    assert said is not None
    assert (said.present, said.healthy, said.use_percent) == (True, True, 3)
    assert said.last_kernel_at is not None
    assert said.last_kernel_at.isoformat() == "2026-11-30T11:50:00+00:00"


def test_a_cards_figures_are_those_of_whoever_holds_the_whole_card(tmp_path: Path) -> None:
    files = {"GPU-1.json": {"use_percent": 97}}
    shared, whole = declared(tmp_path, SHARED, **files), declared(tmp_path, WHOLE)
    assert shared is not None
    assert whole is not None
    assert (shared.present, shared.use_percent) == (False, None), "that was the neighbour"
    assert (whole.present, whole.use_percent) == (True, 97)


@pytest.mark.parametrize("content", [{"healthy": False}, "not json", {"use_percent": "much"}])
def test_a_card_whose_monitor_is_down_or_unreadable_is_unknown_to_everybody_on_it(
    tmp_path: Path, content: object
) -> None:
    for document in (SHARED, WHOLE):
        said = declared(tmp_path, document, **{"GPU-1.json": content})
        assert said is not None
        assert not said.healthy


class Fault(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


_NOBODY: Mapping[int, int | None] = MappingProxyType({})


def nvml(*, running: Mapping[int, int | None] = _NOBODY, samples: Mapping[int, int | None] | Fault = _NOBODY) -> Any:
    """The part of pynvml that is used."""

    def utilization(_handle: str, _since: int) -> list[SimpleNamespace]:
        if isinstance(samples, Fault):
            raise samples
        return [SimpleNamespace(pid=pid, smUtil=percent) for pid, percent in samples.items()]

    return SimpleNamespace(
        NVMLError=Fault,
        NVML_ERROR_NOT_SUPPORTED=3,
        NVML_ERROR_NOT_FOUND=6,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda _handle: [
            SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in running.items()
        ],
        nvmlDeviceGetProcessUtilization=utilization,
    )


NVML_CASES = {
    # own pid is 7, the neighbour's 8
    "only the neighbour works": (nvml(running={8: 1}, samples={8: 90}), (True, False, None)),
    "own work": (nvml(running={7: 1, 8: 1}, samples={7: 12, 8: 90}), (True, True, 12.0)),
    "own process at rest": (nvml(running={7: 1}, samples=Fault(6)), (True, True, 0.0)),
    "nothing runs": (nvml(samples=Fault(6)), (True, False, None)),
    "the card cannot say": (nvml(running={7: None}, samples=Fault(3)), (True, True, None)),
    "the driver is gone": (nvml(running={7: 1}, samples=Fault(9)), (False, False, None)),
}


@pytest.mark.parametrize("name", NVML_CASES)
def test_nvml_tells_of_own_processes_only(name: str) -> None:
    module, expected = NVML_CASES[name]
    said = NvmlGpus(module).read(SHARED, {7}, NOW)
    assert said is not None
    assert (said.healthy, said.present, said.use_percent) == expected


def test_nvml_counts_own_memory() -> None:
    said = NvmlGpus(nvml(running={7: 512 * 1024**2, 8: 2**40}, samples={7: 1})).read(SHARED, {7}, NOW)
    assert said is not None
    assert said.vram_mib == 512
