"""Whether a session is idle: pure judgement of what was measured where it runs.

Guarantees: idle only when GPU, CPU and applications are all known and all quiet, for the whole window of the policy; what
cannot be known (monitor down, application that does not answer, samples that stopped) is never idle. Start and resume reset
the clock. Time in which the control plane was deaf is added before the pause. Counters are cumulative and stamps absolute, so
that a lost sample costs nothing.
Refuses: absurd samples. Stamps from the future or before the run, negative figures, "not supported" sentinels of NVML and
DCGM and memory beyond the cards are dropped, not clamped into something that looks like use or quiet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from gshare_core.contract import Activity, GpuSource, GpuUse

GPU_QUIET_PERCENT = 1.0
CPU_QUIET_PERCENT = 5
JUST_NOW = timedelta(minutes=1)  # what is younger is use going on, not use that has ended
CLOCKS = timedelta(seconds=5)  # a stamp may be so far ahead: clocks differ by as much
FRESH = timedelta(minutes=2)  # four beats: what is older says nothing about now
PERCENT_MAX = 1_000.0  # HAMi reports somewhat over 100 at times [HAMi 555]; sentinels are far beyond
CORES_MAX = 4_096
POINTS = 120

#: Sources that see the run's own processes: no series while they answer means that CUDA was never used.
_OWN_PROCESSES = frozenset({GpuSource.HAMI, GpuSource.NVML, GpuSource.DECLARED})


class State(StrEnum):
    """What a part, or the whole, comes to."""

    OFF = "off"  # no policy asks
    IN_USE = "in_use"
    UNKNOWN = "unknown"
    IDLE = "idle"


#: Why a part of the evidence is unknown, by part: everything there is.
UNKNOWN = (
    ("gpu", "no_sample"),
    ("gpu", "monitor_down"),
    ("gpu", "no_series"),
    ("gpu", "not_measured"),
    ("cpu", "no_sample"),
    ("apps", "no_sample"),
    ("apps", "no_answer"),
)


# What was heard ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a sample of a run can be: since when it exists, the present, and the memory of its cards."""

    opened_at: datetime
    now: datetime
    vram_mib: int


