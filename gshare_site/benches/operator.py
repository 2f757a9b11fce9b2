"""The operator on a real API server: how soon a pod is there that is wanted, and what it costs when nothing happens.

The operator runs as a process of its own, as it does on a cluster, on the control plane that the tests build (`make kube`); a
stand-in binds pods and sets them running, another takes the operator's reports. Resources are written at a steady rate; a
pod counts when a watch shows it. Processor time is the operator's own, as the kernel counts it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx

from gshare_core.ids import uuid7
from gshare_site.benches import Figure, WrongAnswer, percentile

HELP = "Time from a session's resource to its pod on a real API server, and the operator's idle load."
BAR_SECONDS, BAR_PERCENT = 1.0, 2.0
PATIENCE_SECONDS = 600.0
NODE = "bench-01"
ROOT = Path(__file__).resolve().parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    parser.add_argument("--sessions", type=int, default=1_000, help="Resources written (default 1,000).")
    parser.add_argument("--rate", type=float, default=50.0, help="Resources a second (default 50).")
    parser.add_argument("--idle", type=float, default=60.0, help="Seconds of nothing, for the idle load (default 60).")


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Write the resources, wait for every pod and report, then leave the operator alone. Raises ValueError without binaries."""
    with ExitStack() as stack:
        site = _Site(stack)
        sessions = [uuid7() for _ in range(options["sessions"])]
        spent = site.cpu_seconds()
        asked = site.write(sessions, options["rate"])
        site.wait(lambda: len(site.seen) >= len(sessions), "every pod is there")
        took = [site.seen[session] - asked[session] for session in sessions]
        site.wait(lambda: site.running() >= set(sessions), "everything is reported running")
        each = (site.cpu_seconds() - spent) / len(sessions)
        verified = site.check(sessions)
        facts = {
            "sessions": len(sessions),
            "asked_a_second": round(len(sessions) / (max(asked.values()) - min(asked.values())), 1),
        }
        yield Figure("operator: resource to pod, p95", percentile(took, 95), "s", verified, BAR_SECONDS, "less", facts)
        yield Figure("operator: resource to pod, p50", percentile(took, 50), "s", verified, better="less")
        yield Figure("operator: processor time a start", each * 1000, "ms", verified, better="less")
        spent = site.cpu_seconds()
        time.sleep(options["idle"])
        idle = 100 * (site.cpu_seconds() - spent) / options["idle"]
        verified = site.check(sessions)
        yield Figure(
            "operator: idle load, of a core", idle, "%", verified, BAR_PERCENT, "less", {"sessions": len(sessions)}
        )


