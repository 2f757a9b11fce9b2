"""Real server processes for the tests of the door: the echo application, and GShare's own listeners."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.spawning import spawn
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
_LISTENING = (psutil.CONN_LISTEN, psutil.CONN_NONE)  # a unix socket has no status
FLAGS = (
    "--http=httptools",
    "--ws=websockets-sansio",
    "--ws-per-message-deflate=false",
    "--no-server-header",
    "--no-proxy-headers",
    "--no-access-log",
    "--timeout-graceful-shutdown=2",
    "--log-level=warning",
)


@dataclass(frozen=True)
class Served:
    """A running server: where it listens and its process."""

    port: int
    process: psutil.Process

    @property
    def memory_mib(self) -> float:
        """Resident memory."""
        return float(self.process.memory_info().rss) / 2**20


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    application: str, *, port: int, env: Mapping[str, str] | None = None, flags: tuple[str, ...] = ()
) -> Iterator[Served]:
    """uvicorn with the project's own flags on a loopback port, ended afterwards."""
    command = [sys.executable, "-m", "uvicorn", application, "--host=127.0.0.1", f"--port={port}", *FLAGS, *flags]
    with running(command, env) as process:
        until(lambda: _answers(process, ("127.0.0.1", port)), within=60, what=f"{application} listens")
        yield Served(port, psutil.Process(process.pid))


@contextmanager
def echo_app(where: Path | int, host: str = "127.0.0.1") -> Iterator[None]:
    """The echo application on a unix socket or a port of a loopback address."""
    place = [f"--uds={where}"] if isinstance(where, Path) else [f"--port={where}", f"--host={host}"]
    command = [sys.executable, "-m", "uvicorn", "tests.door.echo:application", *place, *FLAGS[:2]]
    with running([*command, "--log-level=critical", "--ws-ping-interval=0.5"], None) as process:
        address = str(where) if isinstance(where, Path) else (host, where)
        until(lambda: _answers(process, address), within=30, what="the echo application listens")
        yield


@contextmanager
def running(command: list[str], env: Mapping[str, str] | None) -> Iterator[subprocess.Popen[bytes]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GSHARE_")}
    process = spawn(command, at_parents_end=signal.SIGTERM, cwd=ROOT, env=dict(env) if env is not None else clean)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _answers(process: subprocess.Popen[bytes], address: str | tuple[str, int]) -> bool:
    """Whether it listens there itself: somebody else may answer at an address of loopback, until this one has failed."""
    assert process.poll() is None, f"the server ended with {process.returncode}"
    try:
        open_ones = psutil.Process(process.pid).net_connections("unix" if isinstance(address, str) else "tcp")
    except psutil.Error:
        return False
    return any(each.laddr == address and each.status in _LISTENING for each in open_ones)