@dataclass(frozen=True, slots=True)
class App:
    """What one application said last."""

    app: str
    known: bool
    busy: bool
    active_at: datetime | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the GPU's source said last."""

    source: GpuSource
    healthy: bool
    present: bool
    last_kernel_at: datetime | None
    use_percent: float | None
    vram_mib: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of a run's samples. `cpu`: (moment, cumulative microseconds), oldest first, all of one counter:
    that of `cpu_epoch`, which is known since its first reading, or (None) the one that began with the run.

    `gpu` is the last that could be believed, of the moment `gpu_at`. `gpu_busy_at`: the last kernel, or the last sample that
    showed use. `gpu_known_since`: percentages without a break since.
    """

    at: datetime | None = None
    cpu: tuple[tuple[datetime, int], ...] = ()
    cpu_epoch: int | None = None
    memory_bytes: int | None = None
    gpu: Gpu | None = None
    gpu_at: datetime | None = None
    gpu_busy_at: datetime | None = None
    gpu_known_since: datetime | None = None
    apps: tuple[App, ...] = ()
    app_active_at: datetime | None = None


def fold(memory: Memory, sample: Activity, bounds: Bounds, *, window: timedelta) -> Memory:
    """The memory with one more sample; unchanged by one that is older, from the future or from before the run."""
    at = _sane_time(sample.at, bounds)
    if at is None or (memory.at is not None and at <= memory.at):
        return memory
    apps = tuple(App(row.app, row.known, row.busy, _sane_time(row.last_activity_at, bounds)) for row in sample.apps)
    heard = replace(
        fold_usage(memory, sample, bounds, window=window),
        at=at,
        apps=apps,
        app_active_at=_latest(memory.app_active_at, *(at if app.busy else app.active_at for app in apps)),
    )
    gpu = _sane_gpu(sample.gpu, bounds)
    return heard if gpu is None else _with_gpu(heard, gpu, at)


def fold_usage(memory: Memory, sample: Activity, bounds: Bounds, *, window: timedelta) -> Memory:
    """The memory with what a sample says of CPU and memory alone, as a node's agent sends it.

    A counter of the whole run outranks one that began later while it is fresh. Unchanged by a reading that is not newer.
    """
    at = _sane_time(sample.at, bounds)
    last = memory.cpu[-1][0] if memory.cpu else None
    if at is None or (last is not None and at <= last):
        return memory
    used = sample.memory_bytes if _is_sane_bytes(sample.memory_bytes) else memory.memory_bytes
    usec = _sane_usec(sample.cpu_usec, at, bounds)
    whole_is_fresh = memory.cpu_epoch is None and last is not None and at - last <= FRESH
    if usec is None or (sample.cpu_epoch is not None and whole_is_fresh):
        return replace(memory, memory_bytes=used)
    points = memory.cpu if sample.cpu_epoch == memory.cpu_epoch else ()
    return replace(memory, cpu=_with_point(points, at, usec, window), cpu_epoch=sample.cpu_epoch, memory_bytes=used)


def _with_gpu(memory: Memory, gpu: Gpu, at: datetime) -> Memory:
    used = gpu.last_kernel_at is None and (gpu.use_percent or 0) >= GPU_QUIET_PERCENT
    measured = gpu.healthy and gpu.present and gpu.use_percent is not None
    unbroken = memory.gpu_known_since is not None and memory.gpu_at is not None and at - memory.gpu_at <= FRESH
    return replace(
        memory,
        gpu=gpu,
        gpu_at=at,
        gpu_busy_at=_latest(memory.gpu_busy_at, gpu.last_kernel_at, at if used else None),
        gpu_known_since=(memory.gpu_known_since if unbroken else at) if measured else None,
    )


def _sane_time(at: datetime | None, bounds: Bounds) -> datetime | None:
    if at is None or not bounds.opened_at <= at <= bounds.now + CLOCKS:
        return None
    return min(at, bounds.now)


def _sane_usec(usec: int | None, at: datetime, bounds: Bounds) -> int | None:
    """A reading of the counter that a machine can have reached since the run was made."""
    lived = (at - bounds.opened_at) // timedelta(microseconds=1)
    return usec if usec is not None and 0 <= usec <= lived * CORES_MAX else None


def _is_sane_bytes(amount: int | None) -> bool:
    return amount is not None and 0 <= amount < 2**50


def _sane_gpu(sample: GpuUse | None, bounds: Bounds) -> Gpu | None:
    """The sample, or None when its figures show that it is none: then the one before stands, for as long as it is fresh."""
    if sample is None:
        return None
    if sample.vram_mib is not None and not 0 <= sample.vram_mib <= bounds.vram_mib * 1.05 + 1024:
        return None
    percent = sample.use_percent
    if percent is not None and not 0 <= percent <= PERCENT_MAX:
        percent = None  # "not supported" of NVML (-1) and DCGM (2^31 and beyond)
    kernel = sample.last_kernel_at
    if kernel is not None and kernel > bounds.now + CLOCKS:
        return None  # who says this is wrong about the rest too
    return Gpu(
        sample.source,
        sample.healthy,
        sample.present,
        # Older than the run (or never, which some say as 1970): none since it began.
        None if kernel is None else min(max(kernel, bounds.opened_at), bounds.now),
        None if percent is None else min(percent, 100.0),
        sample.vram_mib,
    )


def _with_point(
    points: tuple[tuple[datetime, int], ...], at: datetime, usec: int, window: timedelta
) -> tuple[tuple[datetime, int], ...]:
    """The counter's readings, thinned: enough to see the window, one reading at or before its start."""
    spacing = max(timedelta(minutes=1), window / POINTS)
    kept = points[:-1] if len(points) > 1 and points[-1][0] - points[-2][0] < spacing else points
    start = at - max(window, timedelta(hours=2))
    first = max((index for index, (moment, _usec) in enumerate(kept) if moment <= start), default=0)
    return (*kept[first:], (at, usec))


def _latest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


