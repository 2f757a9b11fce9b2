"""Where the embedded default keeps things, and who may look.

Guarantees: secrets and the database are readable by nobody else; the home itself can be passed through (0711) so that
sessions which run as other users reach their own folder; socket paths stay short enough for the kernel.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from gshare_site.config import Config
from gshare_site.environment import EMBEDDED_FILE

PRIVATE, PASSABLE = 0o700, 0o711


class PlaceError(Exception):
    """A folder cannot be used; the message names it and says why."""


@dataclass(frozen=True)
class Places:
    """Paths below GSHARE_HOME."""

    home: Path

    @property
    def database(self) -> Path:
        return self.home / "postgres" / "data"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets.json"

    @property
    def environment(self) -> Path:
        """Addresses and secret key of the serving role, so that `manage.py` commands find the running services."""
        return self.home / EMBEDDED_FILE

    @property
    def demo(self) -> Path:
        return self.home / "demo.json"

    @property
    def demo_users(self) -> Path:
        """The demo's people with the passwords they were given at first."""
        return self.home / "demo-users.json"

    @property
    def lock(self) -> Path:
        return self.home / "up.lock"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def operator(self) -> Path:
        return self.home / "operator"

    @property
    def operator_token(self) -> Path:
        return self.operator / "token.json"

    def make(self) -> None:
        """Make the folders with their modes. Raises PlaceError."""
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=PASSABLE)
            self.home.chmod(PASSABLE)
            for folder, mode in (
                (self.logs, PRIVATE),
                (self.database.parent, PRIVATE),
                (self.operator, PASSABLE),
            ):
                folder.mkdir(exist_ok=True, mode=mode)
                folder.chmod(mode)
        except OSError as error:
            raise PlaceError(f"GSHARE_HOME {self.home} cannot be used: {error.strerror}") from error


def runtime_folder(home: Path) -> Path:
    """A short folder for this home's sockets, each of which lets only its owner in. Raises PlaceError when it is somebody else's.

    It can be passed through (0711), since where user namespaces are blocked PostgreSQL runs as another user below it.
    """
    uid = os.geteuid()
    name = f"gshare-{uid}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}"
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")  # noqa: S108 -- owner and mode are checked below
    folder = (base if base.is_dir() and os.access(base, os.W_OK) else Path("/tmp")) / name  # noqa: S108 -- likewise
    folder.mkdir(mode=PASSABLE, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid:
        raise PlaceError(f"{folder} belongs to somebody else; remove it")
    folder.chmod(PASSABLE)
    return folder


def session_venv() -> Path:
    """The environment of session applications that `make setup` makes: world-readable for root, whose sessions are other users."""
    base = Path("/var/cache/gshare") if os.geteuid() == 0 else user_cache_path("gshare", appauthor=False)
    return base / "session-venv"


def session_programs(config: Config) -> dict[str, Path]:
    """The operator's variables for the programs of local sessions: what is set, else what `make setup` made."""
    venv = session_venv()
    made = {"GSHARE_SESSION_PYTHON": venv / "bin" / "python", "GSHARE_TTYD": venv / "bin" / "ttyd"}
    given = {
        "GSHARE_SESSION_PYTHON": config.session_python,
        "GSHARE_TTYD": config.ttyd,
        "GSHARE_CODE_SERVER": config.code_server,
    }
    found = {name: path for name, path in made.items() if path.exists()}
    return found | {name: path for name, path in given.items() if path is not None}


def write_private(path: Path, text: str) -> None:
    """Replace the file in one step, readable by its owner only, from its first byte on."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def kept_secrets(path: Path) -> Mapping[str, str]:
    """The home's own secrets, made at the first start and kept for ever."""
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    wanted = ("secret_key", "superuser_password", "owner_password", "app_password")
    missing = [name for name in wanted if name not in known]
    if missing:
        known.update({name: secrets.token_urlsafe(48) for name in missing})
        write_private(path, json.dumps(known, indent=1) + "\n")
    return known
