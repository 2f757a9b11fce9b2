"""Volumes that a session may only read: what keeps it from writing them, whatever the files' owners and modes say.

Guarantees: the session's processes live in a mount namespace of their own in which the folder of the claim is mounted
read-only, over itself, so that every path to it is; they hold no right over that namespace, so that they can neither
unmount it nor make it writable. Where the machine allows no namespace, root's separate users still make it so for a
claim that nobody writes meanwhile: its files are root's and closed to writing for all others.
Refuses: to start a session that may only read where none of this works; `obstacle` says why in words.

Separate users (root): `unshare` of mounts, then the user. Else: a user namespace whose root makes the mounts, and another
one inside it in which the session has the operator's own user again, and nothing over the mounts (user_namespaces(7)).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_WORDS = 300
_PROBE_SECONDS = 20
_WROTE = 3

# Arguments: how many claims; of each its folder and mount options; the working directory, reached only now, since one
# from before would lead around the mount; the command. stdin is the file for the exit status (see `launch`).
_MOUNT = """
count=$1; shift
while [ "$count" -gt 0 ]; do
  { mount --bind "$1" "$1" && mount -o "remount,bind,$2" "$1"; } </dev/null || { echo 126 >&0; exit 126; }
  shift 2; count=$((count - 1))
done
cd "$1" || { echo 126 >&0; exit 126; }
shift; exec "$@"
"""
_FLAGS = {os.ST_NOSUID: "nosuid", os.ST_NODEV: "nodev", os.ST_NOEXEC: "noexec"}


@dataclass(frozen=True, slots=True)
class User:
    """Whom the session's processes become; None is the operator's own user."""

    uid: int | None
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs of util-linux that make namespaces; None where there is none."""

    unshare: str | None = field(default_factory=lambda: shutil.which("unshare"))
    setpriv: str | None = field(default_factory=lambda: shutil.which("setpriv"))


class ReadOnlyMounts:
    """What this machine can do. `ground`: a folder in which a trial may be made. A success is tried once."""

    def __init__(self, ground: Path, *, separate_users: bool, tools: Tools | None = None) -> None:
        self._ground = ground
        self._separate = separate_users
        self._tools = tools or Tools()
        self._works = False

    def obstacle(self) -> str | None:
        """Why a namespace cannot keep a session from writing here; None when it can: a trial was refused to write."""
        if self._works:
            return None
        if self._tools.unshare is None:
            return "the program unshare is not there"
        if self._separate and self._tools.setpriv is None:
            return "the program setpriv is not there"
        with tempfile.TemporaryDirectory(prefix="trial-", dir=self._ground) as trial:
            Path(trial).chmod(0o777)
            said = self._try(Path(trial))
        self._works = said is None
        return said

    def around(self, line: Sequence[str], claims: Sequence[Path], cwd: Path, who: User) -> list[str]:
        """The command line that runs `line` in `cwd`, with the claims' folders read-only, as the session's user.

        It is to be started by the operator's own user and stays one process: the pid is the command's.
        """
        mounts = [part for claim in claims for part in (str(claim), _options(claim))]
        script = ["/bin/sh", "-c", _MOUNT, "gshare-mounts", str(len(claims)), *mounts, str(cwd)]
        return [*self._outer(), *script, *self._inner(who), *line]

    def _outer(self) -> list[str]:
        assert self._tools.unshare is not None
        within = [] if self._separate else ["--user", "--map-root-user"]
        return [self._tools.unshare, *within, "--mount", "--propagation", "private", "--"]

    def _inner(self, who: User) -> list[str]:
        if who.uid is None:
            assert self._tools.unshare is not None
            own = [f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
            return [self._tools.unshare, "--user", *own, "--"]
        assert self._tools.setpriv is not None
        groups = [f"--groups={','.join(map(str, who.groups))}"] if who.groups else ["--clear-groups"]
        return [self._tools.setpriv, f"--reuid={who.uid}", f"--regid={who.uid}", *groups, "--inh-caps=-all", "--"]

    def _try(self, trial: Path) -> str | None:
        script = f"if touch inside 2>/dev/null; then exit {_WROTE}; fi; cd /"
        nobody = 65534 if self._separate else None
        line = self.around(["/bin/sh", "-c", script], [trial], trial, User(nobody))
        try:
            ran = subprocess.run(
                line,
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"a mount namespace cannot be tried: {error}"
        if ran.returncode == _WROTE:
            return "a read-only mount could be written"
        return None if ran.returncode == 0 else (ran.stderr.strip() or f"status {ran.returncode}")[-_WORDS:]


def _options(claim: Path) -> str:
    """Read-only, and what the file system below forbids already: a user namespace may not take that away."""
    flags = os.statvfs(claim).f_flag
    return ",".join(["ro", *(word for flag, word in _FLAGS.items() if flags & flag)])
