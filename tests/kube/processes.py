"""Processes that tests start: their output in a file, ended with the test run even when that is killed."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.spawning import spawn


class Died(Exception):
    """A process ended although it should serve; says its last words."""


class Program:
    """One process, its output in a file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        at_parents_end: signal.Signals = signal.SIGKILL,
    ) -> None:
        """`environment` is all that it gets (left out: the test run's), `folder` where it works (left out: the log's)."""
        self.command = [str(part) for part in command]
        self.log, self._at_parents_end = log, at_parents_end
        self.environment, self.folder = environment, folder or log.parent
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return Path(self.command[0]).name

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = spawn(
                self.command,
                at_parents_end=self._at_parents_end,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing when it has ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def reap(self) -> bool:
        """Whether it has ended; it is no zombie then."""
        return self.process is None or self.process.poll() is not None

    def check(self) -> None:
        """Raises Died when the process has ended."""
        if self.process is None or self.process.poll() is not None:
            words = (
                self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:] if self.log.exists() else []
            )
            raise Died(f"{self.name} has ended:\n" + "\n".join(words))

    def stop(self, within: float = 10.0, *, first: signal.Signals = signal.SIGTERM) -> None:
        """End it: ask, then kill. Nothing when it does not run."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(first)
            try:
                self.process.wait(within)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self.process = None


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on now; another process may take one before it is used."""
    with_sockets = [socket.socket() for _ in range(count)]
    try:
        for each in with_sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in with_sockets]
    finally:
        for each in with_sockets:
            each.close()


def run(command: Iterable[str | Path], folder: Path) -> None:
    """Run a command to its end in a folder; raises CalledProcessError with its output."""
    subprocess.run([str(part) for part in command], cwd=folder, check=True, capture_output=True, env=dict(os.environ))


class TlsServer(ThreadingHTTPServer):
    """Answers over TLS on a free port of loopback, with a certificate of its own for `127.0.0.1` and `localhost`."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], folder: Path, name: str) -> None:
        self.certificate = folder / f"{name}.crt"
        subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-days", "2"]
        keys = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.crt",
        ]
        run(["openssl", "req", "-x509", "-nodes", *subject, *keys], folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, folder / f"{name}.key")
        super().__init__(("127.0.0.1", 0), handler)
        # In the thread of its connection, so that who does not finish it keeps nobody else waiting.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of tests break off, and distrust certificates, on purpose."""