# The verdict ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which the control plane listened to nobody."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is judged: running since (start or resume), its size, the policy's window (None: no policy), what puts it off."""

    running_since: datetime
    has_gpu: bool
    cpu_milli: int
    timeout: timedelta | None
    kept_until: datetime | None = None
    deaf: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of evidence: in use, unknown, or quiet since a moment; `facts` say why, as data."""

    state: State
    since: datetime | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The evidence as it is stored and answered."""
        return {"state": self.state.value, "quiet_since": _text(self.since), **self.facts}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`idle_since` and `pause_at` (before any warning) are set when idle; `evidence` by kind: gpu, cpu, apps."""

    state: State
    idle_since: datetime | None
    pause_at: datetime | None
    evidence: Mapping[str, Any]


def judge(what: Circumstances, memory: Memory, now: datetime) -> Verdict:
    """The verdict of one look. The pause is due at `pause_at`, after its warnings."""
    if what.timeout is None:
        return Verdict(State.OFF, None, None, {})
    parts = {"cpu": _cpu(what, memory, now, what.timeout), "apps": _apps(what, memory, now)}
    if what.has_gpu:
        parts = {"gpu": _gpu(what, memory, now), **parts}
    evidence = {name: part.as_json() for name, part in parts.items()}
    states = {part.state for part in parts.values()}
    state = next(state for state in (State.IN_USE, State.UNKNOWN, State.IDLE) if state in states)
    if state is not State.IDLE:
        return Verdict(state, None, None, evidence)
    since = max(part.since for part in parts.values() if part.since is not None)
    pause_at = since + what.timeout + _deaf_within(what.deaf, since, now)
    return Verdict(state, since, max(pause_at, what.kept_until or pause_at), evidence)


def _gpu(what: Circumstances, memory: Memory, now: datetime) -> Part:
    """A kernel's stamp decides where there is one, whatever the percentage says (it is known to stick); else the percentage."""
    gpu = memory.gpu
    if gpu is None or not _is_fresh(memory.gpu_at, now):
        return Part(State.UNKNOWN, facts={"why": "no_sample"})
    facts: dict[str, Any] = {
        "source": gpu.source.value,
        "last_kernel_at": _text(gpu.last_kernel_at),
        "use_percent": gpu.use_percent,
        "quiet_below_percent": GPU_QUIET_PERCENT,
    }
    if not gpu.healthy:
        return Part(State.UNKNOWN, facts=facts | {"why": "monitor_down"})
    if not gpu.present:
        if gpu.source not in _OWN_PROCESSES:
            return Part(State.UNKNOWN, facts=facts | {"why": "no_series"})
        return _quiet(what, memory.gpu_busy_at, now, facts | ({} if memory.gpu_busy_at else {"why": "never_used"}))
    if gpu.last_kernel_at is None and gpu.use_percent is None:
        return Part(State.UNKNOWN, facts=facts | {"why": "not_measured"})
    if gpu.last_kernel_at is not None:
        return _quiet(what, memory.gpu_busy_at, now, facts)
    if (gpu.use_percent or 0) >= GPU_QUIET_PERCENT:
        return Part(State.IN_USE, facts=facts)
    return _quiet(what, _latest(memory.gpu_busy_at, memory.gpu_known_since), now, facts, stamped=False)


def _cpu(what: Circumstances, memory: Memory, now: datetime, window: timedelta) -> Part:
    """Quiet since the earliest reading from which on the mean was below 5 % of the request."""
    facts: dict[str, Any] = {"quiet_below_percent": CPU_QUIET_PERCENT, "request_milli": what.cpu_milli}
    if not memory.cpu or not _is_fresh(memory.cpu[-1][0], now):
        return Part(State.UNKNOWN, facts=facts | {"why": "no_sample"})
    points = _readings(what, memory)
    if len(points) < 2:
        return Part(State.UNKNOWN, facts=facts | {"why": "no_sample"})
    facts["mean_percent"] = _mean_percent(what, points, now, window)
    since = _cpu_quiet_since(what, points, now, window)
    if since is None:
        return Part(State.IN_USE, facts=facts)
    return Part(State.IDLE, since, facts)


