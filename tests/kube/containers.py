"""What a session's image does when a pod starts it: the applications as real processes, on the pod's own address.

An image that keeps the contract of `docs/session-images.md`, made of the local substrate's own recipes: it knows of its pod
what stands in the container's environment and nothing else. Every pod has an address of 127.0.0.0/8, so that the ports are
those that the document says. Files live in a folder instead of a file system of their own: `HOME` names it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import randbelow
from signal import SIGTERM

import httpx
import psutil

from cluster.operator.substrates.local.recipes import Command, Recipe, Seat, recipes_of
from gshare_core.contract import TcpEndpoint
from gshare_site.embedded.places import session_venv
from tests.kube.processes import Program
from tests.kube.rest import JSON

Secret = Callable[[str, str], str]  # name and key → value
PROGRAMS = session_venv() / "bin"
_CLAIM_PORT = 20080  # no application's, nor one that a client may be given
_claims: list[socket.socket] = []


def own_address() -> str:
    """An address of loopback that no other test of this machine has, as long as this run lives.

    Whoever has it holds one port of it; nothing that the run starts inherits that.
    """
    for _ in range(100):
        address = f"127.{64 + randbelow(64)}.{randbelow(256)}.{1 + randbelow(254)}"
        claim = socket.socket()
        try:
            claim.bind((address, _CLAIM_PORT))
        except OSError:
            claim.close()
        else:
            _claims.append(claim)
            return address
    raise AssertionError(f"somebody holds port {_CLAIM_PORT} of every address of loopback")


def image() -> Mapping[str, Recipe]:
    """The applications that the image has: those of the session runtime that `make setup` makes."""
    known = recipes_of(python=PROGRAMS / "python", ttyd=PROGRAMS / "ttyd", code_server=None)
    return {app: known[app] for app in ("lab", "terminal")}


def environment_of(pod: JSON, secret: Secret) -> dict[str, str]:
    """The container's environment as a kubelet makes it: values, and those that come from secrets."""
    found = {}
    for each in pod["spec"]["containers"][0]["env"]:
        if "value" in each:
            found[each["name"]] = each["value"]
        else:
            reference = each["valueFrom"]["secretKeyRef"]
            found[each["name"]] = secret(reference["name"], reference["key"])
    return found


@dataclass
class Container:
    """The processes of one pod. `ip` is the pod's address, `home` what its /home/work is."""

    pod: JSON
    folder: Path
    home: Path
    ip: str = field(default_factory=own_address)
    programs: list[Program] = field(default_factory=list)
    _whose: tuple[str, str] = ("", "")

    def start(self, secret: Secret) -> None:
        """What the image's entry does: every application that is asked for and that the image has."""
        given = environment_of(self.pod, secret)
        self._whose = given["GSHARE_SESSION"], given["GSHARE_RUN"]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        for app in given["GSHARE_APPS"].split(","):
            recipe = image().get(app)
            if recipe is not None:
                endpoint = TcpEndpoint(self.ip, int(given[f"GSHARE_PORT_{app.upper()}"]))
                command = recipe.command(Seat(endpoint, given["GSHARE_TOKEN"], self.home, self.home, self.folder))
                self._spawn(app, command, given)

    def _spawn(self, app: str, command: Command, given: Mapping[str, str]) -> None:
        base = {"PATH": f"{PROGRAMS}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": str(self.folder)}
        environment = {**base, **given, "HOME": str(self.home), **command.environment}
        log = self.folder / f"{app}.log"
        self.programs.append(Program(command.line, log, environment=environment, folder=self.home))
        self.programs[-1].start()

    @property
    def is_ready(self) -> bool:
        """What the pod's readiness probe says."""
        probe = self.pod["spec"]["containers"][0]["readinessProbe"]
        if "httpGet" not in probe:
            with socket.socket() as dialled:
                return dialled.connect_ex((self.ip, probe["tcpSocket"]["port"])) == 0
        asked = probe["httpGet"]
        try:
            url = f"http://{self.ip}:{asked['port']}{asked['path']}"
            return httpx.get(url, trust_env=False, timeout=probe["timeoutSeconds"]).status_code < 400
        except httpx.TransportError:
            return False

    def ask_to_end(self) -> None:
        """SIGTERM to the entry, which passes it on: how a kubelet begins the end of a pod."""
        for program in self.programs:
            program.send(SIGTERM)

    def is_gone(self) -> bool:
        """Whether nothing of it lives. What outlives the applications goes with them, as it does with a container's entry."""
        members = self._members()
        if all(program.reap() for program in self.programs):
            for member in members:
                member.kill()
        return not members

    def kill(self) -> None:
        """SIGKILL to all: the pod's grace is over."""
        for member in self._members():
            member.kill()
        for program in self.programs:
            program.stop(10)

    def _members(self) -> list[psutil.Process]:
        """What has the pod's environment, as what the applications start has it too."""
        for program in self.programs:
            program.reap()
        return [process for process in psutil.process_iter() if _whose(process) == self._whose]


def _whose(process: psutil.Process) -> tuple[str, str]:
    try:
        given = process.environ()
    except (psutil.Error, OSError):
        return ("", "nobody's")
    return given.get("GSHARE_SESSION", ""), given.get("GSHARE_RUN", "")


@contextmanager
def running(container: Container, secret: Secret) -> Iterator[Container]:
    """The pod's processes, killed at the end."""
    try:
        container.start(secret)
        yield container
    finally:
        container.kill()
