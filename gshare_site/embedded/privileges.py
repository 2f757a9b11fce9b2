"""Running children that refuse root, and children that must not outlive us, for root and everybody else.

PostgreSQL refuses uid 0. Root therefore runs it in a user namespace in which it is uid 1000 (files stay root's own), or, where
user namespaces are blocked, as `nobody`. util-linux's `unshare` and `setpriv` do both; every Debian has them.
"""

import os
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path

NOBODY = 65534


class PrivilegeError(Exception):
    """This machine offers no way to run the program; the message says what is missing."""


@cache
def user_namespaces_work() -> bool:
    """Whether root may open a user namespace here (containers often forbid it)."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    probe = [unshare, "--user", "--map-user=1000", "--map-group=1000", "--", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def unprivileged(command: list[str]) -> list[str]:
    """The command as a process that is not uid 0; unchanged for an ordinary user."""
    if os.geteuid() != 0:
        return command
    if user_namespaces_work():
        return ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--", *command]
    if shutil.which("setpriv") is None:
        raise PrivilegeError("root needs util-linux (unshare or setpriv) to run PostgreSQL; apt-get install util-linux")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--", *command]


def give_to_unprivileged(*folders: Path) -> None:
    """Make the folders belong to whom `unprivileged` will run as: nothing to do unless that is `nobody`."""
    if os.geteuid() != 0 or user_namespaces_work():
        return
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def dying_with_parent(command: list[str], how: signal.Signals = signal.SIGTERM) -> list[str]:
    """The command as a process that gets `how` when its parent is gone, so that kill -9 of us leaves nothing behind."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", how.name.removeprefix("SIG"), "--", *command] if setpriv else command
