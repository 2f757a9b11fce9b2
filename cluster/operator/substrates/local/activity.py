"""What each local session does: CPU of all its processes, its GPU, what was last done in its applications.

Guarantees: use is a Jupyter kernel that executes or its last activity, and input into a terminal of any application (ttyd,
JupyterLab, VS Code); open connections, polls and output are none. Our own questions leave no trace that looks like use.
An application that does not answer is said to be unknown. One session's failure hides no other's sample.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

from pydantic import ValidationError

from cluster.operator.reading.apps import KERNELS, Kernels, read_kernels
from cluster.operator.state import Unavailable
from cluster.operator.store import write_atomically
from cluster.operator.substrates import AppTokens
from cluster.operator.substrates.local.asking import ask
from cluster.operator.substrates.local.counter import Counter
from cluster.operator.substrates.local.folders import Folders
from cluster.operator.substrates.local.gpu import GpuMeter
from cluster.operator.substrates.local.processes import Stat, app_of, last_input_of, stats_of
from cluster.operator.substrates.local.recipes import Probe, Recipe, Seat
from cluster.operator.substrates.local.record import AppRecord, PodFile, PodRecord
from gshare_core.contract import Activity, AppName, AppUse, parse_endpoint

log = logging.getLogger(__name__)

HISTORY_MAX = 2_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Watcher:
    """Takes samples of pods; used by one event loop."""

    recipes: Mapping[str, Recipe]
    folders: Folders
    tokens: AppTokens
    gpus: GpuMeter

    async def look(self, pods: Sequence[tuple[PodFile, PodRecord]], now: datetime) -> dict[tuple[UUID, int], Activity]:
        """A sample of each pod, by session and run."""
        stats = stats_of({file.mark: record.uid for file, record in pods})
        samples = await asyncio.gather(
            *(self._sample_or_none(file, record, stats[file.mark], now) for file, record in pods)
        )
        return {
            (file.session, file.run): sample
            for (file, _record), sample in zip(pods, samples, strict=True)
            if sample is not None
        }

    async def _sample_or_none(
        self, file: PodFile, record: PodRecord, stats: Sequence[Stat], now: datetime
    ) -> Activity | None:
        try:
            return await self._sample(file, record, stats, now)
        except (OSError, Unavailable, ValueError) as error:
            log.warning("activity of pod %s: %s", file.name, error)
            return None

    async def _sample(self, file: PodFile, record: PodRecord, stats: Sequence[Stat], now: datetime) -> Activity:
        counter = _counter(file.folder / "cpu.json").advanced(stats)
        write_atomically(file.folder / "cpu.json", counter.model_dump_json())
        inputs = _inputs(stats)
        served = [app for app in record.apps if not app.missing and app.name in get_args(AppName)]
        pids = {stat.process.pid for stat in stats}
        return Activity(
            at=now,
            cpu_usec=counter.usec,
            memory_bytes=sum(stat.memory_pages for stat in stats) * PAGE_BYTES,
            gpu=self.gpus.read(record.spec, pids, now),
            apps=tuple([await self._app(file, record, app, inputs) for app in served]),
        )

    async def _app(self, file: PodFile, record: PodRecord, app: AppRecord, inputs: Mapping[str, datetime]) -> AppUse:
        tree = self.folders.tree(file.name)
        typed, busy, known = inputs.get(app.name), False, app.answered
        edited = _last_edit(tree.home) if app.name == "code" else None
        kernel_at = None
        if app.name == "lab" and app.endpoint:
            token = self.tokens(record.spec.session_id, record.spec.run)
            seat = Seat(parse_endpoint(app.endpoint), token, tree.root, tree.home, tree.tmp)
            kernels = await _kernels(seat, self.recipes[app.name].probe(seat).headers)
            known = kernels is not None
            busy = kernels is not None and kernels.busy
            kernel_at = kernels.last_activity_at if kernels else None
        moments = [moment for moment in (typed, edited, kernel_at) if moment is not None]
        row: dict[str, Any] = {"app": app.name, "known": known, "busy": busy}
        return AppUse(**row, last_activity_at=max(moments, default=None))


async def _kernels(seat: Seat, headers: Mapping[str, str]) -> Kernels | None:
    """Jupyter's kernels; None when it does not tell."""
    answer = await ask(seat.endpoint, Probe(KERNELS, headers))
    return read_kernels(answer.content) if answer is not None and answer.status_code == 200 else None


def _inputs(stats: Sequence[Stat]) -> dict[str, datetime]:
    """When somebody last typed into a terminal of each application."""
    found: dict[str, datetime] = {}
    for terminal, stat in {stat.terminal: stat for stat in stats if stat.terminal is not None}.items():
        at, app = last_input_of(terminal), app_of(stat.process)
        if at is not None:
            # Whoever wiped the mark from its environment still is a terminal of the session.
            name = app or "terminal"
            found[name] = max(at, found.get(name, at))
    return found


def _last_edit(home: Path) -> datetime | None:
    """When VS Code last put a saved file into its local history.

    The folder is the session's own to fill: no more than `HISTORY_MAX` of it is looked at.
    """
    history = home / ".local/share/code-server/User/History"
    try:
        with os.scandir(history) as entries:
            times = [entry.stat(follow_symlinks=False).st_mtime for entry in islice(entries, HISTORY_MAX)]
    except OSError:
        return None
    return datetime.fromtimestamp(max(times), UTC) if times else None


def _counter(path: Path) -> Counter:
    try:
        return Counter.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Counter()
    except (OSError, ValidationError):
        log.warning("%s cannot be read: the counter begins anew", path)
        return Counter()
