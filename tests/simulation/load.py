"""What a run costs: processor seconds of this process and of its PostgreSQL, and the load beside it.

Wall time says little on a shared machine; a month "in at most five minutes on two cores" is judged on both.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reading:
    """Seconds at one moment."""

    wall: float
    python: float
    database: float

    @classmethod
    def now(cls) -> Reading:
        """Read the clocks."""
        return cls(time.monotonic(), time.process_time(), _database_seconds())

    def since(self, before: Reading) -> str:
        """What it took, in words."""
        wall, python, database = (
            self.wall - before.wall,
            self.python - before.python,
            self.database - before.database,
        )
        return f"{wall:.0f} s (processor: {python:.0f} s Python, {database:.0f} s PostgreSQL; load {os.getloadavg()[0]:.1f})"


def _database_seconds() -> float:
    """Of all of the server's processes, those that ended included; 0 where the server runs elsewhere."""
    connection.ensure_connection()
    try:
        server = _stat(connection.connection.info.backend_pid)[1]
        everybody = [_stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except (OSError, IndexError):
        return 0.0
    mine = [seconds for _name, parent, seconds, _reaped in everybody if parent == server]
    return (sum(mine) + _stat(server)[3]) / _TICKS


def _stat(pid: int) -> tuple[str, int, int, int]:
    """Name, parent, ticks of its own, ticks of its ended children; nothing for a process that ended meanwhile."""
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return "", -1, 0, 0
    fields = tail.split()
    return head, int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
