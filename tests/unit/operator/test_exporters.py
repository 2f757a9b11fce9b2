"""Pods that tell metrics are known by container or label; nobody's session is taken for one."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.operator.substrates.kubernetes.exporters import DCGM_EXPORTER, HAMI_MONITOR, HAMI_SCHEDULER, Kind
from tests.unit.operator.kube_objects import JSON

CLOSED = "gshare-sessions"


def a_pod(*containers: str, port: int | None = None, namespace: str = "system", **fields: Any) -> JSON:
    ports = {} if port is None else {"ports": [{"containerPort": port}]}
    return {
        "metadata": {"name": "p", "namespace": namespace, "labels": fields.get("labels", {})},
        "spec": {"containers": [{"name": name, **ports} for name in containers]},
        "status": {"phase": fields.get("phase", "Running"), "podIP": fields.get("ip", "10.0.0.1")},
    }


@pytest.mark.parametrize(
    ("kind", "pod", "port"),
    [
        (HAMI_MONITOR, a_pod("device-plugin", "vgpu-monitor"), 9394),
        (HAMI_MONITOR, a_pod("vgpu-monitor", port=9999), 9999),
        (HAMI_SCHEDULER, a_pod("kube-scheduler", "vgpu-scheduler-extender"), 9395),
        (HAMI_SCHEDULER, a_pod("c", labels={"app.kubernetes.io/component": "hami-scheduler"}), 9395),
        (HAMI_SCHEDULER, a_pod("vgpu-scheduler-extender", port=443), 9395),
        (DCGM_EXPORTER, a_pod("nvidia-dcgm-exporter"), 9400),
        (DCGM_EXPORTER, a_pod("c", port=9500, labels={"app": "nvidia-dcgm-exporter"}), 9500),
        (DCGM_EXPORTER, a_pod("c", labels={"app.kubernetes.io/name": "dcgm-exporter"}), 9400),
    ],
)
def test_each_is_known_by_its_container_or_label_and_listens_at_its_port(kind: Kind, pod: JSON, port: int) -> None:
    assert kind.place(pod, closed=CLOSED) == ("10.0.0.1", port)
    others = {HAMI_MONITOR.title, HAMI_SCHEDULER.title, DCGM_EXPORTER.title} - {kind.title}
    for other in (HAMI_MONITOR, HAMI_SCHEDULER, DCGM_EXPORTER):
        assert (other.place(pod, closed=CLOSED) is None) == (other.title in others)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("vgpu-monitor", namespace=CLOSED),
        a_pod("vgpu-monitor", phase="Succeeded"),
        a_pod("vgpu-monitor", ip=""),
        a_pod("monitor", labels={"app": "vgpu-monitor"}),
        {},
    ],
)
def test_a_sessions_pod_one_that_has_ended_and_one_without_an_address_are_none(pod: JSON) -> None:
    assert HAMI_MONITOR.place(pod, closed=CLOSED) is None
