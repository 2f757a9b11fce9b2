"""The operator on a real API server: how soon a pod is there that is wanted, and what it costs when nothing happens.

The operator runs as a process of its own, as it does on a cluster, on the control plane that the tests build (`make kube`); stand-ins
bind pods and set them running, and take the operator's reports. Resources are written at a steady rate; a pod counts when
a watch shows it. Processor time is what the kernel counts: the operator's own, and beside it what the API server, etcd and
the stand-ins take, and what other programs take, since all of them share the machine's cores.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from gshare_core.contract.resources import document_of, session_resource
from gshare_core.ids import uuid7
from gshare_site.benches import Figure, WrongAnswer, percentile
from gshare_site.benches.operator_stand_ins import StandIns

HELP = "Time from a session's resource to its pod on a real API server, and the operator's idle load."
BAR_SECONDS, BAR_PERCENT = 1.0, 2.0
PATIENCE_SECONDS = 600.0
NODE = "bench-01"
ROOT = Path(__file__).resolve().parents[2]
_WORDS = 2_000
_TICKS = os.sysconf("SC_CLK_TCK")


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    parser.add_argument("--sessions", type=int, default=1_000, help="Resources written (default 1,000).")
    parser.add_argument("--rate", type=float, default=50.0, help="Resources a second (default 50).")
    parser.add_argument("--idle", type=float, default=60.0, help="Seconds of nothing, for the idle load (default 60).")


@dataclass(frozen=True, slots=True)
class _Spent:
    """Processor seconds until now, by who took them."""

    operator: float
    api_server: float
    etcd: float
    stand_ins: float
    machine: float

    def since(self, before: _Spent) -> dict[str, float]:
        """Seconds of each since then; `others` is what the machine did beside them."""
        took = {name: getattr(self, name) - getattr(before, name) for name in self.__slots__}
        ours = sum(took.values()) - took["machine"]
        return {name: value for name, value in took.items() if name != "machine"} | {
            "others": max(0.0, took["machine"] - ours)
        }


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Write the resources, wait for every pod and report, then leave the operator alone. Raises ValueError without binaries."""
    with ExitStack() as stack:
        site = _Site(stack)
        sessions = [uuid7() for _ in range(options["sessions"])]
        spent, began = site.spent(), time.perf_counter()
        asked = site.write(sessions, options["rate"])
        site.wait(lambda: len(site.stand_ins.seen) >= len(sessions), "every pod is there")
        took = [site.stand_ins.seen[session] - asked[session] for session in sessions]
        site.wait(lambda: site.stand_ins.running >= set(sessions), "everything is reported running")
        seconds = time.perf_counter() - began
        # What can wait belongs to a start as well, and not to doing nothing.
        site.wait(lambda: site.is_written_down(sessions), "everything is written down", every=1.0)
        each = site.spent().since(spent)
        verified = site.check(sessions)
        facts = {
            "sessions": len(sessions),
            "asked_a_second": round((len(sessions) - 1) / (max(asked.values()) - min(asked.values())), 1),
            "seconds": round(seconds, 1),
            "ms_a_start": {name: round(1000 * value / len(sessions), 2) for name, value in each.items()},
            "load": round(os.getloadavg()[0], 1),
        }
        yield Figure("operator: resource to pod, p95", percentile(took, 95), "s", verified, BAR_SECONDS, "less", facts)
        yield Figure("operator: resource to pod, p50", percentile(took, 50), "s", verified, better="less")
        yield Figure(
            "operator: processor time a start",
            1000 * each["operator"] / len(sessions),
            "ms",
            verified,
            better="less",
            facts={"ms_a_start": facts["ms_a_start"]},
        )
        spent, asked_of = site.spent(), site.stand_ins.questions
        time.sleep(options["idle"])
        idle = {name: 100 * value / options["idle"] for name, value in site.spent().since(spent).items()}
        verified = site.check(sessions)
        facts = {
            "sessions": len(sessions),
            "seconds": options["idle"],
            "questions_to_applications": site.stand_ins.questions - asked_of,
            "percent": {name: round(value, 2) for name, value in idle.items()},
            "load": round(os.getloadavg()[0], 1),
        }
        yield Figure("operator: idle load, of a core", idle["operator"], "%", verified, BAR_PERCENT, "less", facts)


