"""Processes of tests that end with the run, even when that is killed: what it leaves behind would answer in another's place."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
# "Parent" means the thread that forked: it must live as long as the run, whichever thread of a test asks.
_SPAWNER = ThreadPoolExecutor(1, thread_name_prefix="spawner")


def spawn(command: Sequence[str], *, at_parents_end: signal.Signals, **options: Any) -> subprocess.Popen[bytes]:
    """`Popen` in a session of its own, without input; `at_parents_end` is what it is sent when the run ends."""

    def start() -> subprocess.Popen[bytes]:
        at_end = partial(_LIBC.prctl, _PR_SET_PDEATHSIG, at_parents_end)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=at_end,  # noqa: PLW1509 -- one system call, which takes no lock
            **options,
        )

    return _SPAWNER.submit(start).result()
