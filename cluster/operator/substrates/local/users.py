"""A numeric user of its own for each pod, when the operator is root and the machine allows it.

Guarantees: a number is held by one living pod at a time and never by an account of the machine; group numbers belong
to claims, so that a read-only holder can read through the group. As an ordinary user there are none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import subprocess
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from cluster.operator.state import Unavailable

log = logging.getLogger(__name__)

POD_NUMBERS = range(40_000, 50_000)
CLAIM_NUMBERS = range(50_000, 60_000)  # apart from the pods', whose group has the number of their user
_NOBODY_YET = POD_NUMBERS[-1]


class SessionUsers(StrEnum):
    """Whether pods get users of their own: where possible, never, or the operator refuses to start."""

    AUTO = "auto"
    OFF = "off"
    REQUIRE = "require"


class SessionUsersError(RuntimeError):
    """Users of their own were required and are not possible; the message says why."""


def separate_users(mode: SessionUsers, *, folders: Collection[Path], programs: Collection[Path]) -> bool:
    """Whether pods can have users of their own: we are root, and such a user reaches the folders and the programs.

    Raises `SessionUsersError` when they are required and impossible; warns when they are merely impossible for root.
    """
    if mode is SessionUsers.OFF or (os.geteuid() != 0 and mode is SessionUsers.AUTO):
        return False
    obstacle = "only root can give sessions a user of their own" if os.geteuid() else _obstacle(folders, programs)
    if obstacle is None:
        return True
    if mode is SessionUsers.REQUIRE:
        raise SessionUsersError(obstacle)
    log.warning("sessions run as the operator's own user (root): %s", obstacle)
    return False


def _obstacle(folders: Collection[Path], programs: Collection[Path]) -> str | None:
    script = 'for p; do if [ -d "$p" ]; then cd "$p" || exit 1; else "$p" --version >/dev/null 2>&1 || exit 1; fi; done'
    for path in (*folders, *programs):
        try:
            probe = subprocess.run(
                ["/bin/sh", "-c", script, "sh", str(path)],
                user=_NOBODY_YET,
                group=_NOBODY_YET,
                extra_groups=[],
                cwd="/",
                env={"PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"another user cannot be taken on: {error}"
        if probe.returncode != 0:
            return f"another user cannot reach {path}: a folder above it, or what it links to, is private"
    return None


def free_number(numbers: range, taken: Collection[int], *, start: Path) -> int:
    """A number that is not taken and no account of the machine. Raises `Unavailable` when all are taken.

    The search begins at a place that depends on the folder `start`: operators of one machine keep out of each other's way.
    """
    first = int.from_bytes(hashlib.sha256(os.fsencode(start.resolve())).digest()[:4], "big") % len(numbers)
    for number in (*numbers[first:], *numbers[:first]):
        if number not in taken and not _is_account(number):
            return number
    raise Unavailable(f"every number from {numbers.start} to {numbers.stop - 1} is taken")


def _is_account(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True