class _Site:
    """A control plane with one node, its stand-ins, and an operator's process."""

    def __init__(self, stack: ExitStack) -> None:
        kube = _stand_ins()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gsb-", dir="/tmp")))
        self.plane = kube["plane"].ControlPlane(folder / "plane")
        stack.callback(self.plane.stop)
        self.plane.start()
        self.rest = self.plane.rest()
        kube["fixtures"].install_definitions(self.rest)
        self.namespace, self.system = self.plane.namespace("bench"), self.plane.namespace("system")
        kubelet = stack.enter_context(kube["kubelet"].Kubelet(self.plane, folder, period=0.5))
        kubelet.lease_seconds = 10.0
        kubelet.add_node(kube["nodes"].a_node(NODE, cpu="100000", memory="100000Gi", disk="100000Gi"))
        binder = kube["operating"].Binder(self.plane, self.namespace)
        binder.start()
        stack.callback(binder.stop)
        self._documents = kube["documents"]
        self._listener = kube["control_plane"].ControlPlane()
        stack.callback(self._listener.stop)
        self.seen: dict[UUID, float] = {}
        self._watch = threading.Thread(target=self._follow, daemon=True)
        self._watch.start()
        self._operator = self._start(folder)
        stack.callback(self._operator.wait)
        stack.callback(self._operator.kill)
        self.wait(lambda: bool(self._listener.book.inventories), "the operator leads and looks")

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        token = {"token": self._listener.book.token, "cluster": str(uuid4()), "cluster_key": "ab" * 32}
        (folder / "token.json").write_text(json.dumps(token), encoding="utf-8")
        (folder / "kubeconfig").write_text(self.plane.kubeconfig(), encoding="utf-8")
        environment = {
            "PATH": os.environ["PATH"],
            "GSHARE_OPERATOR_SUBSTRATE": "kubernetes",
            "GSHARE_OPERATOR_NAMESPACE": self.namespace,
            "GSHARE_OPERATOR_SYSTEM_NAMESPACE": self.system,
            "GSHARE_OPERATOR_KUBECONFIG": str(folder / "kubeconfig"),
            "GSHARE_OPERATOR_CONSOLE_URL": "https://gshare.example",
            "GSHARE_OPERATOR_TOKEN_FILE": str(folder / "token.json"),
            "GSHARE_INTERNAL_URL": self._listener.url,
        }
        with (folder / "operator.log").open("ab") as log:
            command = [sys.executable, "-m", "cluster.operator"]
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def write(self, sessions: list[UUID], rate: float) -> dict[UUID, float]:
        """Write a resource for each at a steady rate; when each was asked for."""
        asked: dict[UUID, float] = {}
        began = time.perf_counter()

        def one(number: int, session: UUID) -> None:
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            fields = {"class": "cpu", "gpu": None, "node": NODE, "volumes": [], "apps": [{"name": "lab", "port": 8888}]}
            resource = self._documents.a_session(session, **fields)
            path = self._documents.sessions(self.namespace, resource["metadata"]["name"])
            asked[session] = time.perf_counter()
            self.rest.apply(path, resource, manager="gshare-control-plane")

        with ThreadPoolExecutor(16) as writers:
            list(writers.map(one, range(len(sessions)), sessions))
        return asked

    def _follow(self) -> None:
        """Note when each pod is first shown, until the control plane goes away."""
        with suppress(httpx.HTTPError):
            for event in self.rest.watch(f"/api/v1/namespaces/{self.namespace}/pods"):
                labels = event["object"]["metadata"].get("labels") or {}
                if "gshare.io/session" in labels:
                    self.seen.setdefault(UUID(labels["gshare.io/session"]), time.perf_counter())

    def running(self) -> set[UUID]:
        """The sessions that were reported running."""
        return {session for session, report in list(self._listener.book.accepted) if report.phase == "running"}

    def check(self, sessions: list[UUID]) -> str:
        """That every session has one pod, and was reported of its first run only. Raises WrongAnswer."""
        pods = self.rest.items(f"/api/v1/namespaces/{self.namespace}/pods")
        made = Counter(pod["metadata"]["labels"]["gshare.io/session"] for pod in pods)
        if made != Counter(map(str, sessions)):
            raise WrongAnswer(
                f"{len(sessions)} sessions were asked for, and there are {made.total()} pods of {len(made)}"
            )
        runs = {report.run for _session, report in list(self._listener.book.accepted)}
        if runs != {1} or self._operator.poll() is not None:
            raise WrongAnswer(f"runs {runs} were reported, and the operator ended with {self._operator.poll()}")
        return f"{len(sessions)} sessions have one pod each, and run 1 of each was reported running"

    def cpu_seconds(self) -> float:
        """What the operator has used of processors."""
        fields = Path(f"/proc/{self._operator.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something. Raises WrongAnswer when it does not come."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while not condition():
            if time.perf_counter() > deadline:
                raise WrongAnswer(f"{what}: not within {PATIENCE_SECONDS:.0f} s; {len(self.seen)} pods are there")
            time.sleep(0.05)


def _stand_ins() -> dict[str, Any]:
    """The tests' control plane and its stand-ins; they are part of a checkout, not of an installation."""
    names = ("plane", "fixtures", "kubelet", "nodes", "operating", "documents")
    try:
        found = {name: importlib.import_module(f"tests.kube.{name}") for name in names}
        found["control_plane"] = importlib.import_module("tests.apps.operator.control_plane")
        prepare = importlib.import_module("tests.kube.prepare")
    except ImportError as error:
        raise ValueError(f"this bench needs a checkout with the packages of development: {error}") from error
    try:
        prepare.binaries()
    except prepare.NoControlPlane as error:
        raise ValueError(f"`make kube` first: {error}") from error
    return found
