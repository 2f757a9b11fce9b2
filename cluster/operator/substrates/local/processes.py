"""Processes by what /proc says of them: who is alive, which belong to a pod, how to signal them.

Guarantees: a zombie is not alive; a process is a pid and its start time, so that a reused pid is another process; a
signal reaches the process that was meant (pidfd). A process belongs to a pod when its environment carries the pod's
mark, when it runs as the pod's own user, or when an ancestor does. One that wiped its environment *and* left its
parents *and* runs as the operator's user is not found: only separate users close that hole.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

MARK = "GSHARE_POD"
MARK_APP = "GSHARE_APP"

_PROC = Path("/proc")
_PTYS = Path("/dev/pts")
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A pid and when it started, in clock ticks since boot."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Stat:
    """A living process: its parent, its terminal (the number of its pty; None without one), what it used.

    `own_ticks`: CPU time of its own, `all_ticks`: with that of its children that ended and were waited for; clock ticks.
    """

    process: Process
    parent: int
    terminal: int | None
    own_ticks: int
    all_ticks: int
    memory_pages: int


def process_of(pid: int) -> Process | None:
    """The living process with that pid; None when there is none, or only a zombie."""
    stat = _stat(pid)
    return stat.process if stat else None


def is_alive(process: Process) -> bool:
    """Whether this very process still runs."""
    return process_of(process.pid) == process


def host_life() -> str:
    """Names this life of the machine or container: another value means that every process before is gone."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    space = (_PROC / "self/ns/pid").readlink()
    first = _stat(1)
    return f"{boot}/{space}/{first.process.started if first else 0}"


def processes_of(mark: str, *, app: str | None = None, uid: int | None = None) -> list[Process]:
    """Every living process of the pod with that mark and of its user `uid`; of one application only, if `app` is given.

    `uid` is ignored with `app`: the applications of a pod share its user.
    """
    stats = {stat.process.pid: stat for stat in _all_stats()}
    needles = [f"{MARK}={mark}".encode()] + ([f"{MARK_APP}={app}".encode()] if app else [])
    seeds = {
        pid for pid in stats if _is_marked(pid, needles) or (app is None and uid is not None and _user_of(pid) == uid)
    }
    return sorted(stats[pid].process for pid in _with_descendants(seeds, stats))


def stats_of(pods: Mapping[str, int | None]) -> dict[str, list[Stat]]:
    """Every living process of each pod (mark → its user, if it has one), in one reading of /proc for all."""
    stats = {stat.process.pid: stat for stat in _all_stats()}
    seeds: dict[str, set[int]] = {mark: set() for mark in pods}
    by_mark = {f"{MARK}={mark}".encode(): mark for mark in pods}
    by_user = {uid: mark for mark, uid in pods.items() if uid is not None}
    for pid in stats:
        mark = next((by_mark[entry] for entry in _environment(pid) if entry in by_mark), None)
        mark = mark or (by_user.get(_user_of(pid) or 0) if by_user else None)
        if mark is not None:
            seeds[mark].add(pid)
    return {mark: [stats[pid] for pid in sorted(_with_descendants(pids, stats))] for mark, pids in seeds.items()}


def _with_descendants(seeds: set[int], stats: Mapping[int, Stat]) -> set[int]:
    """These processes and all that descend from them; never this one."""
    found = set(seeds)
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    front = list(found)
    while front:
        for child in children.get(front.pop(), ()):
            if child not in found:
                found.add(child)
                front.append(child)
    found.discard(os.getpid())
    return found


def app_of(process: Process) -> str | None:
    """The application whose mark a process carries."""
    prefix = f"{MARK_APP}=".encode()
    found = next((entry for entry in _environment(process.pid) if entry.startswith(prefix)), None)
    return found.removeprefix(prefix).decode(errors="replace") if found else None


def last_input_of(terminal: int) -> datetime | None:
    """When somebody last typed into a pty; None before the first time, and when it has gone.

    The kernel moves a terminal's access time when its programs read what was typed, and its modification time when they
    write (`tty_update_time` in drivers/tty/tty_io.c), both to whole multiples of about 8 s; opening one sets both.
    """
    try:
        found = (_PTYS / str(terminal)).stat()
    except OSError:
        return None
    return datetime.fromtimestamp(found.st_atime, UTC) if found.st_atime > found.st_ctime else None


def users_of_processes() -> set[int]:
    """The real users of every process of the machine."""
    return {uid for stat in _all_stats() if (uid := _user_of(stat.process.pid)) is not None}


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Signal each of the processes that is still itself."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            handle = os.pidfd_open(process.pid)
            try:
                if is_alive(process):
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def _all_stats() -> Iterator[Stat]:
    for entry in os.listdir(_PROC):  # noqa: PTH208 (names only: a stat of each would double the cost)
        if entry.isdigit():
            stat = _stat(int(entry))
            if stat is not None:
                yield stat


def _stat(pid: int) -> Stat | None:
    try:
        raw = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # proc(5): "pid (comm) state ppid …", comm may hold anything, starttime is field 22.
    fields = raw[raw.rindex(b")") + 2 :].split()
    if fields[0].decode() in _DEAD:
        return None
    user, system, ended_user, ended_system = (int(field) for field in fields[11:15])
    return Stat(
        Process(pid, int(fields[19])),
        parent=int(fields[1]),
        terminal=_pty_number(int(fields[4])),
        own_ticks=user + system,
        all_ticks=user + system + ended_user + ended_system,
        memory_pages=int(fields[21]),
    )


def _pty_number(device: int) -> int | None:
    """The number of a pty's device (its major is 136: Linux, devices.txt); None for no terminal and any other."""
    device &= 0xFFFFFFFF  # proc(5) prints it signed
    return os.minor(device) if os.major(device) == 136 else None


def _is_marked(pid: int, needles: list[bytes]) -> bool:
    entries = _environment(pid)
    return all(needle in entries for needle in needles)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []  # ended meanwhile, or of another user: then its user tells


def _user_of(pid: int) -> int | None:
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return None  # ended meanwhile
    real = next((line for line in status.splitlines() if line.startswith("Uid:")), "")
    return int(real.split()[1]) if real else None
