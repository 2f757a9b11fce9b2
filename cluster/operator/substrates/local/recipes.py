"""How each application is started as a plain process, and how one sees that it answers.

Guarantees: the app token stands in the environment or, where an application takes it no other way (ttyd), on the
command line; a probe carries the credentials, so that "ready" means that the proxy will get through.
Prefixes: `lab` serves below ``/lab/`` (its base_url), `terminal` below ``/terminal/``, `code` below ``/``.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gshare_core.contract import Endpoint, TcpEndpoint


@dataclass(frozen=True, slots=True)
class Seat:
    """What an application gets: where to listen, its token, its folders."""

    endpoint: Endpoint
    token: str
    root: Path
    home: Path
    tmp: Path


@dataclass(frozen=True, slots=True)
class Command:
    """A command line and what its environment has beyond every session's."""

    line: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """A request that a ready application answers with a status below 400."""

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Recipe(Protocol):
    """One kind of application."""

    @property
    def optional(self) -> bool:
        """Whether a session may run without it."""
        ...

    def missing(self) -> str | None:
        """Why it cannot be served on this machine; None when it can."""
        ...

    def command(self, seat: Seat) -> Command:
        """How it is started."""
        ...

    def probe(self, seat: Seat) -> Probe:
        """How to see that it answers."""
        ...


@dataclass(frozen=True, slots=True)
class Lab:
    """JupyterLab under the interpreter that has it."""

    python: Path | None
    optional: bool = False

    def missing(self) -> str | None:
        if self.python is None:
            return "GSHARE_SESSION_PYTHON is not set"
        return None if os.access(self.python, os.X_OK) else f"{self.python} cannot be run"

    def command(self, seat: Seat) -> Command:
        where: tuple[str, ...]
        if isinstance(seat.endpoint, TcpEndpoint):
            where = (f"--ip={seat.endpoint.host}", f"--port={seat.endpoint.port}", "--ServerApp.port_retries=0")
        else:
            where = (f"--ServerApp.sock={seat.endpoint.path}",)
        return Command(
            (
                str(self.python),
                "-P",  # a file json.py in the user's home must not break the server
                "-m",
                "jupyterlab",
                "--no-browser",
                *(("--allow-root",) if os.geteuid() == 0 else ()),
                *where,
                "--ServerApp.base_url=/lab/",
                f"--ServerApp.root_dir={seat.root}",
                f"--ServerApp.preferred_dir={seat.home}",
                "--ServerApp.allow_remote_access=True",
                "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
                "--LabApp.news_url=None",
                f"--ServerApp.terminado_settings=shell_command=['{_shell()}']",
            ),
            {"JUPYTER_TOKEN": seat.token, "JUPYTER_RUNTIME_DIR": str(seat.tmp / "jupyter")},
        )

    def probe(self, seat: Seat) -> Probe:
        return Probe("/lab/api/status", {"Authorization": f"token {seat.token}"})


@dataclass(frozen=True, slots=True)
class Terminal:
    """ttyd: a shell in the browser. `-H` would believe any value, so the credential is its only check."""

    program: Path | None
    optional: bool = False

    def missing(self) -> str | None:
        return None if self.program else "no ttyd on this machine (GSHARE_TTYD)"

    def command(self, seat: Seat) -> Command:
        where: tuple[str, ...]
        if isinstance(seat.endpoint, TcpEndpoint):
            where = ("-i", seat.endpoint.host, "-p", str(seat.endpoint.port))
        else:
            where = ("-i", seat.endpoint.path)
        credential = ("-O", "-c", f"gshare:{seat.token}")
        quiet = ("-d", "3")  # errors and warnings: its notices would put the credential into the log
        line = (str(self.program), *where, "-b", "/terminal", *credential, *quiet, "-W", _shell())
        return Command(line, {"TERM": "xterm-256color"})

    def probe(self, seat: Seat) -> Probe:
        basic = base64.b64encode(f"gshare:{seat.token}".encode()).decode()
        return Probe("/terminal/", {"Authorization": f"Basic {basic}"})


@dataclass(frozen=True, slots=True)
class Code:
    """code-server, where present. It has no header to check: its socket's folder is private instead."""

    program: Path | None
    optional: bool = True

    def missing(self) -> str | None:
        return None if self.program else "no code-server on this machine (GSHARE_CODE_SERVER)"

    def command(self, seat: Seat) -> Command:
        if isinstance(seat.endpoint, TcpEndpoint):
            raise TypeError("code-server without authentication listens on a socket only")
        return Command(
            (
                str(self.program),
                "--auth=none",
                f"--socket={seat.endpoint.path}",
                "--socket-mode=0600",
                "--disable-telemetry",
                "--disable-update-check",
                str(seat.home),
            )
        )

    def probe(self, seat: Seat) -> Probe:
        return Probe("/healthz")


def recipes_of(*, python: Path | None, ttyd: Path | None, code_server: Path | None) -> dict[str, Recipe]:
    """The applications by name; programs that are not named are looked for on PATH."""
    return {
        "lab": Lab(python),
        "terminal": Terminal(ttyd or _on_path("ttyd")),
        "code": Code(code_server or _on_path("code-server")),
    }


def _on_path(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found) if found else None


def _shell() -> str:
    return shutil.which("bash") or "/bin/sh"
