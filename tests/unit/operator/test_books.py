"""What HAMi's scheduler says it has given away: read in both spellings, and nonsense left out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cluster.operator.reading.exposition import read_exposition
from cluster.operator.substrates.kubernetes.books import counted
from cluster.operator.substrates.kubernetes.exporters import HAMI_SCHEDULER

LABELS = (
    'device_cores="100",device_index="1",device_type="NVIDIA A100-SXM4-80GB",device_uuid="GPU-1",node="n1",zone="vGPU"'
)


def read_counted(text: str) -> Mapping[str, int]:
    return counted(read_exposition(text, HAMI_SCHEDULER.names))


def test_the_recorded_line_is_read() -> None:
    assert read_counted(f"hami_gpu_memory_allocated_bytes{{{LABELS}}} 5.24288e+10\n") == {"GPU-1": 50_000}


def test_the_old_name_is_read_where_the_new_one_is_missing() -> None:
    old = 'GPUDeviceMemoryAllocated{deviceuuid="GPU-1",nodeid="n1"} 1.048576e+06\n'
    old += 'GPUDeviceMemoryAllocated{deviceuuid="GPU-2",nodeid="n1"} 0\n'
    assert read_counted(old) == {"GPU-1": 1, "GPU-2": 0}
    new = f"hami_gpu_memory_allocated_bytes{{{LABELS}}} 5.24288e+10\n"
    assert read_counted(new + old) == read_counted(old + new) == {"GPU-1": 50_000, "GPU-2": 0}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e30", "much"])
def test_a_figure_that_no_card_has_says_nothing(value: str) -> None:
    assert read_counted(f"hami_gpu_memory_allocated_bytes{{{LABELS}}} {value}\n") == {}


def test_a_line_without_a_card_says_nothing() -> None:
    assert read_counted('hami_gpu_memory_allocated_bytes{node="n1"} 5\n') == {}