def _cpu_quiet_since(
    what: Circumstances, points: Sequence[tuple[datetime, int]], now: datetime, window: timedelta
) -> datetime | None:
    """The earliest moment of the window from which on the mean was quiet; further back while every step was quiet too.

    The mean is over what has passed since that moment: who keeps using a little more than is quiet never begins to count.
    """
    spent, since, newest = 0, None, points[-1][0]
    for older, newer in _steps(points):
        used = _increase(older[1], newer[1])
        if newer[0] <= now - window and used >= _allowed_usec(what.cpu_milli, newer[0] - older[0]):
            break
        spent += used
        if newer[0] <= now - window or spent < _allowed_usec(what.cpu_milli, min(newest - older[0], window)):
            since = older[0]
        elif older[0] <= now - window:
            break  # the window as a whole is not quiet: what lies before it does not matter
        if older[0] <= what.running_since:
            break
    return None if since is None else max(since, what.running_since)


def _readings(what: Circumstances, memory: Memory) -> list[tuple[datetime, int]]:
    """The counter's readings; one that began with the run began at 0, at the latest when the run was ready."""
    whole = list(memory.cpu)
    if memory.cpu_epoch is None and whole[0][0] > what.running_since:
        whole.insert(0, (what.running_since, 0))
    elif memory.cpu_epoch is None and len(whole) == 1:
        whole.insert(0, whole[0])
    return whole


def _steps(
    points: Sequence[tuple[datetime, int]],
) -> Sequence[tuple[tuple[datetime, int], tuple[datetime, int]]]:
    """Neighbouring readings, newest first."""
    return list(zip(reversed(points[:-1]), reversed(points[1:]), strict=True))


def _increase(older: int, newer: int) -> int:
    """How far the counter went; one that fell was begun anew."""
    return newer - older if newer >= older else newer


def _allowed_usec(cpu_milli: int, span: timedelta) -> int:
    return span // timedelta(microseconds=1) * cpu_milli * CPU_QUIET_PERCENT // 100_000


def _mean_percent(
    what: Circumstances, points: Sequence[tuple[datetime, int]], now: datetime, window: timedelta
) -> float:
    """The mean over the window, or over the life of a younger run, as share of the request."""
    start = max(now - window, what.running_since)
    spent, since = 0, points[-1][0]
    for older, newer in _steps(points):
        spent, since = spent + _increase(older[1], newer[1]), older[0]
        if since <= start:
            break
    span = max((points[-1][0] - since) // timedelta(microseconds=1), 1)
    return round(spent * 100_000 / (span * max(what.cpu_milli, 1)), 1)


def _apps(what: Circumstances, memory: Memory, now: datetime) -> Part:
    facts: dict[str, Any] = {
        "each": [
            {"app": app.app, "known": app.known, "busy": app.busy, "last_activity_at": _text(app.active_at)}
            for app in memory.apps
        ]
    }
    if not memory.apps or not _is_fresh(memory.at, now):
        return Part(State.UNKNOWN, facts=facts | {"why": "no_sample"})
    if any(app.busy for app in memory.apps):
        return Part(State.IN_USE, facts=facts)
    part = _quiet(what, memory.app_active_at, now, facts)
    if part.state is State.IDLE and not all(app.known for app in memory.apps):
        return Part(State.UNKNOWN, facts=facts | {"why": "no_answer"})
    return part


def _quiet(
    what: Circumstances, used_at: datetime | None, now: datetime, facts: Mapping[str, Any], *, stamped: bool = True
) -> Part:
    """Quiet since it was last used; in use while that is just now. `stamped`: the moment is use, not the first look."""
    if stamped and used_at is not None and now - used_at < JUST_NOW:
        return Part(State.IN_USE, facts=facts)
    return Part(State.IDLE, max(what.running_since, used_at or what.running_since), facts)


def _is_fresh(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at <= FRESH


def _deaf_within(gaps: Sequence[Gap], since: datetime, until: datetime) -> timedelta:
    """How much of a stretch was deaf; the gaps do not overlap."""
    heard_nothing = (min(gap.until, until) - max(gap.since, since) for gap in gaps)
    return sum((span for span in heard_nothing if span > timedelta(0)), timedelta(0))


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")