class _Site:
    """A control plane with one node, its stand-ins, and an operator's process."""

    def __init__(self, stack: ExitStack) -> None:
        kube = _of_the_tests()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gsb-", dir="/tmp")))
        self.plane = kube["plane"].ControlPlane(folder / "plane")
        stack.callback(self.plane.stop)
        self.plane.start()
        self.rest = self.plane.rest()
        kube["fixtures"].install_definitions(self.rest)
        self.namespace, self.system = self.plane.namespace("bench"), self.plane.namespace("system")
        kube["nodes"].add_node(self.rest, kube["nodes"].a_node(NODE, cpu="100000", memory="100000Gi", disk="100000Gi"))
        self._documents = kube["documents"]
        self.stand_ins = StandIns(self.plane.server, str(self.plane.ca), self.plane.admin.token, self.namespace)
        self.stand_ins.start(NODE)
        stack.callback(self.stand_ins.stop)
        self._operator = self._start(folder)
        stack.callback(self._operator.wait)
        stack.callback(self._operator.kill)
        self.wait(lambda: self.stand_ins.inventories > 0, "the operator leads and looks")

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        token = {"token": "bench", "cluster": str(uuid4()), "cluster_key": "ab" * 32}
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
            "GSHARE_INTERNAL_URL": self.stand_ins.url,
        }
        self._log = folder / "operator.log"
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "cluster.operator"]
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def write(self, sessions: list[UUID], rate: float) -> dict[UUID, float]:
        """Write a resource for each at a steady rate; when each was asked for. Raises WrongAnswer."""
        apps = [{"name": "lab", "port": self.stand_ins.port}]
        fields = {"class": "cpu", "gpu": None, "node": NODE, "volumes": [], "apps": apps}
        try:
            resources = [self._documents.a_session(each, **fields) for each in sessions]
            asked = self.stand_ins.write([session_resource(document_of(each)) for each in resources], rate)
        except RuntimeError as error:
            raise WrongAnswer(f"a resource was refused: {error}") from error
        return dict(zip(sessions, asked, strict=True))

    def check(self, sessions: list[UUID]) -> str:
        """That every session has one pod, and was reported of its first run only. Raises WrongAnswer."""
        pods = self.rest.items(f"/api/v1/namespaces/{self.namespace}/pods")
        made = Counter(pod["metadata"]["labels"]["gshare.io/session"] for pod in pods)
        if made != Counter(map(str, sessions)):
            raise WrongAnswer(
                f"{len(sessions)} sessions were asked for, and there are {made.total()} pods of {len(made)}"
            )
        runs, faults = self.stand_ins.runs, self.stand_ins.faults
        if runs != {1} or faults or self._operator.poll() is not None:
            words = self._log.read_text(encoding="utf-8")[-_WORDS:]
            raise WrongAnswer(
                f"runs {runs} were reported, the operator ended with {self._operator.poll()}, refused: {faults[:1]}; "
                f"its last words: {words}"
            )
        return f"{len(sessions)} sessions have one pod each, and run 1 of each was reported running"

    def is_written_down(self, sessions: list[UUID]) -> bool:
        """Whether every session's status says what was reported, and both of its ways are there."""
        resources = self.rest.items(self._documents.sessions(self.namespace))
        said = [each for each in resources if (each.get("status") or {}).get("phase") == "Running"]
        ways = self.rest.items(f"/apis/networking.k8s.io/v1/namespaces/{self.namespace}/ingresses")
        return len(said) == len(sessions) and len(ways) == 2 * len(sessions)

    def spent(self) -> _Spent:
        """What each has used of processors."""
        programs = self.plane.process_ids()
        return _Spent(
            operator=_cpu_seconds(self._operator.pid),
            api_server=_cpu_seconds(programs["api"]),
            etcd=_cpu_seconds(programs["etcd"]),
            stand_ins=_cpu_seconds(os.getpid()),
            machine=_machine_seconds(),
        )

    def wait(self, condition: Callable[[], bool], what: str, *, every: float = 0.05) -> None:
        """Wait for something. Raises WrongAnswer when it does not come."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while not condition():
            if time.perf_counter() > deadline:
                raise WrongAnswer(
                    f"{what}: not within {PATIENCE_SECONDS:.0f} s; {len(self.stand_ins.seen)} pods are there"
                )
            time.sleep(every)


def _cpu_seconds(process: int) -> float:
    """What a process has used of processors."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _machine_seconds() -> float:
    """What all processors have done that was not waiting: user, nice, system, interrupts."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    return sum(int(fields[at]) for at in (0, 1, 2, 5, 6)) / _TICKS


def _of_the_tests() -> dict[str, Any]:
    """The tests' control plane; it is part of a checkout, not of an installation."""
    names = ("plane", "fixtures", "nodes", "documents")
    try:
        found = {name: importlib.import_module(f"tests.kube.{name}") for name in names}
        prepare = importlib.import_module("tests.kube.prepare")
    except ImportError as error:
        raise ValueError(f"this bench needs a checkout with the packages of development: {error}") from error
    try:
        prepare.binaries()
    except prepare.NoControlPlane as error:
        raise ValueError(f"`make kube` first: {error}") from error
    return found
