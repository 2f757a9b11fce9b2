"""The demo's processes: which is which, and killing one as a machine would.

Only processes below the demo's own supervisor are ever looked at, so nothing else on the machine can be hit.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass

import psutil

from tests.e2e.running import Demo

VICTIMS = ("web", "internal", "worker", "beat", "operator", "postgres")
_WORDS = {
    "web": ("uvicorn", "gshare_site.asgi:application"),
    "internal": ("uvicorn", "gshare_site.asgi_internal:application"),
    "worker": ("celery", "worker"),
    "beat": ("celery", "beat"),
    "operator": ("cluster.operator",),
    "postgres": ("postgres", "-D"),
}


@dataclass(frozen=True, order=True)
class Process:
    """A process that cannot be mistaken for a later one with its number."""

    pid: int
    started: float


def find(demo: Demo, name: str) -> psutil.Process | None:
    """The supervisor's child that is this program; None while it is being started again."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(demo.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                words = child.cmdline()
                if all(any(word in part for part in words) for word in _WORDS[name]):
                    return child
    return None


def kill(demo: Demo, name: str) -> bool:
    """kill -9, without a word; False when it was not there to be killed."""
    process = find(demo, name)
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
        return True
    return False


def belongings(session_id: str) -> list[Process]:
    """What runs for a session: started for it or working in its folder. Zombies are nobody's."""
    name, found = session_id.replace("-", ""), []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "status", "create_time"]):
        told = " ".join([*(process.info["cmdline"] or ()), process.info["cwd"] or ""])
        if process.info["status"] != psutil.STATUS_ZOMBIE and name in told:
            found.append(Process(process.info["pid"], process.info["create_time"]))
    return sorted(found)
