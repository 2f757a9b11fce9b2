"""A whole operator as a process of its own, against a control plane over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from cluster.operator.substrates.local.processes import processes_of
from cluster.operator.substrates.local.record import PodFile
from tests.apps.operator.control_plane import Book, ControlPlane
from tests.unit.operator.build import SESSION
from tests.unit.operator.local import KEY, short_folder, stand_in
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Site:
    """A cluster's folder, its control plane and the operators that were started for it."""

    folder: Path
    plane: ControlPlane
    operators: list[subprocess.Popen[bytes]] = field(default_factory=list)
    cluster: str = field(default_factory=lambda: str(uuid4()))

    @property
    def book(self) -> Book:
        return self.plane.book

    @property
    def log(self) -> str:
        path = self.folder / "operator.log"
        return path.read_text() if path.exists() else ""

    def give_token(self, token: str) -> None:
        """Write the token file as the control plane does."""
        content = {"token": token, "cluster": self.cluster, "cluster_key": KEY.hex()}
        draft = self.folder / "token.new"
        draft.write_text(json.dumps(content))
        draft.replace(self.folder / "token.json")

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "GSHARE_OPERATOR_STATE": str(self.folder),
            "GSHARE_INTERNAL_URL": self.plane.url,
            "GSHARE_OPERATOR_TOKEN_FILE": str(self.folder / "token.json"),
            "GSHARE_OPERATOR_SESSION_USERS": "off",
            "GSHARE_TTYD": str(self.folder / "ttyd"),
        }

    def operate(self) -> subprocess.Popen[bytes]:
        """Start an operator."""
        with (self.folder / "operator.log").open("ab") as log:
            command = [sys.executable, "-m", "cluster.operator"]
            process = subprocess.Popen(command, cwd=ROOT, env=self.environment(), stdout=log, stderr=log)
        self.operators.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9."""
        process.kill()
        process.wait()

    def pids(self, run: int = 1) -> list[int]:
        """What runs of the session."""
        return [process.pid for process in processes_of(PodFile.of(self.folder / "pods", SESSION, run).mark)]

    def until_reported(self, phase: str, *, count: int = 1, within: float = 40) -> None:
        """Wait until so many reports of that phase were accepted."""
        until(
            lambda: self.book.phases(SESSION).count(phase) >= count,
            within=within,
            what=f"{count} times {phase} among {self.book.phases(SESSION)}; operator: {self.log[-3000:]}",
        )

    def close(self) -> None:
        for process in self.operators:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.plane.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    """A cluster that nobody operates yet, with a valid token."""
    with short_folder() as folder:
        stand_in(folder)
        found = Site(folder, ControlPlane())
        found.give_token("first")
        try:
            yield found
        finally:
            found.close()
