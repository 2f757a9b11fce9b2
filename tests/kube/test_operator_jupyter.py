"""A real JupyterLab as the operator on Kubernetes asks it: over TCP at the pod's address, with the session's own token."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from websockets.sync.client import connect

from cluster.operator.substrates.local.recipes import Lab, Seat
from gshare_core.contract import AppUse, TcpEndpoint
from gshare_site.embedded.places import session_venv
from tests.kube.kubelet import Kubelet
from tests.kube.operating import operating
from tests.kube.plane import ControlPlane
from tests.kube.test_operator_activity import Place
from tests.waiting import until

pytestmark = pytest.mark.timeout(180)
TOKEN = "a" * 64
HEADERS = {"Authorization": f"token {TOKEN}"}


@contextmanager
def jupyter(address: str, folder: Path) -> Iterator[None]:
    """JupyterLab as in a session's container, on the address of its pod."""
    python = session_venv() / "bin/python"
    if not python.exists():
        if os.environ.get("CI"):
            pytest.fail(f"no session environment at {python}: run `make setup`")
        pytest.skip(f"NOT TESTED: no session environment at {python}: run `make setup`")
    command = Lab(python).command(Seat(TcpEndpoint(address, 8888), TOKEN, folder, folder, folder))
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", **command.environment}
    with (folder / "jupyter.log").open("wb") as log:
        running = subprocess.Popen(
            command.line, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(running.pid, 9)
        running.wait()


def call(address: str, method: str, path: str, **arguments: Any) -> httpx.Response:
    return httpx.request(
        method, f"http://{address}:8888/lab/api/{path}", headers=HEADERS, timeout=20, trust_env=False, **arguments
    )


def execute(address: str, kernel: str, code: str) -> None:
    """Run a cell, and close the browser at once."""
    header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"}
    content = {"code": code, "silent": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    url = f"ws://{address}:8888/lab/api/kernels/{kernel}/channels"
    with connect(url, additional_headers=HEADERS, proxy=None) as socket:
        socket.send(json.dumps(message))
        for raw in socket:
            if json.loads(raw)["msg_type"] == "execute_input":
                return


def test_a_real_jupyterlab_tells_of_kernels_and_of_its_own_terminals(
    plane: ControlPlane, cluster: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    with operating(plane, cluster) as operator:
        place = Place(plane, cluster, kubelet, operator)
        session = place.session(lab={}, inside=None, apps=[{"name": "lab", "port": 8888}])
        machine = place.machines[str(session)]
        machine.stop()
        with jupyter(machine.address, tmp_path):
            rested = until(lambda: _seen(place, session, known=True), within=60, what="JupyterLab")
            assert rested == AppUse(app="lab"), "nobody has done anything yet"
            kernel = call(machine.address, "POST", "kernels").json()["id"]
            until(lambda: place.use(session).last_activity_at, within=30, what="the kernel's activity")
            execute(machine.address, kernel, "import time; time.sleep(600)")
            until(lambda: place.use(session).busy, within=30, what="the cell")
            before = _own_word(machine.address)
            assert place.use(session).busy, "the browser is closed, the kernel works"
            assert _own_word(machine.address) == before, "our question is no use"
            call(machine.address, "POST", f"kernels/{kernel}/interrupt")
            at_rest = until(lambda: _seen(place, session, busy=False), within=30, what="the end of the cell")
            terminal = call(machine.address, "POST", "terminals").json()["name"]
            with connect(
                f"ws://{machine.address}:8888/lab/terminals/websocket/{terminal}",
                additional_headers=HEADERS,
                proxy=None,
            ) as tab:
                tab.send(json.dumps(["stdin", "true\r"]))
                later = until(lambda: _later(place, session, at_rest), within=30, what="the terminal's activity")
            assert later.known


def _seen(place: Place, session: UUID, **so: bool) -> AppUse | None:
    row = place.use(session)
    return row if all(getattr(row, name) is value for name, value in so.items()) else None


def _later(place: Place, session: UUID, than: AppUse) -> AppUse | None:
    row = place.use(session)
    assert than.last_activity_at is not None
    return row if row.last_activity_at is not None and row.last_activity_at > than.last_activity_at else None


def _own_word(address: str) -> datetime:
    return datetime.fromisoformat(call(address, "GET", "status?no_track_activity=1").json()["last_activity"])
