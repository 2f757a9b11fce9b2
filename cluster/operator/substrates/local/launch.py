"""Starting one application: a small shell (the shim) that runs it and writes down how it ended.

Guarantees: the application is detached (a session of its own), gets exactly the environment built here and no file of
the operator; its exit status reaches the operator even if the operator was not there, through a file that the session
cannot open. Whoever kills the shim leaves no status: that is a pod that vanished.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.operator.substrates.local.folders import Tree
from cluster.operator.substrates.local.processes import MARK, MARK_APP, Process, process_of
from cluster.operator.substrates.local.readonly import ReadOnlyMounts, User
from cluster.operator.substrates.local.recipes import Command
from gshare_core.contract import Endpoint, SessionSpec, TcpEndpoint, UnixEndpoint

_SOCKET_PATH_BYTES = 100  # sun_path has 108, Jupyter and ttyd add nothing to it
# stdin is the file for the exit status: moved to descriptor 3, which the application does not inherit. The shim stays
# through the signals that end the application. Sessions die before the control plane when memory runs out.
_SHIM = (
    'exec 3<&0 </dev/null; trap : TERM INT HUP; echo 300 >/proc/self/oom_score_adj 2>/dev/null; "$@" 3>&-; echo $? >&3'
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose process it is: a number for user and group, and groups of claims; None is the operator's own user.

    `read_only` are folders that it must not write, whoever owns them; `mounts` sees to that.
    """

    uid: int | None
    groups: tuple[int, ...] = ()
    umask: int = 0o027
    read_only: tuple[Path, ...] = ()
    mounts: ReadOnlyMounts | None = None


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where the operator keeps an application's words and its exit status."""

    log: Path
    exit: Path


def launch(command: Command, environment: Mapping[str, str], cwd: Path, who: Identity, outlet: Outlet) -> Launched:
    """Start the command under a shim. Raises OSError when it cannot be started."""
    line = ["/bin/sh", "-c", _SHIM, "gshare-session", *command.line]
    behind_mounts = who.mounts is not None and bool(who.read_only)
    if who.mounts is not None and behind_mounts:  # the user is taken on after the mounts were made
        line = who.mounts.around(line, who.read_only, cwd, User(who.uid, who.groups))
    uid = None if behind_mounts else who.uid
    outlet.exit.unlink(missing_ok=True)
    with outlet.log.open("ab") as log, outlet.exit.open("w") as status:
        outlet.log.chmod(0o600)
        child = subprocess.Popen(
            line,
            stdin=status,
            stdout=log,
            stderr=log,
            cwd="/" if behind_mounts else cwd,
            env={**environment, **command.environment},
            start_new_session=True,
            umask=who.umask,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else who.groups,
        )
    return Launched(child, process_of(child.pid))


@dataclass(frozen=True, slots=True)
class Launched:
    """A started shim: the child to reap, and its identity (None when it has ended already)."""

    child: subprocess.Popen[bytes]
    process: Process | None


def endpoint_for(folder: Path, app: str) -> Endpoint:
    """A unix socket in the pod's private folder, free to bind; a loopback port where its path would be too long."""
    path = folder / f"{app}.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES:
        path.unlink(missing_ok=True)
        return UnixEndpoint(str(path))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return TcpEndpoint("127.0.0.1", probe.getsockname()[1])


def environment_of(spec: SessionSpec, tree: Tree, *, mark: str, app: str, path: str) -> dict[str, str]:
    """The whole environment of a session's processes: nothing of the operator's own is passed on."""
    cards = ",".join(spec.gpu.cards) if spec.gpu else ""
    variables = {
        "PATH": path,
        "HOME": str(tree.home),
        "USER": "gshare",
        "LOGNAME": "gshare",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "PS1": r"\w \$ ",
        "TMPDIR": str(tree.tmp),
        "XDG_RUNTIME_DIR": str(tree.tmp),
        "CUDA_VISIBLE_DEVICES": cards,
        "NVIDIA_VISIBLE_DEVICES": cards or "void",
        "MEM_LIMIT": str(spec.resources.memory_mib * 1024 * 1024),
        "CPU_LIMIT": f"{spec.resources.cpu_milli // 1000}.{spec.resources.cpu_milli % 1000:03d}",
        "GSHARE_SESSION": str(spec.session_id),
        "GSHARE_RUN": str(spec.run),
        "GSHARE_SESSION_ROOT": str(tree.root),
        "GSHARE_CARDS": cards,
        "GSHARE_MEMORY_MIB": str(spec.resources.memory_mib),
        "GSHARE_CPU_MILLI": str(spec.resources.cpu_milli),
        MARK: mark,
        MARK_APP: app,
    }
    if spec.gpu:
        variables["GSHARE_VRAM_MIB"] = str(spec.gpu.vram_mib)
        variables["GSHARE_CORE_PERCENT"] = str(spec.gpu.core_percent)
    return variables
