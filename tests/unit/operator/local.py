"""A local substrate on a short private folder, with the stand-in application or with real ones."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import Any
from uuid import UUID

import httpx

from cluster.operator.state import Pod
from cluster.operator.substrates.local import Ground, LocalSubstrate
from cluster.operator.substrates.local.cards import declared_nodes
from cluster.operator.substrates.local.folders import Folders
from cluster.operator.substrates.local.processes import processes_of, send
from cluster.operator.substrates.local.readonly import Tools
from cluster.operator.substrates.local.recipes import Command, Probe, Recipe, Seat, Terminal
from cluster.operator.substrates.local.record import PodFile, pod_files
from gshare_core.contract import SessionSpec, UnixEndpoint, app_token, parse_endpoint
from tests.unit.operator.build import SESSION
from tests.waiting import until_async

KEY = bytes(range(32))
PROGRAM = Path(__file__).with_name("session_app.py")


def token_of(session: UUID, run: int) -> str:
    return app_token(KEY, session, run)


def stand_in(folder: Path, python: str = sys.executable) -> Path:
    """The stand-in as one program file, as `GSHARE_TTYD` wants it."""
    program = folder / "ttyd"
    shutil.copy(PROGRAM, folder / "session_app.py")
    program.write_text(f'#!/bin/sh\nexec {python} {folder / "session_app.py"} "$@"\n')
    program.chmod(0o755)
    return program


@dataclass(frozen=True)
class StandIn:
    """The stand-in under the name of any application."""

    program: Path
    optional: bool = False
    why_missing: str | None = None

    def missing(self) -> str | None:
        return self.why_missing

    def command(self, seat: Seat) -> Command:
        return Terminal(self.program).command(seat)

    def probe(self, seat: Seat) -> Probe:
        return Terminal(self.program).probe(seat)


@dataclass
class Cluster:
    """A local cluster in one folder; `restarted()` is what the next operator would see."""

    folder: Path
    recipes: Mapping[str, Recipe]
    separate_users: bool = False
    tools: Tools = field(default_factory=Tools)
    substrate: LocalSubstrate = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything that is not on disk."""
        ground = Ground(
            pods=self.folder / "pods",
            folders=Folders(self.folder / "data", self.folder / "sockets"),
            nodes=declared_nodes(None),
            recipes=self.recipes,
            path="/usr/local/bin:/usr/bin:/bin",
            separate_users=self.separate_users,
            tools=self.tools,
        )
        self.substrate = LocalSubstrate(ground, token_of)

    async def start(self, document: SessionSpec) -> None:
        await self.substrate.start(document, now())

    async def pods(self) -> list[Pod]:
        return list(await self.substrate.observe(now()))

    async def pod(self, run: int = 1, session: UUID = SESSION) -> Pod | None:
        return next((pod for pod in await self.pods() if (pod.session, pod.run) == (session, run)), None)

    async def until(
        self, condition: Callable[[Pod], Any], *, run: int = 1, session: UUID = SESSION, within: float = 30, what: str
    ) -> Pod:
        """Wait until the pod is so."""

        seen: list[Pod] = []

        async def so() -> bool:
            pod = await self.pod(run, session)
            if pod is not None and condition(pod):
                seen.append(pod)
            return bool(seen)

        await until_async(so, within=within, what=what)
        return seen[-1]

    async def ready(self, document: SessionSpec) -> Pod:
        """Start a session and wait until it answers."""
        await self.start(document)
        return await self.until(lambda pod: pod.ready, run=document.run, session=document.session_id, what="readiness")

    async def end(self, run: int = 1) -> None:
        """Stop, and remove what is dead."""
        await self.substrate.stop(SESSION, run, now())
        await self.until(lambda pod: not pod.alive, run=run, what="the end of every process")
        await self.substrate.remove(SESSION, run)

    def processes(self, run: int = 1) -> list[int]:
        return [process.pid for process in processes_of(PodFile.of(self.folder / "pods", SESSION, run).mark)]


def now() -> datetime:
    return datetime.now(UTC)


def order(pod: Pod, app: str, what: str = "", *, token: str | None = None, prefix: str = "terminal") -> httpx.Response:
    """Tell a pod's application something over its endpoint."""
    endpoint = parse_endpoint(pod.endpoints[app])
    socket = endpoint.path if isinstance(endpoint, UnixEndpoint) else None
    base = "http://localhost" if socket else f"http://{endpoint}"
    secret = token_of(pod.session, pod.run) if token is None else token
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket), timeout=5) as client:
        return client.get(f"{base}/{prefix}/{what}", auth=("gshare", secret))


def tell_and_lose(pod: Pod, app: str, what: str) -> None:
    """An order after which the application does not answer any more."""
    try:
        order(pod, app, what)
    except httpx.HTTPError:
        return
    raise AssertionError(f"the application survived {what}")


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket, which other users may pass; processes left in it are ended."""
    folder = Path(tempfile.mkdtemp(prefix="gso-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        pods = folder / "pods"
        for file in pod_files(pods) if pods.exists() else ():
            send(processes_of(file.mark), SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
