"""One operator leads a cluster, another one waits.

Guarantees: the lock is the kernel's (flock), so it ends with the process however that ends, and the sessions that the
operator started do not inherit it. It binds operators that share a state folder, which is what holds a cluster's pods.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

from cluster.operator.pace import wait_until

log = logging.getLogger(__name__)

_TRY_SECONDS = 0.5


class Leadership:
    """Held from `acquire` to the end of the process or `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def try_acquire(self) -> bool:
        """Take the lead if nobody has it."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._handle = handle
        return True

    async def acquire(self) -> None:
        """Wait until the lead is ours."""
        if self.try_acquire():
            return
        log.warning("another operator leads (%s); waiting", self._path)
        await wait_until(self.try_acquire, every=_TRY_SECONDS)
        log.info("leading now")

    def release(self) -> None:
        """Give the lead back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
