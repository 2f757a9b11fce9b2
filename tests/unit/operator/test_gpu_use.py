"""What monitors' own text says of a run's cards: every format, every sentinel, every silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.domain.hami import Instance, read_instances
from cluster.operator.reading.exposition import read_exposition
from cluster.operator.reading.gpu_use import DCGM_NAMES, HAMI_NAMES, Part, Said, gpu_use
from gshare_core.contract import GpuUse

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CARD, OTHER = "GPU-00000001-0000-0000-0000-000000000000", "GPU-00000002-0000-0000-0000-000000000000"
POD = 'namespace="gshare-sessions",pod="s-1-1",container="session",vdevice_index="0"'

HAMI = f"""\
# HELP hami_host_gpu_memory_used_bytes GPU device memory usage in bytes
# TYPE hami_host_gpu_memory_used_bytes gauge
hami_host_gpu_memory_used_bytes{{device_index="0",device_type="NVIDIA-NVIDIA A100-SXM4-80GB",device_uuid="{CARD}",node="n1",zone="vGPU"}} 5.24288e+08
hami_host_gpu_utilization_ratio{{device_index="0",device_type="NVIDIA-NVIDIA A100-SXM4-80GB",device_uuid="{CARD}",node="n1",zone="vGPU"}} 97
hami_container_last_kernel_elapsed_seconds{{{POD},device_uuid="{CARD}",zone="vGPU"}} 90
hami_container_device_utilization_ratio{{{POD},device_uuid="{CARD}",zone="vGPU"}} 12
hami_vgpu_memory_used_bytes{{{POD},device_uuid="{CARD}",zone="vGPU"}} 1.073741824e+09
hami_container_last_kernel_elapsed_seconds{{namespace="gshare-sessions",pod="s-2-1",container="session",vdevice_index="0",device_uuid="{CARD}",zone="vGPU"}} 1
hami_container_last_kernel_elapsed_seconds{{namespace="elsewhere",pod="s-1-1",container="session",vdevice_index="0",device_uuid="{CARD}",zone="vGPU"}} 2
"""
LEGACY = f"""\
HostGPUMemoryUsage{{deviceidx="0",deviceuuid="{CARD}",devicetype="NVIDIA-A100",nodeid="n1",zone="vGPU"}} 5.2e+08
Device_last_kernel_of_container{{ctrname="session",deviceuuid="{CARD}",podname="s-1-1",podnamespace="gshare-sessions",vdeviceid="0",zone="vGPU"}} 90
Device_utilization_desc_of_container{{ctrname="session",deviceuuid="{CARD}",podname="s-1-1",podnamespace="gshare-sessions",vdeviceid="0",zone="vGPU"}} 12
vGPU_device_memory_usage_in_bytes{{ctrname="session",deviceuuid="{CARD}",podname="s-1-1",podnamespace="gshare-sessions",vdeviceid="0",zone="vGPU"}} 1.073741824e+09
"""
DCGM = f"""\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{CARD}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100",Hostname="n1"}} 40
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{CARD}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100",Hostname="n1"}} 9000
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="{CARD}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100",hostname="n1"}} 0.421
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="1",UUID="{OTHER}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",hostname="n1"}} 0.004
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="1",UUID="{OTHER}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8",hostname="n1"}} 0.93
"""


def hami(text: str = HAMI) -> Any:
    return read_exposition(text, HAMI_NAMES)


def dcgm(text: str = DCGM) -> Any:
    return read_exposition(text, DCGM_NAMES)


def a_part(**fields: Any) -> Part:
    return Part(**({"namespace": "gshare-sessions", "pod": "s-1-1", "cards": (CARD,)} | fields))


def use(said: Said, **fields: Any) -> GpuUse:
    return gpu_use(a_part(**fields), said, NOW)


@pytest.mark.parametrize("text", [HAMI, LEGACY, HAMI + LEGACY], ids=["since 2.9", "before", "both at once"])
def test_hamis_monitor_is_read_under_its_names_of_every_version(text: str) -> None:
    found = use(Said(hami(text)))
    assert found == GpuUse(
        source="hami",
        healthy=True,
        present=True,
        last_kernel_at=NOW - timedelta(seconds=90),
        use_percent=12.0,
        vram_mib=1024.0,
    )


def test_behind_prometheus_the_pods_own_label_is_the_exported_one() -> None:
    text = HAMI.replace('namespace="gshare', 'namespace="monitoring",exported_namespace="gshare')
    text = text.replace('pod="s-1-1"', 'pod="hami-device-plugin-x",exported_pod="s-1-1"')
    assert use(Said(hami(text))) == use(Said(hami()))


def test_a_pod_without_series_never_used_cuda_while_the_monitor_speaks_of_its_card() -> None:
    found = use(Said(hami()), pod="s-9-1")
    assert (found.healthy, found.present, found.last_kernel_at) == (True, False, None)


@pytest.mark.parametrize(
    "said",
    [
        Said(),
        Said(hami("")),
        Said(hami("<html>502 Bad Gateway</html>")),
        Said(hami(HAMI.replace(CARD, OTHER))),
        Said(None, dcgm()),
    ],
    ids=["down", "nothing", "a proxy's page", "of other cards only", "only DCGM answers, of a shared card"],
)
def test_a_monitor_that_is_down_or_knows_not_the_card_is_not_idleness(said: Said) -> None:
    found = use(said, pod="s-9-1")
    assert (found.healthy, found.present) == (False, False)


def test_the_neighbour_on_the_card_is_not_ones_own_use() -> None:
    found = use(Said(hami(), dcgm()))
    assert (found.source, found.last_kernel_at) == ("hami", NOW - timedelta(seconds=90))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1.79e+09", "nonsense", ""])
def test_an_age_that_is_none_costs_the_stamp_and_nothing_else(value: str) -> None:
    found = use(Said(hami(HAMI.replace('zone="vGPU"} 90', f'zone="vGPU"}} {value}'))))
    assert (found.last_kernel_at, found.use_percent, found.healthy) == (None, 12.0, True)


def test_of_several_cards_the_latest_kernel_and_the_greatest_figures_count() -> None:
    second = "\n".join(line for line in HAMI.splitlines() if "s-2-1" not in line and "elsewhere" not in line)
    second = second.replace(CARD, OTHER).replace("} 90", "} 30").replace("} 12", "} 55")
    found = use(Said(hami(HAMI + second)), cards=(CARD, OTHER))
    assert (found.last_kernel_at, found.use_percent, found.healthy) == (NOW - timedelta(seconds=30), 55.0, True)
    assert not use(Said(hami()), cards=(CARD, OTHER)).healthy, "of one card nothing is said"


def test_a_whole_card_without_series_of_its_own_is_judged_by_dcgm() -> None:
    whole = use(Said(hami(), dcgm()), pod="s-9-1", is_whole=True)
    assert (whole.source, whole.healthy, whole.present, whole.vram_mib) == ("dcgm", True, True, 9000.0)
    assert whole.use_percent == pytest.approx(42.1), "the greater of both figures"
    assert use(Said(hami(), dcgm()), is_whole=True).source == "hami", "its own series outrank it"
    assert use(Said(hami()), pod="s-9-1", is_whole=True).source == "hami", "no exporter is there"
    down = use(Said(None, dcgm()), is_whole=True)
    assert (down.source, down.healthy) == ("dcgm", True)


def test_a_borrower_is_judged_by_dcgm_alone() -> None:
    assert use(Said(hami(), dcgm()), is_borrowed=True).source == "dcgm"
    without = use(Said(hami()), is_borrowed=True)
    assert (without.source, without.healthy, without.present) == ("dcgm", False, False)
    two = use(Said(hami(), dcgm()), is_borrowed=True, cards=(CARD, "GPU-3"))
    assert (two.healthy, two.use_percent) == (False, None)


def a_slice(instance: str) -> dict[str, Any]:
    return {"cards": (OTHER,), "is_mig": True, "instances": (Instance(OTHER, "1g.10gb", 0, 1, "MIG-1", instance),)}


def test_a_mig_slice_is_judged_by_its_own_instance_of_its_own_card() -> None:
    quiet, busy = use(Said(None, dcgm()), **a_slice("7")), use(Said(None, dcgm()), **a_slice("8"))
    assert (quiet.source, quiet.healthy, quiet.present) == ("mig", True, True)
    assert (quiet.use_percent, busy.use_percent) == (pytest.approx(0.4), pytest.approx(93))


@pytest.mark.parametrize("instance", ["9", ""], ids=["not listed", "the plugin has not said which"])
def test_a_mig_slice_that_is_not_listed_is_unknown(instance: str) -> None:
    found = use(Said(None, dcgm()), **a_slice(instance))
    assert (found.present, found.use_percent) == (False, None)
    assert not use(Said(hami()), **a_slice("7")).healthy


def test_the_number_of_a_mig_instance_is_read_from_its_pod() -> None:
    row = '{"gpuUUID":"G","profile":"1g.10gb","placement":{"start":6,"size":1}%s}'
    plugged = row % ',"migUUID":"MIG-1","gpuInstanceID":13,"computeInstanceID":0'
    assert [each.gpu_instance for each in read_instances(f"[{row % ''},{plugged}]") or ()] == ["", "13"]


def test_labels_are_unescaped_and_lines_that_cannot_be_read_cost_themselves_only() -> None:
    text = (
        'a{x="1\\"2\\\\3\\n4}",y="z",} 7 1700000000000\n'
        'a{x="open} 1\na{x=} 2\na 3 # {trace="b"} 1\na\na{} 4\n  a { k = "v" } 5\nb 6\na{q="1" r="2"} 8\n'
    )
    found = [(series.labels, series.value) for series in read_exposition(text, {"a"})]
    assert found == [({"x": '1"2\\3\n4}', "y": "z"}, 7.0), ({}, 3.0), ({}, 4.0), ({"k": "v"}, 5.0)]
