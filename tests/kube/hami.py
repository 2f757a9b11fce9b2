"""HAMi behind the real kube-scheduler: its scheduler as an extender, as HAMi's chart configures it.

The extender is the twin, or the real scheduler where ``GSHARE_HAMI_SCHEDULER`` names its binary; tests do not know which.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import yaml

from gshare_site.settings.test import GIVEN
from tests.kube.hami_twin import Config, Extender
from tests.kube.hami_twin.rest import Follower, RestCluster
from tests.kube.plane import ControlPlane
from tests.kube.prepare import binaries
from tests.kube.processes import Program, free_ports
from tests.kube.rest import Refused
from tests.waiting import until

REAL = GIVEN.get("GSHARE_HAMI_SCHEDULER", "")
LOCK_SECONDS = 8
_MANAGED = ("gpu", "gpumem", "gpucores", "gpumem-percentage", "priority")


@contextmanager
def hami_scheduler(plane: ControlPlane, folder: Path) -> Iterator[str]:
    """HAMi and a kube-scheduler for pods that name ``hami-scheduler``, until the end; yields the extender's address."""
    with ExitStack() as ends:
        url = ends.enter_context(real_scheduler(plane, folder)).url if REAL else ends.enter_context(_twin(plane))
        kubeconfig = folder / "hami.kubeconfig"
        kubeconfig.write_text(plane.kubeconfig(), encoding="utf-8")
        configuration = folder / "hami-kube-scheduler.yaml"
        configuration.write_text(yaml.safe_dump(_configuration(url, kubeconfig)), encoding="utf-8")
        scheduler = Program(
            [binaries() / "kube-scheduler", "--config", configuration, "--secure-port=0"],
            folder / "hami-kube-scheduler.log",
        )
        scheduler.start()
        ends.callback(scheduler.stop, 5)
        yield url


@contextmanager
def _twin(plane: ControlPlane) -> Iterator[str]:
    # A pass over the nodes comes soon after one joins; the real one is told of it.
    config = Config(lock_timeout=timedelta(seconds=LOCK_SECONDS))
    cluster = RestCluster(plane.rest(), Refused)
    with Follower(cluster, config, nodes_every=0.5, away=(Refused, httpx.TransportError)) as follower:
        with Extender(follower.twin) as extender:
            yield extender.url


@dataclass(frozen=True)
class Real:
    """Where a real scheduler answers kube-scheduler, and where it tells its metrics."""

    url: str
    metrics: str


@contextmanager
def real_scheduler(plane: ControlPlane, folder: Path) -> Iterator[Real]:
    """The scheduler that ``GSHARE_HAMI_SCHEDULER`` names; answers before its first look at the nodes (15 s)."""
    port, metrics = free_ports(2)
    devices = {
        "nvidia": {
            "resourceCountName": "nvidia.com/gpu",
            "resourceMemoryName": "nvidia.com/gpumem",
            "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
            "resourceCoreName": "nvidia.com/gpucores",
            "resourcePriorityName": "nvidia.com/priority",
            "defaultGPUNum": 1,
            "memoryFactor": 1,
            "deviceSplitCount": 10,
            "deviceMemoryScaling": 1,
            "deviceCoreScaling": 1,
        }
    }
    (folder / "devices.yaml").write_text(yaml.safe_dump(devices), encoding="utf-8")
    (folder / "real.kubeconfig").write_text(plane.kubeconfig(), encoding="utf-8")
    command = [
        "env",
        f"KUBECONFIG={folder / 'real.kubeconfig'}",
        REAL,
        f"--http_bind=127.0.0.1:{port}",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--device-config-file={folder / 'devices.yaml'}",
        "--scheduler-name=hami-scheduler",
        "--kube-qps=100",
        "--kube-burst=200",
        f"--node-lock-timeout={LOCK_SECONDS}s",
    ]
    program = Program(command, folder / "hami.log")
    program.start()
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: _answers(f"{url}/readyz"), within=30, what="HAMi's scheduler")
        yield Real(url, f"http://127.0.0.1:{metrics}/metrics")
    finally:
        program.stop(5)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _configuration(url: str, kubeconfig: Path) -> dict[str, Any]:
    """As HAMi's chart writes it, with a shorter back-off so that tests do not wait for it."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "profiles": [{"schedulerName": "hami-scheduler"}],
        "extenders": [
            {
                "urlPrefix": url,
                "enableHTTPS": False,
                "filterVerb": "filter",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "weight": 1,
                "httpTimeout": "30s",
                "managedResources": [{"name": f"nvidia.com/{name}", "ignoredByScheduler": True} for name in _MANAGED],
            }
        ],
    }
