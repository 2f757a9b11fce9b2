"""The operator's process: `python -m cluster.operator`.

SIGTERM, or any other death, leaves the sessions running; the next operator adopts them. SIGINT means that the cluster
is being stopped: every session is ended, reported as `cluster_stopped` for as long as somebody listens, and the rest of
the reports stay on disk for the next start.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from cluster.operator.client import ControlPlane, TokenFile
from cluster.operator.config import NVML, Config, ConfigError, is_for_kubernetes, kube_config_of
from cluster.operator.feed import Follower, Wishes
from cluster.operator.inventory import Beat
from cluster.operator.leader import Leadership
from cluster.operator.loop import Operator
from cluster.operator.pace import wait_until
from cluster.operator.reporter import Reporter
from cluster.operator.store import Store
from cluster.operator.substrates.local import Ground, LocalSubstrate
from cluster.operator.substrates.local.cards import CardsError, declared_nodes, discovered_nodes
from cluster.operator.substrates.local.folders import Folders
from cluster.operator.substrates.local.gpu import NvmlGpus
from cluster.operator.substrates.local.recipes import recipes_of
from cluster.operator.substrates.local.users import SessionUsersError, separate_users
from gshare_core.clock import Clock
from gshare_core.contract import NodeRow

log = logging.getLogger(__name__)

_END_SECONDS = 20.0
_DELIVERY_SECONDS = 10.0
_NEW_OBJECTS = 10_000


def _spare_the_collector() -> None:
    """Look for circles of garbage after 10,000 new objects instead of 700: nearly all that is made here, documents and answers,
    has none, and lives for one call or for as long as its session."""
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


class SystemClock:
    """The machine's clock; the receiver corrects for it by `sent_at`."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def main() -> int:
    """Run until a signal. Exit status 2: the environment is wrong."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    _spare_the_collector()
    try:
        if is_for_kubernetes(os.environ):
            # Kubernetes' client is large: only who needs it loads it.
            process = importlib.import_module("cluster.operator.substrates.kubernetes.process")
            return int(asyncio.run(process.serve(kube_config_of(os.environ), SystemClock())))
        config = Config.of(os.environ)
        substrate = local_substrate(config, TokenFile(config.token_file))
    except (ConfigError, CardsError, SessionUsersError) as error:
        log.error("the operator cannot start: %s", error)  # noqa: TRY400 (the message says it all)
        return 2
    return asyncio.run(_Process(config, substrate, SystemClock()).run())


def local_substrate(config: Config, tokens: TokenFile) -> LocalSubstrate:
    """The local substrate that the configuration describes. Raises `CardsError` or `SessionUsersError`."""
    config.state.mkdir(parents=True, exist_ok=True)
    config.state.chmod(0o711)
    sockets = config.state / "sockets"
    folders = Folders(config.sessions, sockets)
    programs = [program for program in (config.session_python, config.ttyd, config.code_server) if program]
    path = "/usr/local/bin:/usr/bin:/bin"
    return LocalSubstrate(
        Ground(
            pods=config.state / "pods",
            folders=folders,
            nodes=_nodes(config),
            recipes=recipes_of(python=config.session_python, ttyd=config.ttyd, code_server=config.code_server),
            path=f"{config.session_python.parent}:{path}" if config.session_python else path,
            separate_users=separate_users(config.session_users, folders=(config.sessions, sockets), programs=programs),
            gpus=NvmlGpus(_nvml()) if config.cards_file == NVML else None,
        ),
        tokens.app_token,
    )


def _nvml() -> ModuleType:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise CardsError("GSHARE_OPERATOR_CARDS_FILE=nvml needs the package nvidia-ml-py") from error


def _nodes(config: Config) -> tuple[NodeRow, ...]:
    if config.cards_file != NVML:
        return declared_nodes(config.cards_file)
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)
    disk = os.statvfs(config.sessions)
    return discovered_nodes(
        _nvml(),
        cpu_milli=(os.cpu_count() or 1) * 1000,
        memory_mib=memory_mib,
        scratch_gib=disk.f_bavail * disk.f_frsize // 1024**3,
    )


class _Process:
    """One life of the operator: wait for the lead, run every loop, end as the signal says."""

    def __init__(self, config: Config, substrate: LocalSubstrate, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._substrate = substrate
        self._signalled = asyncio.Event()
        self._number = signal.SIGTERM

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        leadership = Leadership(self._config.state / "leader.lock")
        if not await self._before_signal(leadership.acquire()):
            return 0
        log.info("operator leads, state in %s", self._config.state)
        tokens = TokenFile(self._config.token_file)
        async with ControlPlane(self._config.internal_url, tokens) as plane:
            return await self._lead(plane, Store(self._config.state / "memory"))

    async def _lead(self, plane: ControlPlane, store: Store) -> int:
        wishes = Wishes()
        reporter = Reporter(plane, store, self._clock)
        operator = Operator(self._substrate, store, wishes, self._clock, on_report=reporter.wake)
        follower = Follower(plane, wishes, operator.wake)
        beat = Beat(plane, self._substrate, store, operator, self._clock, watched=self._substrate)
        signalled = asyncio.create_task(self._signal())
        loops = [
            asyncio.create_task(work)
            for work in (operator.run(), follower.run(), reporter.run(), beat.run(), plane.keep_renewed(self._clock))
        ]
        try:
            await asyncio.wait([*loops, signalled], return_when=asyncio.FIRST_COMPLETED)
            for task in loops:
                if task.done():
                    task.result()  # a loop never returns: this raises what ended it
            if self._number is signal.SIGINT:
                return await self._end_cluster(operator, store)
            log.info("leaving; the sessions run on")
            return 0
        finally:
            for task in (*loops, signalled):
                task.cancel()
            await asyncio.gather(*loops, signalled, return_exceptions=True)
            store.flush()

    async def _end_cluster(self, operator: Operator, store: Store) -> int:
        """End every pod, then wait a little until the reports are taken. Exit status 1: something still runs."""
        log.info("the cluster is being stopped")
        operator.ending = True
        operator.wake()
        asked_at = self._clock.now()
        await wait_until(lambda: _all_ended(operator, asked_at), within=_END_SECONDS)
        await wait_until(lambda: not store.pending(), within=_DELIVERY_SECONDS)
        if operator.pods:
            log.error("%s sessions have not ended", len(operator.pods))
            return 1
        log.info("every session has ended; %s reports wait for the next start", len(store.pending()))
        return 0

    async def _before_signal(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work unless a signal comes first; returns whether it was done."""
        tasks = [asyncio.create_task(work), asyncio.create_task(self._signal())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done = not self._signalled.is_set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return done

    async def _signal(self) -> None:
        await self._signalled.wait()

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._signalled.is_set():
            self._number = number
            self._signalled.set()
        elif number is signal.SIGTERM:
            # A second SIGINT is the terminal's beside the supervisor's; SIGTERM means that nobody waits any longer.
            log.warning("told to leave before everything has ended")
            os._exit(1)


def _all_ended(operator: Operator, asked_at: datetime) -> bool:
    return operator.observed_at is not None and operator.observed_at > asked_at and not operator.pods
