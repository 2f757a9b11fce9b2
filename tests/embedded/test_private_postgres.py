"""The private PostgreSQL survives being killed, and never starts twice."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gshare_site.embedded.postgres import SUPERUSER, PostgresError, PrivatePostgres

PASSWORD = "tests-only"
ROOT = Path(__file__).resolve().parent.parent.parent


class Running:
    """A durable server in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.server = PrivatePostgres(folder / "data", folder / "s")
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.server.initialise(PASSWORD)
        self.server.prepare_start()
        with self.log.open("ab") as log:
            self.process = process = subprocess.Popen(self.server.command(), stdout=log, stderr=log, cwd="/")
        self.server.wait_until_ready(PASSWORD, within=30, alive=lambda: process.poll() is None)

    def end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.server.conninfo(SUPERUSER, PASSWORD), autocommit=True)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="gst-", dir="/tmp") as folder:
        running = Running(Path(folder))
        running.start()
        yield running
        running.end(signal.SIGINT)


def test_it_comes_back_after_a_kill_with_every_acknowledged_row(running: Running) -> None:
    with running.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("TRUNCATE kept")
        for n in range(200):
            connection.execute("INSERT INTO kept VALUES (%s)", [n])
        running.process.kill()
    running.process.wait(10)
    running.start()
    with running.connect() as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (200,)


def test_a_running_server_is_not_started_a_second_time(running: Running) -> None:
    with pytest.raises(PostgresError, match="already runs"):
        PrivatePostgres(running.server.data, running.server.sockets).prepare_start()


def test_a_pid_file_that_names_another_process_does_not_keep_it_from_starting(running: Running) -> None:
    running.end(signal.SIGINT)
    pid_file = running.server.data / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{running.server.data}\n")
    running.start()
    with running.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_only_its_owner_can_reach_it_and_only_with_the_password(running: Running) -> None:
    assert running.server.sockets.stat().st_mode & 0o077 == 0
    assert running.server.data.stat().st_mode & 0o077 == 0
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(running.server.conninfo(SUPERUSER, "wrong"))
    with running.connect() as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW data_checksums").fetchone() == ("on",)


def test_a_socket_path_that_the_kernel_would_cut_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PostgresError, match="longer than"):
        PrivatePostgres(tmp_path / "data", tmp_path / ("x" * 100)).command()


def test_data_of_another_major_version_is_refused_with_what_helps(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(PostgresError, match="made by PostgreSQL 9"):
        PrivatePostgres(data, tmp_path / "s").initialise(PASSWORD)


NOBODYS_SERVER = """
import pathlib, subprocess, sys
import psycopg
from gshare_site.embedded.postgres import SUPERUSER, PrivatePostgres
folder = pathlib.Path(sys.argv[1])
server = PrivatePostgres(folder / "pg" / "data", folder / "s")
server.initialise("tests-only")
server.prepare_start()
process = subprocess.Popen(server.command(), cwd="/", stderr=subprocess.DEVNULL)
try:
    server.wait_until_ready("tests-only", within=60, alive=lambda: process.poll() is None)
    print(pathlib.Path(f"/proc/{process.pid}").stat().st_uid)
finally:
    process.send_signal(2)
    process.wait(30)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_where_user_namespaces_are_blocked_root_runs_it_as_nobody() -> None:
    with tempfile.TemporaryDirectory(prefix="gst-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        blocked = Path(folder) / "bin" / "unshare"
        blocked.parent.mkdir()
        blocked.write_text("#!/bin/sh\nexit 1\n")
        blocked.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", NOBODYS_SERVER, folder],
            cwd=ROOT,
            env={**os.environ, "PATH": f"{blocked.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["65534"]
