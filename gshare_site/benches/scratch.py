"""A throw-away installation for benches that need real services: own PostgreSQL and Valkey, migrated, gone afterwards.

Guarantees: nothing of a configured installation is read or written; everything that was started is ended.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from gshare_site.embedded import valkey
from gshare_site.embedded.postgres import SUPERUSER, PrivatePostgres
from gshare_site.provision import APP_ROLE, OWNER_ROLE, create_database, create_role

ROOT = Path(__file__).resolve().parent.parent.parent
DATABASE = "gshare_bench"
PGBENCH = "pgbench"
"""A second, empty database that the serving role owns, on the same server: for what to compare with."""
START_SECONDS = 90.0
END_SECONDS = 20.0


@contextmanager
def installation() -> Iterator[dict[str, str]]:
    """The environment of processes that serve the throw-away installation."""
    folder = Path(tempfile.mkdtemp(prefix="gshare-bench-", dir="/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        password = secrets.token_hex(16)
        postgres = PrivatePostgres(folder / "data", folder / "s", durable=True)
        postgres.initialise(password)
        postgres.prepare_start()
        database = stack.enter_context(running(postgres.command(), folder / "postgres.log"))
        postgres.wait_until_ready(password, within=START_SECONDS, alive=lambda: database.poll() is None)
        cache = stack.enter_context(running(valkey.valkey_command(folder / "valkey.sock"), folder / "valkey.log"))
        valkey.wait_until_ready(folder / "valkey.sock", within=START_SECONDS, alive=lambda: cache.poll() is None)
        with psycopg.connect(postgres.url(SUPERUSER, password, "postgres"), autocommit=True) as connection:
            create_role(connection, OWNER_ROLE, password)
            create_role(connection, APP_ROLE, password)
            create_database(connection, DATABASE, owner=OWNER_ROLE)
            create_database(connection, PGBENCH, owner=APP_ROLE)
        env = {name: value for name, value in os.environ.items() if not name.startswith("GSHARE_")}
        env |= {
            "DJANGO_SETTINGS_MODULE": "gshare_site.settings",
            "GSHARE_ENV_FILE": os.devnull,
            "GSHARE_HOME": str(folder / "home"),
            "GSHARE_SECRET_KEY": secrets.token_hex(32),
            "GSHARE_DATABASE_URL": postgres.url(APP_ROLE, password, DATABASE),
            "GSHARE_REDIS_URL": valkey.valkey_url(folder / "valkey.sock"),
            "GSHARE_LOG_LEVEL": "WARNING",
        }
        owner = {"GSHARE_MIGRATION_DATABASE_URL": postgres.url(OWNER_ROLE, password, DATABASE)}
        run([sys.executable, "manage.py", "migrate_all", "--verbosity=0"], {**env, **owner})
        yield env


@contextmanager
def running(
    command: list[str], log: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, asked to end afterwards and killed if it does not."""
    with (log or Path(os.devnull)).open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_SECONDS)


@contextmanager
def serving(application: str, env: Mapping[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """uvicorn on a loopback port with the flags of the embedded default, ready when this yields."""
    command = [sys.executable, "-m", "uvicorn", application, "--host=127.0.0.1", f"--port={port}"]
    command += ["--http=httptools", "--ws=websockets-sansio", "--ws-per-message-deflate=false", "--no-access-log"]
    command += ["--no-server-header", "--no-proxy-headers", "--log-level=warning"]
    with running(command, Path(env["GSHARE_HOME"]).parent / "web.log", env) as process:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ValueError(f"{application} does not listen (see its log)")
            time.sleep(0.05)
        yield process


def run(command: list[str], env: Mapping[str, str], *, given: str = "") -> str:
    """What a command prints. Raises ValueError with its complaints when it fails."""
    done = subprocess.run(command, cwd=ROOT, env=env, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{' '.join(command[1:3])} failed: {done.stderr[-2000:]}")
    return done.stdout


def analyse(env: Mapping[str, str] = os.environ) -> None:
    """What hours of running do: dead rows cleared, statistics taken. As the tables' owner: of the serving role PostgreSQL takes none, and says nothing."""
    owner = make_conninfo(env["GSHARE_DATABASE_URL"], user=OWNER_ROLE)
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


def postgres_pid(env: Mapping[str, str]) -> int:
    """The process of the installation's database server."""
    return int((Path(env["GSHARE_HOME"]).parent / "data" / "postmaster.pid").read_text().split("\n", 1)[0])


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
